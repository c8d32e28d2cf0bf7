// Calls that are wrong: each mistake gets its own status and its whole message, and no entry runs.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace fake;

extern "C" {
int halide_error_access_out_of_bounds(void *, const char *, int, int, int, int, int);
int halide_error_host_is_null(void *, const char *);
int halide_error_constraint_violated(void *, const char *, int, const char *, int);
}

namespace {

alignas(64) int32_t numbers[64]; // used in place
float reals[256];

heddle_tensor ids(std::vector<int64_t> shape) { return tensor("ids", HEDDLE_I32, numbers, shape); }
heddle_tensor mask(std::vector<int64_t> shape) { return tensor("mask", HEDDLE_I32, numbers, shape); }

struct WrongCall : testing::Test {
  Fixture f;
  void expect(heddle_status status, const std::string &message, int32_t entry, std::vector<heddle_tensor> inputs,
              std::vector<heddle_tensor> results = {}) {
    EXPECT_EQ(heddle_run(f.session, entry, inputs.data(), static_cast<int32_t>(inputs.size()), results.data(),
                         static_cast<int32_t>(results.size())),
              status);
    EXPECT_EQ(std::string(heddle_last_error()), message);
    EXPECT_EQ(seen.calls, 0);
  }
};

TEST_F(WrongCall, an_entry_that_is_not_there) {
  expect(HEDDLE_INVALID_ARGUMENT, "there is no entry number 6; model 'fake' has 6", 6, {});
  expect(HEDDLE_INVALID_ARGUMENT, "there is no entry number -1; model 'fake' has 6", -1, {});
  int32_t entry;
  EXPECT_EQ(heddle_entry_find(f.model, "decode", &entry), HEDDLE_NOT_FOUND);
  EXPECT_STREQ(heddle_last_error(),
               "model 'fake' has no entry 'decode'; it has: encode, spread, types, window, custom, floats");
  EXPECT_EQ(heddle_entry_find(f.model, nullptr, &entry), HEDDLE_NOT_FOUND);
  EXPECT_STREQ(heddle_last_error(),
               "model 'fake' has several entries; name one of: encode, spread, types, window, custom, floats");
  EXPECT_EQ(heddle_entry_find(f.model, "types", &entry), HEDDLE_OK);
  EXPECT_EQ(entry, types);
}

TEST_F(WrongCall, names_and_numbers_of_tensors) {
  expect(HEDDLE_NOT_FOUND, "entry 'encode' has no input 'input_ids'; it has: ids, mask", encode,
         {tensor("input_ids", HEDDLE_I32, numbers, {2, 3})});
  expect(HEDDLE_NOT_FOUND, "entry 'encode' has no result 'z'; it has: y, total", encode, {ids({2, 3})},
         {tensor("z", HEDDLE_F32, reals, {2})});
  expect(HEDDLE_BAD_TENSOR, "entry 'spread' has 1 input, but 2 were given", spread,
         {tensor(nullptr, HEDDLE_F32, reals, {2}), tensor(nullptr, HEDDLE_F32, reals, {2})});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'ids': is given twice; give it once", encode,
         {tensor(nullptr, HEDDLE_I32, numbers, {2, 3}), ids({2, 3})});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'ids': is missing; give it as i32 [B, S]", encode, {mask({2, 3})});
  EXPECT_EQ(heddle_run(f.session, encode, nullptr, 1, nullptr, 0), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "entry 'encode': the list of inputs is NULL or its length (1) negative");
}

TEST_F(WrongCall, dtypes) {
  expect(HEDDLE_BAD_TENSOR,
         "entry 'encode', input 'ids': has dtype f32, but must be i32 [B, S] (any of i8, u8, i32, i64 and bool is "
         "accepted)",
         encode, {tensor("ids", HEDDLE_F32, reals, {2, 3})});
  expect(HEDDLE_BAD_TENSOR, "entry 'spread', input 'x': has dtype i32, but must be f32 [N]", spread,
         {tensor("x", HEDDLE_I32, numbers, {2})});
  expect(HEDDLE_BAD_TENSOR, "entry 'spread', input 'x': has dtype bf16, but must be f32 [N]", spread,
         {tensor("x", HEDDLE_BF16, numbers, {2})});
  expect(HEDDLE_BAD_TENSOR, "entry 'spread', input 'x': has dtype an unknown dtype, but must be f32 [N]", spread,
         {tensor("x", 77, numbers, {2})});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', result 'total': has dtype i64, but must be i32 [B]", encode, {ids({2, 3})},
         {tensor("total", HEDDLE_I64, numbers, {2})});
}

