// A tensor is a call of _rebuild_tensor_v2(storage, offset, size, stride, …), a storage an id that stands for bytes: a
// member of the archive, or a part of the stream. Tensors may share a storage, and need not be in row-major order.
#include "compiler/io/torch_file.h"

#include "compiler/io/pickle.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

struct StorageType {
  std::string_view name;
  std::optional<DType> dtype; // none: known, but not supported
  size_t width;
};
constexpr StorageType storage_types[] = {
    {"torch.FloatStorage", DType::f32, 4},         {"torch.HalfStorage", DType::f16, 2},
    {"torch.BFloat16Storage", DType::bf16, 2},     {"torch.DoubleStorage", DType::f64, 8},
    {"torch.LongStorage", DType::i64, 8},          {"torch.IntStorage", DType::i32, 4},
    {"torch.CharStorage", DType::i8, 1},           {"torch.ByteStorage", DType::u8, 1},
    {"torch.BoolStorage", DType::boolean, 1},      {"torch.ShortStorage", std::nullopt, 2},
    {"torch.ComplexFloatStorage", std::nullopt, 8}};

/// Beside storages: what tensors and dictionaries are made with, and types that stand in settings beside them.
constexpr std::string_view known_names[] = {"collections.OrderedDict",
                                            "torch._utils._rebuild_tensor",
                                            "torch._utils._rebuild_tensor_v2",
                                            "torch._utils._rebuild_parameter",
                                            "torch.Size",
                                            "torch.device",
                                            "torch.float32",
                                            "torch.float16",
                                            "torch.bfloat16",
                                            "torch.float64",
                                            "torch.int64",
                                            "torch.int32",
                                            "torch.int8",
                                            "torch.uint8",
                                            "torch.bool"};

const StorageType *find_storage(std::string_view name) {
  auto found = std::find_if(std::begin(storage_types), std::end(storage_types),
                            [&](const StorageType &type) { return type.name == name; });
  return found == std::end(storage_types) ? nullptr : found;
}

bool is_known(const std::string &name) {
  return find_storage(name) || std::find(std::begin(known_names), std::end(known_names), name) != std::end(known_names);
}

/// The id ('storage', torch.FloatStorage, "7", "cpu", 4096).
struct Storage {
  const StorageType *type;
  std::string key;
  int64_t count;
};

std::optional<Storage> storage_of(const PickleValue &value) {
  if (value.kind != PickleValue::Kind::persistent || value.items[0]->kind != PickleValue::Kind::list)
    return std::nullopt;
  const auto &id = value.items[0]->items;
  if (id.size() < 5 || id[0]->text != "storage" || id[1]->kind != PickleValue::Kind::name ||
      id[2]->kind != PickleValue::Kind::text || id[4]->kind != PickleValue::Kind::integer)
    return std::nullopt;
  const StorageType *type = find_storage(id[1]->text);
  return type ? std::optional(Storage{type, id[2]->text, id[4]->number}) : std::nullopt;
}

std::optional<std::vector<int64_t>> whole_numbers(const PickleValue &list) {
  if (list.kind != PickleValue::Kind::list)
    return std::nullopt;
  std::vector<int64_t> out;
  for (const PickleValue *item : list.items) {
    if (item->kind != PickleValue::Kind::integer || item->number < 0 || !item->text.empty())
      return std::nullopt;
    out.push_back(item->number);
  }
  return out;
}

/// The call that rebuilds a tensor; null where the value is something else.
const PickleValue *tensor_call(const PickleValue *value) {
  if (value->is_call("torch._utils._rebuild_parameter") && !value->items[1]->items.empty())
    value = value->items[1]->items[0];
  bool is = value->is_call("torch._utils._rebuild_tensor_v2") || value->is_call("torch._utils._rebuild_tensor");
  return is ? value : nullptr;
}

std::vector<std::pair<const PickleValue *, const PickleValue *>> pairs_of(const PickleValue &dict) {
  auto out = dict.pairs;
  if (dict.kind == PickleValue::Kind::call && !dict.items[1]->items.empty()) // OrderedDict([[key, value], …])
    for (const PickleValue *pair : dict.items[1]->items[0]->items)
      if (pair->items.size() == 2)
        out.emplace_back(pair->items[0], pair->items[1]);
  return out;
}

bool is_dict(const PickleValue &value) {
  return value.kind == PickleValue::Kind::dict || value.is_call("collections.OrderedDict");
}

bool has_tensors(const PickleValue &dict) {
  auto pairs = pairs_of(dict);
  return std::any_of(pairs.begin(), pairs.end(), [](const auto &pair) { return tensor_call(pair.second); });
}

