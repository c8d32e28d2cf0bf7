// Wild numbers, names, tensors and lists for calls of heddle.h, in memory that is valid for what it describes: blocks
// of just the size that was asked for, which live until `blocks` is cleared after the call.
#pragma once

#include "heddle.h"

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern std::mt19937_64 random_bits;
extern heddle_model *model;
extern heddle_model_info info;
extern std::vector<std::string> known_names;
extern std::vector<std::unique_ptr<char[]>> blocks;

int pick(int low, int high);
bool one_in(int n);
template <class T> const T &any_of(const std::vector<T> &list) { return list[size_t(pick(0, int(list.size()) - 1))]; }

int64_t wild();
int32_t wild32();
float wild_float();
char *block(size_t bytes);
/// A known one, mostly.
const char *name();

/// A struct that says how large it is, which need not be what it should be.
template <class T> T *sized(const std::function<void(T &)> &fill = nullptr) {
  size_t size = !one_in(4) ? sizeof(T) : one_in(3) ? size_t(pick(0, int(sizeof(T)) + 200)) : size_t(pick(0, 16));
  T whole;
  memset(static_cast<void *>(&whole), 0, sizeof whole);
  if (fill)
    fill(whole);
  whole.struct_size = size;
  char *out = block(std::max(size, sizeof(size_t)));
  memset(out, 0, std::max(size, sizeof(size_t)));
  memcpy(out, &whole, std::min(std::max(size, sizeof(size_t)), sizeof whole));
  return reinterpret_cast<T *>(out);
}

/// Memory for a tensor: all elements lie in it, as far as that can be; what can't has stride 0 or no data.
void give_data(heddle_tensor &t);

struct Dims {
  int64_t size[64];
};
Dims some_dims();

/// A tensor as the entry wants it, with these dims; here and there otherwise.
heddle_tensor tensor_like(const heddle_value_info &value, const Dims &dims, bool result);
/// What an entry takes, or its results, with these dims; here and there too many or too few.
std::vector<heddle_tensor> tensors_of(int32_t entry, bool results, const Dims &dims);
std::vector<heddle_tensor> results_room(int32_t entry);

/// A list as the call gets it: in a block of its own, sometimes with a wrong count or without a pointer.
struct List {
  heddle_tensor *data;
  int32_t count;
};
List list_of(const std::vector<heddle_tensor> &tensors);

int32_t entry_number();