TEST_F(WrongCall, ranks_and_shapes) {
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'ids': has rank 1, but must be i32 [B, S]", encode, {ids({2})});
  heddle_tensor deep = ids({1, 1});
  deep.rank = 99;
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'ids': has rank 99, but must be i32 [B, S]", encode, {deep});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'ids': has the negative extent -3 in dimension 1", encode,
         {ids({2, -3})});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'mask': has shape [2, 9], so S = 9, but S = 7 in input 'ids'",
         encode, {ids({2, 7}), mask({2, 9})});
  expect(HEDDLE_BAD_TENSOR, "entry 'window', input 'square': has shape [3, 4], so N = 4, but N = 3 in input 'scale'",
         window,
         {tensor("square", HEDDLE_F32, reals, {3, 4}), tensor("scale", HEDDLE_F32, reals, {3}),
          tensor("pairs", HEDDLE_F32, reals, {6}), tensor("position", HEDDLE_I32, numbers, {1})});
  expect(HEDDLE_BAD_TENSOR, "entry 'floats', input 'f16': has shape [5], but must be f16 [4]", floats,
         {tensor("x", HEDDLE_F32, reals, {1, 1}), tensor("f16", HEDDLE_F16, reals, {5})});
  expect(HEDDLE_BAD_TENSOR, "entry 'window', input 'pairs': has shape [9], but must be [8] where B = 1, N = 4", window,
         {tensor("scale", HEDDLE_F32, reals, {4}), tensor("pairs", HEDDLE_F32, reals, {9}),
          tensor("position", HEDDLE_I32, numbers, {1})});
  expect(HEDDLE_OUT_OF_RANGE,
         "entry 'window', result 'last': would have the shape [-1] where B = 1, N = 1; give larger inputs", window,
         {tensor("scale", HEDDLE_F32, reals, {1}), tensor("pairs", HEDDLE_F32, reals, {2}),
          tensor("position", HEDDLE_I32, numbers, {1})});
}

TEST_F(WrongCall, dims_beyond_their_bounds) {
  expect(HEDDLE_OUT_OF_RANGE,
         "entry 'encode', input 'ids': has shape [1, 600], so S = 600, but the model allows at most 512", encode,
         {ids({1, 600})});
  const int64_t dims[] = {9, 3, 0}, negative[] = {1, -3, 0};
  const void *inputs[] = {numbers, nullptr};
  void *results[] = {nullptr, nullptr};
  EXPECT_EQ(heddle_run_dense(f.session, encode, dims, inputs, results), HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "entry 'encode': B = 9, but the model allows 0 .. 8");
  EXPECT_EQ(heddle_run_dense(f.session, encode, negative, inputs, results), HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "entry 'encode': S = -3, but the model allows 0 .. 512");
}

TEST_F(WrongCall, a_dim_that_nobody_tells) {
  expect(HEDDLE_BAD_TENSOR,
         "entry 'custom', input 'x': has dim N, which no given input tells; give the optional inputs that have it",
         custom, {});
}

TEST_F(WrongCall, results_of_the_wrong_shape_or_with_elements_over_each_other) {
  expect(HEDDLE_BAD_TENSOR,
         "entry 'encode', result 'y': has room for shape [2, 3, 5], but the result is [2, 3, 4] where B = 2, S = 3",
         encode, {ids({2, 3})}, {tensor("y", HEDDLE_F32, reals, {2, 3, 5})});
  heddle_tensor y = tensor("y", HEDDLE_F32, reals, {2, 3, 4});
  y.strides[1] = 0;
  expect(HEDDLE_BAD_TENSOR,
         "entry 'encode', result 'y': has strides by which its elements overlap; give each room of its own", encode,
         {ids({2, 3})}, {y});
  y.strides[1] = 8;
  expect(HEDDLE_BAD_TENSOR,
         "entry 'encode', result 'y': has strides by which its elements overlap; give each room of its own", encode,
         {ids({2, 3})}, {y});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', result 'total': overlaps result 'y' in memory; give each room of its own",
         encode, {ids({2, 3})},
         {tensor("y", HEDDLE_F32, reals, {2, 3, 4}), tensor("total", HEDDLE_I32, reals + 23, {2})});
}

