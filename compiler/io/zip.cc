// An archive ends with a record that tells where its directory is; the directory names the members with the places of
// their headers, behind which their bytes begin. Sizes of 4 GB and more stand in an extra field.
#include "compiler/io/zip.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <zlib.h>

namespace heddle {
namespace {

constexpr size_t end_bytes = 22, entry_bytes = 46, header_bytes = 30, locator_bytes = 20, large_end_bytes = 56;
constexpr uint64_t most_ratio = 1032; // of deflate

class Archive {
public:
  explicit Archive(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T> T at(uint64_t offset) const {
    T out;
    std::memcpy(&out, bytes_.data() + offset, sizeof out);
    return out;
  }
  bool has(uint64_t offset, uint64_t count) const { return offset <= bytes_.size() && count <= bytes_.size() - offset; }
  bool is(uint64_t offset, const char (&mark)[5]) const {
    return has(offset, 4) && std::memcmp(bytes_.data() + offset, mark, 4) == 0;
  }
  std::span<const std::byte> part(uint64_t offset, uint64_t count) const { return bytes_.subspan(offset, count); }

  /// Where the last record is; nothing where there is none.
  std::optional<uint64_t> end() const {
    constexpr uint64_t most_comment = 65535;
    for (uint64_t comment = 0; comment <= most_comment && end_bytes + comment <= bytes_.size(); ++comment)
      if (uint64_t at = bytes_.size() - end_bytes - comment;
          is(at, "PK\x05\x06") && this->at<uint16_t>(at + 20) == comment)
        return at;
    return std::nullopt;
  }

private:
  std::span<const std::byte> bytes_;
};

} // namespace

/// Replaces the numbers that did not fit by those of the extra field.
static bool read_large(const Archive &archive, uint64_t at, uint64_t end, std::vector<uint64_t *> numbers) {
  constexpr uint16_t large_numbers = 1;
  std::erase_if(numbers, [](const uint64_t *number) { return *number != UINT32_MAX; });
  while (!numbers.empty()) {
    if (end - at < 4)
      return false;
    uint16_t kind = archive.at<uint16_t>(at), size = archive.at<uint16_t>(at + 2);
    at += 4;
    if (size > end - at)
      return false;
    if (kind == large_numbers) {
      if (size < 8 * numbers.size())
        return false;
      for (size_t i = 0; i < numbers.size(); ++i)
        *numbers[i] = archive.at<uint64_t>(at + 8 * i);
      return true;
    }
    at += size;
  }
  return true;
}

Result<std::vector<ZipMember>> read_zip(const std::string &path, std::span<const std::byte> bytes) {
  auto damaged = [&](const std::string &why) {
    return Error{path + ": is a damaged or truncated ZIP archive: " + why};
  };
  Archive archive(bytes);
  std::optional<uint64_t> end = archive.end();
  if (!end)
    return damaged("it has no directory at its end");
  uint64_t count = archive.at<uint16_t>(*end + 10), at = archive.at<uint32_t>(*end + 16);
  if (count == UINT16_MAX || at == UINT32_MAX) {
    if (*end < locator_bytes || !archive.is(*end - locator_bytes, "PK\x06\x07"))
      return damaged("the place of its directory is missing");
    uint64_t large = archive.at<uint64_t>(*end - locator_bytes + 8);
    if (!archive.has(large, large_end_bytes) || !archive.is(large, "PK\x06\x06"))
      return damaged("the place of its directory is wrong");
    count = archive.at<uint64_t>(large + 32);
    at = archive.at<uint64_t>(large + 48);
  }
  std::vector<ZipMember> out;
  for (uint64_t i = 0; i < count; ++i) {
    if (!archive.has(at, entry_bytes) || !archive.is(at, "PK\x01\x02"))
      return damaged("its directory ends after " + std::to_string(i) + " of " + std::to_string(count) + " members");
    uint64_t name = archive.at<uint16_t>(at + 28), extra = archive.at<uint16_t>(at + 30),
             comment = archive.at<uint16_t>(at + 32);
    if (!archive.has(at + entry_bytes, name + extra + comment))
      return damaged("its directory ends within a member");
    std::span<const std::byte> text = archive.part(at + entry_bytes, name);
    ZipMember member;
    member.name.assign(reinterpret_cast<const char *>(text.data()), text.size());
    uint16_t flags = archive.at<uint16_t>(at + 8), method = archive.at<uint16_t>(at + 10);
    if (flags & 1)
      return Error{path + ": the member `" + member.name + "` is encrypted"};
    if (method != Z_NO_COMPRESSION && method != Z_DEFLATED)
      return Error{path + ": the member `" + member.name + "` is compressed by method " + std::to_string(method) +
                   "; only stored and deflated members are read"};
    member.deflated = method == Z_DEFLATED;
    member.crc = archive.at<uint32_t>(at + 16);
    uint64_t packed = archive.at<uint32_t>(at + 20), header = archive.at<uint32_t>(at + 42);
    member.size = archive.at<uint32_t>(at + 24);
    uint64_t extra_at = at + entry_bytes + name;
    if (!read_large(archive, extra_at, extra_at + extra, {&member.size, &packed, &header}))
      return damaged("the size of the member `" + member.name + "` is missing");
    if (!archive.has(header, header_bytes) || !archive.is(header, "PK\x03\x04"))
      return damaged("the member `" + member.name + "` is not where its directory says");
    uint64_t begin = header + header_bytes + archive.at<uint16_t>(header + 26) + archive.at<uint16_t>(header + 28);
    if (!archive.has(begin, packed) || (!member.deflated && packed != member.size))
      return damaged("the member `" + member.name + "` has not its " + std::to_string(member.size) + " bytes");
    member.packed = archive.part(begin, packed);
    out.push_back(std::move(member));
    at += entry_bytes + name + extra + comment;
  }
  return out;
}

Result<std::span<const std::byte>> unpack(const std::string &path, const ZipMember &member,
                                          std::vector<std::byte> &room) {
  if (!member.deflated)
    return member.packed;
  auto damaged = [&] { return Error{path + ": the member `" + member.name + "` is damaged: it does not unpack"}; };
  if (member.size / most_ratio > member.packed.size() + 1)
    return damaged();
  room.resize(member.size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) // no header: the archive has it
    return Error{path + ": there is no memory to unpack it"};
  // zlib counts in 32 bits: large members come and go in pieces.
  constexpr uint64_t piece = 1 << 30;
  uint64_t given = 0, taken = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    auto *in = reinterpret_cast<const Bytef *>(member.packed.data()) + given;
    auto *out = reinterpret_cast<Bytef *>(room.data()) + taken;
    uInt in_bytes = uInt(std::min(piece, member.packed.size() - given)),
         out_bytes = uInt(std::min(piece, member.size - taken));
    stream.next_in = const_cast<Bytef *>(in);
    stream.avail_in = in_bytes;
    stream.next_out = out;
    stream.avail_out = out_bytes;
    status = inflate(&stream, Z_NO_FLUSH);
    given += in_bytes - stream.avail_in;
    taken += out_bytes - stream.avail_out;
    if (status == Z_OK && stream.avail_in == in_bytes && stream.avail_out == out_bytes)
      break; // nothing moves
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || taken != member.size)
    return damaged();
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef *>(room.data()), room.size());
  if (crc != member.crc)
    return Error{path + ": the member `" + member.name + "` is damaged: its checksum differs"};
  return std::span<const std::byte>(room);
}

} // namespace heddle
