// A model written by hand in place of generated code: small entries whose results are easy to say, and which report
// what the runtime handed to them. The same file, compiled into a shared library, plays an artifact.
#pragma once
#include "runtime/abi.h"
#include "runtime/heddle.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

extern "C" {
int halide_do_par_for(void *user_context, int (*task)(void *, int, uint8_t *), int min, int size, uint8_t *closure);
void *halide_malloc(void *user_context, size_t bytes);
void halide_free(void *user_context, void *pointer);
extern const heddle_api heddle_api_1;
}

namespace fake {

// Numbers of the entries; fake_model.cc says what they compute.
enum Entry : int32_t { encode, spread, types, window, custom, floats, n_entries };
enum Dim : int32_t { B, S, N, n_dims };

// What the last call of an entry saw.
struct Seen {
  int calls = 0;
  std::vector<const void *> inputs, results;
  const uint8_t *arena = nullptr;
};
extern Seen seen;

// What the entry `custom` does, and how much arena it says it needs.
extern std::function<int32_t(const heddle_call &)> run_custom;
extern std::function<int64_t(const int64_t *)> custom_arena, custom_nothing, custom_once;

constexpr uint64_t weights_bytes = 4 * sizeof(float); // the bias of `encode`: 0.5, 1.5, 2.5, 3.5
extern const uint8_t weights_id[16];

// The bytes of a weights file that fits.
std::vector<uint8_t> weights_file();
// Writes them into a temporary folder of this process; the path lives until the program ends.
std::string write_temporary(const std::string &name, const std::vector<uint8_t> &bytes);

// A loaded model (freed at the end of a test) and a session of it.
heddle_model *load();
// A model out of one of the libraries of tests/runtime/libraries, which need no weights.
heddle_model *load_library(const char *name);
struct Fixture {
  Fixture(int32_t threads = 1, const heddle_threads *custom = nullptr, int64_t memory_limit = 0);
  ~Fixture();
  heddle_model *model = nullptr;
  heddle_session *session = nullptr;
};

// What a session has asked for so far.
int64_t allocations(heddle_session *session);

// 64-byte aligned storage for n elements.
template <class T> class Aligned {
public:
  explicit Aligned(size_t n, T value = T()) : storage(n * sizeof(T) + 128), length(n) {
    for (size_t i = 0; i < n; i++)
      data()[i] = value;
  }
  T *data() { return reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64); }
  T &operator[](size_t i) { return data()[i]; }
  std::vector<T> values() { return {data(), data() + length}; }

private:
  std::vector<uint8_t> storage;
  size_t length;
};

inline heddle_tensor tensor(const char *name, int32_t dtype, const void *data, std::vector<int64_t> shape) {
  return heddle_dense(name, dtype, const_cast<void *>(data), static_cast<int32_t>(shape.size()), shape.data());
}

} // namespace fake