TEST_F(WrongCall, no_data) {
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'ids': has no data (NULL)", encode,
         {tensor("ids", HEDDLE_I32, nullptr, {2, 3})});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', result 'y': has no data (NULL)", encode, {ids({2, 3})},
         {tensor("y", HEDDLE_F32, nullptr, {2, 3, 4})});
  const int64_t dims[] = {2, 3, 0};
  const void *inputs[] = {nullptr, nullptr};
  void *results[] = {nullptr, nullptr};
  EXPECT_EQ(heddle_run_dense(f.session, encode, dims, inputs, results), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'encode', input 'ids': has no data (NULL)");
  EXPECT_EQ(heddle_run_dense(f.session, encode, nullptr, inputs, results), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "entry 'encode': dims, inputs or results is NULL");
}

TEST_F(WrongCall, elements_out_of_range_are_named_with_their_position) {
  Aligned<int32_t> values(600, 5); // in place, more than one chunk
  values[513] = 100;
  heddle_tensor input = tensor("ids", HEDDLE_I32, values.data(), {2, 300});
  expect(HEDDLE_OUT_OF_RANGE, "entry 'encode', input 'ids': element [1, 213] is 100, but must be in 0 .. 99", encode,
         {input});
  values[513] = -1;
  expect(HEDDLE_OUT_OF_RANGE, "entry 'encode', input 'ids': element [1, 213] is -1, but must be in 0 .. 99", encode,
         {input});
  std::vector<int64_t> large = {1, 5000000000};
  expect(HEDDLE_OUT_OF_RANGE,
         "entry 'encode', input 'mask': element [0, 1] is 5000000000, but must be in -2147483648 .. 2147483647", encode,
         {ids({1, 2}), tensor("mask", HEDDLE_I64, large.data(), {1, 2})});
  std::vector<uint8_t> flags = {0, 1, 2};
  expect(HEDDLE_OUT_OF_RANGE, "entry 'types', input 'bool': element [2] is 2, but must be in 0 .. 1", types,
         {tensor("bool", HEDDLE_BOOL, flags.data(), {3}), tensor("i32", HEDDLE_I32, numbers, {3})});
  expect(HEDDLE_OUT_OF_RANGE, "entry 'types', input 'i32': element [2] is 2, but must be in 0 .. 1", types,
         {tensor("i32", HEDDLE_BOOL, flags.data(), {3})});
}

TEST_F(WrongCall, elements_against_bounds_that_are_dims_or_computed) {
  std::vector<int> position = {3, 4}, offset = {1, 2}, zero = {0, 0};
  std::vector<heddle_tensor> inputs = {tensor("scale", HEDDLE_F32, reals, {4}), tensor("pairs", HEDDLE_F32, reals, {8}),
                                       tensor("position", HEDDLE_I32, position.data(), {2}),
                                       tensor("offset", HEDDLE_I32, offset.data(), {2})};
  expect(HEDDLE_OUT_OF_RANGE, "entry 'window', input 'position': element [1] is 4, but must be in 0 .. 3", window,
         inputs);
  inputs[2].data = zero.data();
  expect(HEDDLE_OUT_OF_RANGE, "entry 'window', input 'offset': element [1] is 2, but must be in 0 .. 1", window,
         inputs);
  inputs[0].shape[0] = 2; // N = 2: offsets count in a range of 0
  inputs[1].shape[0] = 4;
  expect(HEDDLE_OUT_OF_RANGE,
         "entry 'window', input 'offset': element [0] is 1, but no value is allowed, because the range it counts in is "
         "empty",
         window, inputs);
}

