// Reading checks everything that the header claims against the file: after `open` every tensor's bytes are in
// the mapping and its shape agrees with them. Checks follow the format's own rules (no gaps, no overlaps).
#include "compiler/io/safetensors.h"

#include "compiler/io/other_format.h"
#include "compiler/io/output.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace heddle {
namespace {

using Json = nlohmann::json;

constexpr size_t most_header = 100'000'000; // the format's limit
constexpr int64_t most_elements = int64_t(1) << 62;

struct Stored {
  std::string name;
  uint64_t begin, end;
};

/// A JSON array of non-negative whole numbers.
std::optional<std::vector<int64_t>> whole_numbers(const Json &list) {
  if (!list.is_array())
    return std::nullopt;
  std::vector<int64_t> out;
  for (const Json &item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(most_elements))
      return std::nullopt;
    out.push_back(item.get<int64_t>());
  }
  return out;
}

/// The bytes that a shape takes; nothing where they are too many to count.
std::optional<uint64_t> byte_count(const std::vector<int64_t> &shape, DType dtype) {
  uint64_t out = byte_width(dtype);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return 0;
  for (int64_t extent : shape) {
    if (out > static_cast<uint64_t>(most_elements) / static_cast<uint64_t>(extent))
      return std::nullopt;
    out *= static_cast<uint64_t>(extent);
  }
  return out;
}

/// Reads one entry of the header.
Result<TensorView> read_entry(const std::string &where, const Json &entry, std::span<const std::byte> data,
                              Stored &stored) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    return Error{where + ": its entry in the header lacks dtype, shape or data_offsets"};
  TensorView out;
  std::string dtype = entry["dtype"];
  std::optional<DType> known = find_dtype(dtype);
  if (!known)
    return Error{where + ": its dtype " + dtype +
                 " is not supported; save it as F32, BF16, F16, I8, I32, I64, U8 or BOOL"};
  out.dtype = *known;
  std::optional<std::vector<int64_t>> shape = whole_numbers(entry["shape"]),
                                      offsets = whole_numbers(entry["data_offsets"]);
  if (!shape || !offsets || offsets->size() != 2)
    return Error{where + ": its shape or data_offsets in the header are not whole numbers"};
  out.shape = *shape;
  stored.begin = (*offsets)[0];
  stored.end = (*offsets)[1];
  if (stored.begin > stored.end || stored.end > data.size())
    return Error{where + ": its bytes " + std::to_string(stored.begin) + " to " + std::to_string(stored.end) +
                 " lie outside of the file's " + std::to_string(data.size()) +
                 " bytes of data; the file is truncated or damaged"};
  std::optional<uint64_t> bytes = byte_count(out.shape, out.dtype);
  if (!bytes || *bytes != stored.end - stored.begin)
    return Error{where + ": the shape " + shape_text(out.shape) + " of " + dtype + " takes " +
                 (bytes ? std::to_string(*bytes) : "too many") + " bytes, but the header gives it " +
                 std::to_string(stored.end - stored.begin)};
  out.bytes = data.subspan(stored.begin, stored.end - stored.begin);
  return out;
}

} // namespace

Result<Safetensors> Safetensors::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  Safetensors out;
  out.path_ = path;
  out.file_ = *file;
  std::span<const std::byte> bytes = out.file_.bytes();

  auto refused = [&](const std::string &why) { return Error{path + ": " + other_format(path, bytes).value_or(why)}; };
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    return refused("is no safetensors file: it has only " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > most_header)
    return refused("is no safetensors file: its header would have " + std::to_string(length) + " bytes");
  if (length > bytes.size() - sizeof length)
    return refused("is truncated: its header has " + std::to_string(length) + " bytes, the file only " +
                   std::to_string(bytes.size()));
  std::string_view text(reinterpret_cast<const char *>(bytes.data()) + sizeof length, length);
  std::span<const std::byte> data = bytes.subspan(sizeof length + length);

  // The JSON parser keeps the last of two equal names; which tensor is meant cannot be known.
  std::set<std::string> names;
  std::string twice;
  auto watch = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object())
    return refused("is no safetensors file: its header is not the JSON object that the format asks for");
  if (!twice.empty())
    return Error{path + ": has two tensors named `" + twice + "`"};

  std::vector<Stored> stored;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (entry.is_object())
        for (const auto &[key, value] : entry.items())
          if (value.is_string())
            out.metadata_[key] = value;
      continue;
    }
    stored.push_back({name, 0, 0});
    Result<TensorView> tensor = read_entry(path + ": tensor `" + name + "`", entry, data, stored.back());
    if (!tensor)
      return tensor.error();
    out.tensors_[name] = *tensor;
  }
  std::sort(stored.begin(), stored.end(),
            [](const Stored &a, const Stored &b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t covered = 0;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i].begin < covered)
      return Error{path + ": tensors `" + stored[i - 1].name + "` and `" + stored[i].name +
                   "` share bytes; the header is damaged"};
    if (stored[i].begin > covered)
      return Error{path + ": bytes " + std::to_string(covered) + " to " + std::to_string(stored[i].begin) +
                   " before tensor `" + stored[i].name + "` belong to no tensor; the header is damaged"};
    covered = stored[i].end;
  }
  if (covered != data.size())
    return Error{path + ": has " + std::to_string(data.size()) + " bytes of data where its header names " +
                 std::to_string(covered) + "; the file is damaged"};
  return out;
}

const TensorView *Safetensors::find(const std::string &name) const {
  auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

Status write_safetensors(const std::string &path, const std::map<std::string, TensorView> &tensors,
                         const std::map<std::string, std::string> &metadata) {
  // Wide elements first: then each tensor is aligned to its element without gaps, which the format does not allow.
  std::vector<const std::pair<const std::string, TensorView> *> order;
  for (const auto &tensor : tensors)
    order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    return std::pair(byte_width(b->second.dtype), std::string_view(a->first)) <
           std::pair(byte_width(a->second.dtype), std::string_view(b->first));
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const auto *tensor : order) {
    const TensorView &view = tensor->second;
    size_t end = offset + view.bytes.size();
    header[tensor->first] = {{"dtype", dtype_name(view.dtype)}, {"shape", view.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');

  Result<OutputFile> file = OutputFile::create(path);
  if (!file)
    return file.error();
  uint64_t length = text.size();
  if (Status status = file->write(std::as_bytes(std::span(&length, 1))); !status)
    return status;
  if (Status status = file->write(text); !status)
    return status;
  for (const auto *tensor : order)
    if (Status status = file->write(tensor->second.bytes); !status)
      return status;
  return file->commit();
}

} // namespace heddle