std::string key_text(const PickleValue &key) {
  return key.kind == PickleValue::Kind::integer ? std::to_string(key.number) : key.text;
}

/// The dictionary of tensors: what the file holds, or in a checkpoint the only one that it holds.
Result<const PickleValue *> find_tensors(const std::string &path, const PickleValue &whole) {
  if (is_dict(whole) && has_tensors(whole))
    return &whole;
  std::vector<const PickleValue *> found;
  std::string names;
  if (is_dict(whole))
    for (const auto &[key, value] : pairs_of(whole))
      if (is_dict(*value) && has_tensors(*value)) {
        names += (found.empty() ? "" : ", ") + key_text(*key);
        found.push_back(value);
      }
  if (found.size() == 1)
    return found[0];
  if (found.empty())
    return Error{path + ": holds no dictionary of tensors by name; save torch.save(model.state_dict(), …)"};
  return Error{path + ": holds several dictionaries of tensors (" + names + "); save the one that is meant alone"};
}

using FindBytes = std::function<Result<std::span<const std::byte>>(const Storage &)>;

Result<TensorView> read_tensor(const std::string &where, const PickleValue &call, const FindBytes &bytes_of,
                               WeightBytes &room) {
  const auto &arguments = call.items[1]->items;
  auto damaged = [&](const char *why) { return Error{where + ": " + why + "; the file is damaged"}; };
  if (arguments.size() < 4 || arguments[1]->kind != PickleValue::Kind::integer)
    return damaged("it is described in a way that is not known");
  std::optional<Storage> storage = storage_of(*arguments[0]);
  std::optional<std::vector<int64_t>> shape = whole_numbers(*arguments[2]), strides = whole_numbers(*arguments[3]);
  int64_t offset = arguments[1]->number;
  if (!storage || !shape || !strides || strides->size() != shape->size() || offset < 0)
    return damaged("it is described in a way that is not known");
  if (!storage->type->dtype)
    return Error{where + ": its elements are of " + std::string(storage->type->name) +
                 ", which is not supported; save it as float32, bfloat16, float16, int8, int32, int64, uint8 or bool"};
  TensorView out{*storage->type->dtype, *shape, {}};
  Result<std::span<const std::byte>> bytes = bytes_of(*storage);
  if (!bytes)
    return bytes.error();

  bool empty = std::find(shape->begin(), shape->end(), 0) != shape->end(), row_major = true;
  if (empty)
    return out;
  // The last element, and whether each lies right behind the one before it.
  int64_t last = offset, count = 1;
  for (size_t i = shape->size(); i-- > 0;) {
    row_major &= (*shape)[i] == 1 || (*strides)[i] == count;
    int64_t reach;
    if (__builtin_mul_overflow((*shape)[i] - 1, (*strides)[i], &reach) || __builtin_add_overflow(last, reach, &last) ||
        __builtin_mul_overflow(count, (*shape)[i], &count))
      return damaged("its shape is too large");
  }
  size_t width = storage->type->width;
  if (uint64_t(last) >= bytes->size() / width)
    return damaged("it lies outside of its storage");
  // A small storage read again and again by strides of 0 could stand for any amount.
  if (uint64_t(count) > 16 * (bytes->size() / width) + 4096)
    return damaged("it has more elements than its storage");
  out.bytes = bytes->subspan(size_t(offset) * width, size_t(last - offset + 1) * width);
  if (!row_major)
    out.bytes = in_order(out, *strides, room.made.emplace_back());
  return out;
}

Result<WeightFile> read_tensors(const std::string &path, const PickleValue &whole, const FindBytes &bytes_of,
                                std::shared_ptr<WeightBytes> bytes) {
  Result<const PickleValue *> dict = find_tensors(path, whole);
  if (!dict)
    return dict.error();
  WeightFile out;
  for (const auto &[key, value] : pairs_of(**dict)) {
    const PickleValue *call = tensor_call(value);
    if (!call)
      continue; // a number of steps, a setting
    std::string name = key_text(*key);
    Result<TensorView> tensor = read_tensor(path + ": tensor `" + name + "`", *call, bytes_of, *bytes);
    if (!tensor)
      return tensor.error();
    out.tensors.insert_or_assign(name, *tensor); // as in Python, the last one of a name holds
  }
  out.bytes = bytes;
  return out;
}

} // namespace