TEST_F(WrongCall, sizes_beyond_what_a_tensor_may_have) {
  const int64_t million = 1000000;
  heddle_tensor square = tensor("square", HEDDLE_F32, reals, {million, million});
  expect(HEDDLE_OUT_OF_MEMORY,
         "entry 'window', input 'square': has more than 2147483647 elements with the shape [1000000, 1000000]; give "
         "smaller inputs",
         window,
         {square, tensor("scale", HEDDLE_F32, reals, {million}), tensor("pairs", HEDDLE_F32, reals, {2 * million}),
          tensor("position", HEDDLE_I32, numbers, {1})});
  expect(HEDDLE_OUT_OF_MEMORY,
         "entry 'spread', input 'x': has shape [9223372036854775807], so N = 9223372036854775807, but a tensor has at "
         "most 2147483647 elements; give smaller inputs",
         spread, {tensor("x", HEDDLE_F32, reals, {INT64_MAX})});
}

TEST_F(WrongCall, memory_that_the_system_or_the_limit_refuses) {
  custom_arena = [](const int64_t *dims) { return dims[N] == 1 ? int64_t(1) << 60 : dims[N] == 2 ? -1 : INT64_MAX; };
  auto x = [](int64_t n) { return tensor("x", HEDDLE_F32, reals, {n}); };
  expect(HEDDLE_OUT_OF_MEMORY,
         "entry 'custom' needs 1152921504606846976 bytes of memory for these inputs, which the system refuses; give "
         "smaller inputs",
         custom, {[&] { // aligned, so that nothing is staged
           static Aligned<float> aligned(4);
           return tensor("x", HEDDLE_F32, aligned.data(), {1});
         }()},
         {[&] {
           static Aligned<float> aligned(1);
           return tensor("y", HEDDLE_F32, aligned.data(), {});
         }()});
  expect(HEDDLE_OUT_OF_MEMORY,
         "entry 'custom': a tensor inside, or a number that says a place in one, would exceed 2147483647 for N = 2; "
         "give smaller inputs",
         custom, {x(2)});
  expect(HEDDLE_OUT_OF_MEMORY,
         "entry 'custom' needs 9223372036854775807 bytes of memory for these inputs, which the system refuses; give "
         "smaller inputs",
         custom, {x(3)});
  Fixture limited(1, nullptr, 1050);
  heddle_tensor few = ids({1, 10}), many = ids({1, 20});
  EXPECT_EQ(heddle_run(limited.session, encode, &few, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heddle_run(limited.session, encode, &many, 1, nullptr, 0), HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'encode' needs 1792 bytes of memory for these inputs, more than the limit of "
               "1050; give smaller inputs or raise memory_limit");
  EXPECT_EQ(heddle_run(limited.session, encode, &few, 1, nullptr, 0), HEDDLE_OK) << "the session goes on";
}

TEST_F(WrongCall, a_kernel_that_fails) {
  run_custom = [](const heddle_call &) { return -8; };
  heddle_tensor x = tensor("x", HEDDLE_F32, reals, {1});
  EXPECT_EQ(heddle_run(f.session, custom, &x, 1, nullptr, 0), HEDDLE_KERNEL_FAILED);
  EXPECT_STREQ(heddle_last_error(), "entry 'custom': a kernel failed with code -8; please report this");
  run_custom = [](const heddle_call &) { return -11; };
  EXPECT_EQ(heddle_run(f.session, custom, &x, 1, nullptr, 0), HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'custom': the system has no memory for a kernel's scratch; give smaller inputs");
}

TEST_F(WrongCall, a_kernel_that_fails_an_assertion_says_which) {
  run_custom = [](const heddle_call &call) {
    int error = halide_error_access_out_of_bounds(call.context, "x", 1, -1, 7, 0, 6);
    halide_error_host_is_null(call.context, "y"); // the first counts
    return error;
  };
  heddle_tensor x = tensor("x", HEDDLE_F32, reals, {1});
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(heddle_run(f.session, custom, &x, 1, nullptr, 0), HEDDLE_KERNEL_FAILED);
    EXPECT_STREQ(heddle_last_error(), "entry 'custom': a kernel failed with code -4: x is accessed at -1..7 of "
                                      "dimension 1, which is 0..6; please report this");
  }
  run_custom = [](const heddle_call &) { return -8; };
  EXPECT_EQ(heddle_run(f.session, custom, &x, 1, nullptr, 0), HEDDLE_KERNEL_FAILED);
  EXPECT_STREQ(heddle_last_error(), "entry 'custom': a kernel failed with code -8; please report this")
      << "the message of an earlier run is gone";
  EXPECT_EQ(halide_error_constraint_violated(nullptr, "x.stride.0", 2, "1", 1), -8);
  EXPECT_STREQ(heddle_api_1.last_error(), "x.stride.0 is 2, but 1 is 1") << "outside of a session";
}

TEST_F(WrongCall, null_objects) {
  heddle_session *session = nullptr;
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  EXPECT_EQ(heddle_run(nullptr, 0, nullptr, 0, nullptr, 0), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "heddle_run: the model or session is NULL");
  EXPECT_EQ(heddle_session_create(nullptr, nullptr, &session), HEDDLE_INVALID_ARGUMENT);
  EXPECT_EQ(heddle_session_create(f.model, nullptr, nullptr), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "session is NULL");
  EXPECT_EQ(heddle_model_describe(f.model, nullptr), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "info is NULL");
  info.struct_size = 0;
  EXPECT_EQ(heddle_model_describe(f.model, &info), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "struct_size of the info is 0; set it to the size of the struct");
  EXPECT_EQ(heddle_session_free(nullptr), HEDDLE_OK);
  EXPECT_EQ(heddle_close(nullptr), HEDDLE_OK);
}

TEST_F(WrongCall, a_second_call_while_one_is_running) {
  heddle_status inner = HEDDLE_OK, freed = HEDDLE_OK;
  std::string message;
  run_custom = [&](const heddle_call &) {
    std::thread([&] {
      inner = heddle_run(f.session, custom, nullptr, 0, nullptr, 0);
      message = heddle_last_error();
      freed = heddle_session_free(f.session);
    }).join();
    return 0;
  };
  heddle_tensor x = tensor("x", HEDDLE_F32, reals, {1});
  EXPECT_EQ(heddle_run(f.session, custom, &x, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(inner, HEDDLE_BUSY);
  EXPECT_EQ(freed, HEDDLE_BUSY);
  EXPECT_EQ(message, "the session is running in another thread; give each thread a session of its own");
}

TEST_F(WrongCall, a_freed_session_is_refused) {
  heddle_session *freed = nullptr, *next = nullptr;
  ASSERT_EQ(heddle_session_create(f.model, nullptr, &freed), HEDDLE_OK);
  ASSERT_EQ(heddle_session_free(freed), HEDDLE_OK);
  int32_t threads = 0;
  EXPECT_EQ(heddle_run(freed, custom, nullptr, 0, nullptr, 0), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "the session was freed");
  EXPECT_EQ(heddle_session_free(freed), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "the session was freed already");
  ASSERT_EQ(heddle_session_create(f.model, nullptr, &next), HEDDLE_OK);
  EXPECT_EQ(next, freed); // its place
  EXPECT_EQ(heddle_session_threads(next, &threads), HEDDLE_OK);
  EXPECT_EQ(heddle_session_free(next), HEDDLE_OK);
}

TEST_F(WrongCall, errors_belong_to_their_thread) {
  EXPECT_EQ(heddle_run(f.session, 77, nullptr, 0, nullptr, 0), HEDDLE_INVALID_ARGUMENT);
  std::string mine = heddle_last_error(), other = "not asked";
  std::thread([&] { other = heddle_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_EQ(mine, "there is no entry number 77; model 'fake' has 6");
}

// Many threads at once, after more of them, one by one, than the runtime has room for messages of.
TEST_F(WrongCall, every_thread_is_told_its_own_error) {
  std::string told;
  for (int32_t i = 0; i < 1200; i++) {
    std::thread([&] {
      heddle_run(f.session, 100 + i, nullptr, 0, nullptr, 0);
      told = heddle_last_error();
    }).join();
    ASSERT_EQ(told, "there is no entry number " + std::to_string(100 + i) + "; model 'fake' has 6");
  }
  constexpr int32_t n = 400;
  std::atomic<int32_t> failed = 0, right = 0;
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < n; i++)
    threads.emplace_back([&, i] {
      for (int32_t round = 0; round < 3; round++) {
        int32_t entry = 1000 * round + 100 + i;
        heddle_run(f.session, entry, nullptr, 0, nullptr, 0);
        right += heddle_last_error() == "there is no entry number " + std::to_string(entry) + "; model 'fake' has 6";
      }
      failed++;
      while (failed < n)
        std::this_thread::yield();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 3 * n);
}

} // namespace
