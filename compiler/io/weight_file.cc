// A ZIP archive with .npy members is NumPy's, one with a data.pkl is PyTorch's; a pickle without an archive is what
// PyTorch saved before 1.6.
#include "compiler/io/weight_file.h"

#include "compiler/io/input.h"
#include "compiler/io/npy.h"
#include "compiler/io/other_format.h"
#include "compiler/io/safetensors.h"
#include "compiler/io/torch_file.h"
#include "compiler/io/zip.h"

#include <algorithm>

namespace heddle {

static Result<WeightFile> read_npz(const std::string &path, const std::vector<ZipMember> &members,
                                   std::shared_ptr<WeightBytes> bytes) {
  WeightFile out;
  for (const ZipMember &member : members) {
    if (!member.name.ends_with(".npy"))
      continue;
    std::string where = path + ": `" + member.name + "`";
    Result<std::span<const std::byte>> content = unpack(path, member, bytes->made.emplace_back());
    if (!content)
      return content.error();
    Result<NpyArray> array = parse_npy(where, *content);
    if (!array)
      return array.error();
    TensorView tensor = array->tensor;
    if (array->fortran) { // the same bytes, axes in the other order
      std::vector<int64_t> strides(tensor.shape.size(), 1);
      for (size_t i = 1; i < strides.size(); ++i)
        strides[i] = strides[i - 1] * tensor.shape[i - 1];
      tensor.bytes = in_order(tensor, strides, bytes->made.emplace_back());
    }
    std::string name = member.name.substr(0, member.name.size() - 4);
    if (!out.tensors.emplace(name, tensor).second)
      return Error{path + ": has two arrays named `" + name + "`"};
  }
  out.bytes = bytes;
  return out;
}

static Result<WeightFile> read_archive(const std::string &path, std::shared_ptr<WeightBytes> bytes) {
  Result<std::vector<ZipMember>> members = read_zip(path, bytes->file.bytes());
  if (!members)
    return members.error();
  auto ends = [&](std::string_view end) {
    return std::any_of(members->begin(), members->end(), [&](const ZipMember &m) { return m.name.ends_with(end); });
  };
  if (ends("/data.pkl"))
    return read_torch_archive(path, *members, bytes);
  if (ends(".npy"))
    return read_npz(path, *members, bytes);
  return Error{path + ": " + other_format(path, bytes->file.bytes()).value_or("is a ZIP archive without tensors")};
}

std::span<const std::byte> in_order(const TensorView &tensor, const std::vector<int64_t> &strides,
                                    std::vector<std::byte> &room) {
  size_t width = byte_width(tensor.dtype), rank = tensor.shape.size();
  room.resize(size_t(tensor.count()) * width);
  std::vector<int64_t> index(rank, 0);
  int64_t from = 0;
  for (size_t to = 0; to < room.size(); to += width) {
    std::copy_n(tensor.bytes.data() + size_t(from) * width, width, room.data() + to);
    for (size_t axis = rank; axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < tensor.shape[axis])
        break;
      from -= strides[axis] * tensor.shape[axis];
      index[axis] = 0;
    }
  }
  return room;
}

static Result<WeightFile> open_any(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  std::string_view text(reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size());
  auto bytes = std::make_shared<WeightBytes>();
  bytes->file = *file;
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) // with members, or without any
    return read_archive(path, bytes);
  if (is_torch_stream(text))
    return read_torch_stream(path, bytes);
  Result<Safetensors> safetensors = Safetensors::open(path);
  if (!safetensors)
    return safetensors.error();
  return WeightFile{safetensors->tensors(), std::make_shared<Safetensors>(*safetensors)};
}

static bool is_control(unsigned char c) { return c < ' ' || c == 0x7f; }

std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, '?');
  return text;
}

Result<WeightFile> open_weight_file(const std::string &path) {
  Result<WeightFile> out = open_any(path);
  if (!out)
    return Error{one_line(out.error().message)};
  for (const auto &[name, tensor] : out->tensors) // later messages have them
    if (std::any_of(name.begin(), name.end(), is_control))
      return Error{path + ": tensor `" + one_line(name) + "`: its name has control characters"};
  return out;
}

} // namespace heddle