Result<WeightFile> read_torch_archive(const std::string &path, const std::vector<ZipMember> &members,
                                      std::shared_ptr<WeightBytes> bytes) {
  auto find = [&](std::string_view end) {
    return std::find_if(members.begin(), members.end(), [&](const ZipMember &m) { return m.name.ends_with(end); });
  };
  auto read = [&](const ZipMember &member) { return unpack(path, member, bytes->made.emplace_back()); };
  auto program = find("/data.pkl"); // the caller has seen it
  std::string folder = program->name.substr(0, program->name.size() - std::string_view("/data.pkl").size());
  if (auto order = find("/byteorder"); order != members.end()) {
    auto text = read(*order);
    if (!text)
      return text.error();
    if (std::string_view(reinterpret_cast<const char *>(text->data()), text->size()) != "little")
      return Error{path + ": is of a big-endian machine; save it again on a little-endian one"};
  }
  auto pickled = read(*program);
  if (!pickled)
    return pickled.error();
  Pickle pickle(path, is_known);
  size_t at = 0;
  Result<const PickleValue *> whole = pickle.read(*pickled, at);
  if (!whole)
    return whole.error();
  std::map<std::string, const ZipMember *> by_name;
  for (const ZipMember &member : members)
    by_name[member.name] = &member;
  std::map<std::string, std::span<const std::byte>> storages;
  return read_tensors(
      path, **whole,
      [&](const Storage &storage) -> Result<std::span<const std::byte>> {
        if (auto known = storages.find(storage.key); known != storages.end())
          return known->second;
        auto found = by_name.find(folder + "/data/" + storage.key);
        if (found == by_name.end())
          return Error{path + ": the member data/" + storage.key + " is missing; the file is damaged"};
        auto content = read(*found->second);
        if (content)
          storages[storage.key] = *content;
        return content;
      },
      bytes);
}

/// As pickled: a magic number of ten bytes, in the protocol that torch.save used.
constexpr std::string_view stream_begin = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

bool is_torch_stream(std::string_view bytes) { return bytes.starts_with(stream_begin); }

/// Pickles: the magic number, the version 1001, facts on the machine, the value, the keys of the storages; then each
/// storage: how many elements it has, and they.
Result<WeightFile> read_torch_stream(const std::string &path, std::shared_ptr<WeightBytes> bytes) {
  std::span<const std::byte> file = bytes->file.bytes();
  Pickle pickle(path, is_known);
  size_t at = stream_begin.size();
  std::vector<const PickleValue *> parts;
  for (int i = 0; i < 4; ++i) {
    Result<const PickleValue *> part = pickle.read(file, at);
    if (!part)
      return part.error();
    parts.push_back(*part);
  }
  const PickleValue &version = *parts[0], &machine = *parts[1], &whole = *parts[2], &keys = *parts[3];
  if (version.number != 1001)
    return Error{path + ": has version " + std::to_string(version.number) + " of PyTorch's format; 1001 is read"};
  for (const auto &[key, value] : machine.pairs)
    if (key->text == "little_endian" && !value->number)
      return Error{path + ": is of a big-endian machine; save it again on a little-endian one"};

  // A storage's type stands only where tensors refer to it, so all bytes are found before any tensor is read.
  std::map<std::string, size_t> widths;
  Result<const PickleValue *> dict = find_tensors(path, whole);
  if (!dict)
    return dict.error();
  std::vector<const PickleValue *> ahead = {&whole};
  for (const auto &[key, value] : pairs_of(whole))
    if (is_dict(*value))
      ahead.push_back(value);
  for (const PickleValue *any : ahead)
    for (const auto &[key, value] : pairs_of(*any))
      if (const PickleValue *call = tensor_call(value); call && !call->items[1]->items.empty())
        if (std::optional<Storage> storage = storage_of(*call->items[1]->items[0]))
          widths[storage->key] = storage->type->width;
  std::map<std::string, std::span<const std::byte>> storages;
  for (const PickleValue *key : keys.items) {
    auto width = widths.find(key->text);
    if (width == widths.end())
      return Error{path + ": has a storage that no tensor looks into; save the tensors alone: "
                          "torch.save(model.state_dict(), …)"};
    uint64_t count;
    if (file.size() - at < sizeof count)
      return Error{path + ": is truncated: it ends before its tensors do"};
    std::memcpy(&count, file.data() + at, sizeof count);
    at += sizeof count;
    if (count > (file.size() - at) / width->second)
      return Error{path + ": is truncated: it ends before its tensors do"};
    storages[key->text] = file.subspan(at, count * width->second);
    at += count * width->second;
  }
  return read_tensors(
      path, whole,
      [&](const Storage &storage) -> Result<std::span<const std::byte>> {
        auto found = storages.find(storage.key);
        if (found == storages.end())
          return Error{path + ": the storage " + storage.key + " is missing; the file is damaged"};
        return found->second;
      },
      bytes);
}

} // namespace heddle
