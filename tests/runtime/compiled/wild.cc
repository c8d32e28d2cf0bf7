#include "wild.h"

#include <climits>
#include <cmath>
#include <cstdint>

std::mt19937_64 random_bits;
heddle_model *model;
heddle_model_info info;
std::vector<std::string> known_names;
std::vector<std::unique_ptr<char[]>> blocks;

int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_bits); }
bool one_in(int n) { return pick(1, n) == 1; }

int64_t wild() {
  static const std::vector<int64_t> numbers = {0,
                                               1,
                                               2,
                                               3,
                                               -1,
                                               -2,
                                               INT32_MAX,
                                               INT32_MIN,
                                               int64_t(INT32_MAX) + 1,
                                               INT64_MAX,
                                               INT64_MIN,
                                               1ll << 32,
                                               1ll << 61,
                                               (1ll << 61) + 16,
                                               1ll << 62,
                                               4096,
                                               65536,
                                               1ll << 40,
                                               7};
  return one_in(4) ? int64_t(random_bits()) : any_of(numbers);
}
int32_t wild32() { return int32_t(one_in(3) ? wild() : pick(-3, 12)); }
float wild_float() {
  static const std::vector<float> numbers = {0,      -0.0f,  1,      -1,       0.5f,      1e38f,
                                             -1e38f, 1e-45f, 1e-38f, INFINITY, -INFINITY, NAN};
  return any_of(numbers);
}

char *block(size_t bytes) {
  blocks.push_back(std::unique_ptr<char[]>(new char[bytes]));
  char *out = blocks.back().get();
  uint64_t kind = random_bits() % 4;
  for (size_t i = 0; i < bytes; i++) // mostly small numbers
    out[i] = kind == 0 ? char(random_bits()) : kind == 1 ? 1 : 0;
  return out;
}

const char *name() {
  std::string text;
  switch (pick(0, 9)) {
  case 0:
    return nullptr;
  case 1:
    text = std::string(size_t(pick(0, 5000)), char(pick(1, 255)));
    break;
  case 2:
    text = "%s%n%d\xff\xfe";
    break;
  default:
    text = any_of(known_names);
  }
  char *out = block(text.size() + 1);
  memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

void give_data(heddle_tensor &t) {
  int64_t element = heddle_dtype_bytes(t.dtype) ? heddle_dtype_bytes(t.dtype) : 8;
  int rank = t.rank < 0 ? 0 : t.rank > HEDDLE_RANK ? HEDDLE_RANK : t.rank;
  __int128 low = 0, high = element;
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    if (t.shape[i] <= 0) {
      empty |= t.shape[i] == 0;
      continue;
    }
    __int128 reach = __int128(t.shape[i] - 1) * t.strides[i];
    if (reach > 65536 || reach < -65536)
      t.strides[i] = 0, reach = 0;
    (reach < 0 ? low : high) += reach;
  }
  if (empty && one_in(2))
    t.data = nullptr;
  else
    t.data = one_in(30) ? nullptr : block(size_t(high - low)) - int64_t(low);
  if (one_in(40))
    t.memory = one_in(2) ? wild32() : HEDDLE_DEVICE_MEMORY;
}

Dims some_dims() {
  Dims d;
  for (int64_t &size : d.size)
    size = one_in(40) ? wild() : pick(0, 5);
  return d;
}

heddle_tensor tensor_like(const heddle_value_info &value, const Dims &dims, bool result) {
  int64_t shape[HEDDLE_RANK] = {};
  for (int i = 0; i < value.rank && i < HEDDLE_RANK; i++) {
    const heddle_extent &extent = value.extents[i];
    shape[i] = extent.dim >= 0 ? dims.size[extent.dim] : extent.dim == HEDDLE_FIXED ? extent.value : pick(0, 6);
    if (one_in(40))
      shape[i] = wild();
  }
  static const std::vector<int32_t> integers = {HEDDLE_I8, HEDDLE_I32, HEDDLE_BOOL, HEDDLE_I64, HEDDLE_U8};
  int32_t dtype = value.dtype;
  if (!result && dtype > HEDDLE_F16 && one_in(2))
    dtype = any_of(integers);
  if (one_in(40))
    dtype = wild32();
  heddle_tensor t = heddle_dense(one_in(4) ? nullptr : value.name, dtype, nullptr, value.rank, shape);
  if (one_in(40))
    t.name = name();
  if (one_in(40))
    t.rank = wild32();
  for (int64_t &stride : t.strides)
    if (one_in(30))
      stride = one_in(2) ? wild() : pick(-64, 64);
  give_data(t);
  return t;
}

std::vector<heddle_tensor> tensors_of(int32_t entry, bool results, const Dims &dims) {
  std::vector<heddle_tensor> out;
  heddle_entry_info e = HEDDLE_INIT(heddle_entry_info);
  if (entry < 0 || entry >= info.n_entries)
    entry = 0;
  heddle_entry_describe(model, entry, &e);
  for (int i = 0; i < (results ? e.n_results : e.n_inputs); i++) {
    heddle_value_info value = HEDDLE_INIT(heddle_value_info);
    results ? heddle_result_describe(model, entry, i, &value) : heddle_input_describe(model, entry, i, &value);
    if (!one_in(value.optional ? 2 : 30))
      out.push_back(tensor_like(value, dims, results));
  }
  while (one_in(30))
    out.push_back(out.empty() ? heddle_tensor() : out.front());
  return out;
}

List list_of(const std::vector<heddle_tensor> &tensors) {
  List out;
  out.count = int32_t(tensors.size());
  out.data = reinterpret_cast<heddle_tensor *>(block(sizeof(heddle_tensor) * tensors.size()));
  if (!tensors.empty())
    memcpy(out.data, tensors.data(), sizeof(heddle_tensor) * tensors.size());
  if (one_in(60))
    out.count = -pick(1, INT_MAX);
  if (one_in(60))
    out.data = nullptr;
  return out;
}

std::vector<heddle_tensor> results_room(int32_t entry) {
  heddle_entry_info e = HEDDLE_INIT(heddle_entry_info);
  if (heddle_entry_describe(model, entry, &e) || one_in(20))
    return std::vector<heddle_tensor>(size_t(pick(0, 9)));
  return std::vector<heddle_tensor>(size_t(pick(0, e.n_results)));
}

int32_t entry_number() { return one_in(20) ? wild32() : pick(0, info.n_entries - 1); }
