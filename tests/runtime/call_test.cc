// Runs that are right: binding by name and place, inputs left out, conversions, strides, empty tensors, zero copy.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace fake;

namespace {

std::vector<float> expected_y(const std::vector<int> &ids, const std::vector<int> &mask) {
  std::vector<float> y;
  for (size_t i = 0; i < ids.size(); i++)
    for (float bias : {0.5f, 1.5f, 2.5f, 3.5f})
      y.push_back(static_cast<float>(ids[i] * mask[i]) + bias);
  return y;
}

TEST(Call, tensors_are_found_by_name_in_any_order) {
  Fixture f;
  std::vector<int> ids = {1, 2, 3, 4, 5, 99}, mask = {1, 0, 1, 1, 0, 1}, total(2);
  std::vector<float> y(24);
  heddle_tensor inputs[] = {tensor("mask", HEDDLE_I32, mask.data(), {2, 3}),
                            tensor("ids", HEDDLE_I32, ids.data(), {2, 3})};
  heddle_tensor results[] = {tensor("total", HEDDLE_I32, total.data(), {2}),
                             tensor("y", HEDDLE_F32, y.data(), {2, 3, 4})};
  ASSERT_EQ(heddle_run(f.session, encode, inputs, 2, results, 2), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, expected_y(ids, mask));
  EXPECT_EQ(total, (std::vector<int>{6, 108}));
}

TEST(Call, tensors_without_names_are_taken_by_place_and_the_rest_may_be_left_out) {
  Fixture f;
  std::vector<int> ids = {7, 8};
  std::vector<float> y(8);
  heddle_tensor input = tensor(nullptr, HEDDLE_I32, ids.data(), {1, 2});
  heddle_tensor result = tensor(nullptr, HEDDLE_F32, y.data(), {1, 2, 4});
  ASSERT_EQ(heddle_run(f.session, encode, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, expected_y(ids, {1, 1})) << "an absent mask is 1";
  ASSERT_EQ(heddle_run(f.session, encode, &input, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
}

TEST(Call, dense_tensors_of_whole_elements_are_used_in_place_and_others_are_not) {
  Fixture f;
  Aligned<int32_t> ids(7, 3), mask(7, 1);
  Aligned<float> y(25);
  void *inside = reinterpret_cast<char *>(mask.data()) + 1; // of an element
  heddle_tensor inputs[] = {tensor("ids", HEDDLE_I32, ids.data() + 1, {2, 3}),
                            tensor("mask", HEDDLE_I32, inside, {2, 3})};
  heddle_tensor result = tensor("y", HEDDLE_F32, y.data() + 1, {2, 3, 4});
  ASSERT_EQ(heddle_run(f.session, encode, inputs, 2, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(seen.inputs[0], ids.data() + 1);
  EXPECT_NE(seen.inputs[1], inside);
  EXPECT_EQ(seen.results[0], y.data() + 1);
  for (const void *pointer : {seen.inputs[1], seen.results[1], static_cast<const void *>(seen.arena)})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 64, 0u);
}

TEST(Call, strides_may_be_transposed_negative_zero_or_odd) {
  Fixture f;
  std::vector<float> stored = {1, 2, 3, 4, 5, 6}, y(6);
  heddle_tensor x = tensor("x", HEDDLE_F32, stored.data(), {2, 3});
  heddle_tensor result = tensor("y", HEDDLE_F32, y.data(), {2, 3});
  x.strides[0] = 4, x.strides[1] = 8; // a transposed view of [3, 2]
  ASSERT_EQ(heddle_run(f.session, floats, &x, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, (std::vector<float>{1, 3, 5, 2, 4, 6}));
  x.data = &stored[5];
  x.strides[0] = -12, x.strides[1] = -4; // backwards
  ASSERT_EQ(heddle_run(f.session, floats, &x, 1, &result, 1), HEDDLE_OK);
  EXPECT_EQ(y, (std::vector<float>{6, 5, 4, 3, 2, 1}));
  x.data = stored.data();
  x.strides[0] = 0, x.strides[1] = 4; // one row for all
  ASSERT_EQ(heddle_run(f.session, floats, &x, 1, &result, 1), HEDDLE_OK);
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 1, 2, 3}));
  std::vector<uint8_t> packed(2 * 19, 0xee); // records of 19 bytes with three floats at byte 5
  for (int b = 0; b < 2; b++)
    memcpy(&packed[static_cast<size_t>(b * 19 + 5)], &stored[static_cast<size_t>(b * 3)], 12);
  x.data = &packed[5];
  x.strides[0] = 19, x.strides[1] = 4;
  ASSERT_EQ(heddle_run(f.session, floats, &x, 1, &result, 1), HEDDLE_OK);
  EXPECT_EQ(y, stored);
}

TEST(Call, results_may_be_strided_and_bytes_between_stay_untouched) {
  Fixture f;
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(20, -1);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {2, 3});
  heddle_tensor result = tensor("y", HEDDLE_F32, y.data(), {2, 3});
  result.strides[0] = 40, result.strides[1] = 8;
  ASSERT_EQ(heddle_run(f.session, floats, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, (std::vector<float>{1, -1, 2, -1, 3, -1, -1, -1, -1, -1, 4, -1, 5, -1, 6, -1, -1, -1, -1, -1}));
}

TEST(Call, random_strides_and_shapes_agree_with_a_plain_loop) {
  Fixture f;
  std::mt19937 random(7);
  for (int round = 0; round < 500; round++) {
    auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    int64_t b = pick(0, 8), s = pick(0, 70);
    std::vector<float> from(20000), to(20000, -1);
    for (size_t i = 0; i < from.size(); i++)
      from[i] = static_cast<float>(i);
    heddle_tensor input = tensor("x", HEDDLE_F32, &from[10000], {b, s});
    heddle_tensor result = tensor("y", HEDDLE_F32, &to[10000], {b, s});
    input.strides[0] = 4 * pick(-400, 400), input.strides[1] = 4 * pick(-5, 5);
    bool by_rows = pick(0, 1); // results must not overlap themselves
    result.strides[0] = 4 * (by_rows ? 300 : 1) * (pick(0, 1) ? 1 : -1);
    result.strides[1] = 4 * (by_rows ? pick(1, 4) : 9) * (pick(0, 1) ? 1 : -1);
    ASSERT_EQ(heddle_run(f.session, floats, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
    int64_t written = 0;
    for (int64_t i = 0; i < b; i++)
      for (int64_t j = 0; j < s; j++) {
        auto x = from[static_cast<size_t>(10000 + (i * input.strides[0] + j * input.strides[1]) / 4)];
        ASSERT_EQ(to[static_cast<size_t>(10000 + (i * result.strides[0] + j * result.strides[1]) / 4)], x);
      }
    for (float y : to)
      written += y != -1;
    ASSERT_EQ(written, b * s);
  }
}

TEST(Call, integers_of_any_type_are_converted) {
  Fixture f;
  std::vector<int64_t> ids = {7, 0, 99};
  std::vector<uint8_t> mask = {1, 0, 1};
  std::vector<int> total(1);
  for (heddle_dtype dtype : {HEDDLE_U8, HEDDLE_BOOL, HEDDLE_I8}) {
    heddle_tensor inputs[] = {tensor("ids", HEDDLE_I64, ids.data(), {1, 3}),
                              tensor("mask", dtype, mask.data(), {1, 3})};
    std::vector<float> y(12);
    heddle_tensor results[] = {tensor("y", HEDDLE_F32, y.data(), {1, 3, 4}),
                               tensor("total", HEDDLE_I32, total.data(), {1})};
    ASSERT_EQ(heddle_run(f.session, encode, inputs, 2, results, 2), HEDDLE_OK) << heddle_last_error();
    EXPECT_EQ(y, expected_y({7, 0, 99}, {1, 0, 1}));
    EXPECT_EQ(total[0], 106);
  }
}

TEST(Call, every_pair_of_integer_types_converts_every_value_that_fits) {
  struct Type {
    heddle_dtype dtype;
    int64_t low, high;
  };
  const Type all[] = {{HEDDLE_BOOL, 0, 1},
                      {HEDDLE_I64, INT64_MIN, INT64_MAX},
                      {HEDDLE_U8, 0, 255},
                      {HEDDLE_I8, -128, 127},
                      {HEDDLE_I32, INT32_MIN, INT32_MAX}};
  Fixture f;
  auto store = [](std::vector<uint8_t> &bytes, heddle_dtype dtype, int64_t x) {
    auto size = static_cast<size_t>(heddle_dtype_bytes(dtype));
    bytes.resize(bytes.size() + size);
    memcpy(bytes.data() + bytes.size() - size, &x, size); // little endian
  };
  for (const Type &from : all)
    for (int32_t target = 0; target < 5; target++) {
      const Type &to = all[target];
      for (int64_t x : {from.low, from.high, int64_t(0), int64_t(1), to.low, to.high}) {
        if (x < from.low || x > from.high)
          continue;
        std::vector<uint8_t> given, zero, result, wanted;
        for (int64_t y : {int64_t(1), x})
          store(given, from.dtype, y), store(wanted, to.dtype, y);
        result.resize(wanted.size());
        zero.resize(8);
        std::vector<heddle_tensor> inputs;
        const char *const names[] = {"bool", "i64", "u8", "i8", "i32"};
        inputs.push_back(tensor(names[target], from.dtype, given.data(), {2}));
        if (target != 4)
          inputs.push_back(tensor("i32", HEDDLE_I32, zero.data(), {2}));
        heddle_tensor out = tensor(names[target], to.dtype, result.data(), {2});
        bool fits = x >= to.low && x <= to.high;
        ASSERT_EQ(heddle_run(f.session, types, inputs.data(), static_cast<int32_t>(inputs.size()), &out, 1),
                  fits ? HEDDLE_OK : HEDDLE_OUT_OF_RANGE)
            << names[target] << " from " << from.dtype << ": " << x << " " << heddle_last_error();
        if (fits)
          ASSERT_EQ(result, wanted) << names[target] << " from " << from.dtype << ": " << x;
        else
          ASSERT_EQ(std::string(heddle_last_error()),
                    "entry 'types', input '" + std::string(names[target]) + "': element [1] is " + std::to_string(x) +
                        ", but must be in " + std::to_string(to.low) + " .. " + std::to_string(to.high));
      }
    }
}

TEST(Call, inputs_left_out_hold_their_initial_value_in_every_type) {
  Fixture f;
  int32_t zeros[3] = {};
  std::vector<uint8_t> flags(3), bytes(3);
  std::vector<int64_t> longs(3);
  std::vector<int8_t> small(3);
  heddle_tensor input = tensor("i32", HEDDLE_I32, zeros, {3});
  heddle_tensor results[] = {tensor("bool", HEDDLE_BOOL, flags.data(), {3}),
                             tensor("i64", HEDDLE_I64, longs.data(), {3}), tensor("u8", HEDDLE_U8, bytes.data(), {3}),
                             tensor("i8", HEDDLE_I8, small.data(), {3})};
  ASSERT_EQ(heddle_run(f.session, types, &input, 1, results, 4), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(flags, (std::vector<uint8_t>{1, 1, 1}));
  EXPECT_EQ(longs, (std::vector<int64_t>{-7, -7, -7}));
  EXPECT_EQ(bytes, (std::vector<uint8_t>{200, 200, 200}));
  EXPECT_EQ(small, (std::vector<int8_t>{-3, -3, -3}));
  float x = 0, single[4];
  uint16_t half[4], brain[4];
  heddle_tensor one = tensor("x", HEDDLE_F32, &x, {1, 1});
  heddle_tensor others[] = {tensor("f16", HEDDLE_F16, half, {4}), tensor("bf16", HEDDLE_BF16, brain, {4}),
                            tensor("f32", HEDDLE_F32, single, {4})};
  ASSERT_EQ(heddle_run(f.session, floats, &one, 1, others, 3), HEDDLE_OK) << heddle_last_error();
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(half[i], 0x2e66);  // 0.1, as numpy rounds it
    EXPECT_EQ(brain[i], 0xbdcd); // -0.1
    EXPECT_EQ(single[i], 1e-3f);
  }
}

TEST(Call, an_empty_batch_gives_empty_results_without_a_run) {
  Fixture f;
  heddle_tensor inputs[] = {tensor("ids", HEDDLE_I32, nullptr, {0, 7}), tensor("mask", HEDDLE_I64, nullptr, {0, 7})};
  heddle_tensor results[] = {tensor("y", HEDDLE_F32, nullptr, {0, 7, 4}), tensor("total", HEDDLE_I32, nullptr, {0})};
  ASSERT_EQ(heddle_run(f.session, encode, inputs, 2, results, 2), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(seen.calls, 0);
}

TEST(Call, an_empty_reduction_still_computes_its_result) {
  Fixture f;
  int total[2] = {-1, -1};
  heddle_tensor input = tensor("ids", HEDDLE_I32, nullptr, {2, 0});
  heddle_tensor results[] = {tensor("y", HEDDLE_F32, nullptr, {2, 0, 4}), tensor("total", HEDDLE_I32, total, {2})};
  ASSERT_EQ(heddle_run(f.session, encode, &input, 1, results, 2), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(total[0], 0);
  EXPECT_EQ(total[1], 0);
  for (const void *pointer : seen.inputs) // kernels may load beside an empty tensor
    EXPECT_EQ(static_cast<const volatile uint8_t *>(pointer)[-64] + static_cast<const volatile uint8_t *>(pointer)[63],
              0);
}

TEST(Call, a_result_may_lie_over_an_input) {
  Fixture f;
  Aligned<float> x(64);
  for (size_t i = 0; i < 64; i++)
    x[i] = static_cast<float>(i);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {3, 16});
  heddle_tensor result = tensor("y", HEDDLE_F32, x.data() + 16, {3, 16});
  ASSERT_EQ(heddle_run(f.session, floats, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_NE(seen.results[0], x.data() + 16) << "in place would overwrite what is still to be read";
  for (size_t i = 0; i < 48; i++)
    EXPECT_EQ(x[16 + i], static_cast<float>(i));
}

TEST(Call, dense_runs_take_dims_and_pointers) {
  Fixture f;
  Aligned<int32_t> ids(6, 5), total(2);
  Aligned<float> y(24);
  const int64_t dims[] = {2, 3, -999}; // N is not used by this entry
  const void *inputs[] = {ids.data(), nullptr};
  void *results[] = {y.data(), total.data()};
  ASSERT_EQ(heddle_run_dense(f.session, encode, dims, inputs, results), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y.values(), expected_y({5, 5, 5, 5, 5, 5}, {1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(total[1], 15);
  results[0] = nullptr;
  total[1] = 0;
  ASSERT_EQ(heddle_run_dense(f.session, encode, dims, inputs, results), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(total[1], 15);
}

TEST(Call, computed_extents_and_bounds_follow_from_dims) {
  Fixture f;
  std::vector<float> scale(4), pairs = {0, 1, 2, 3, 4, 5, 6, 7}, last(2), picked(3);
  std::vector<int> position = {3, 0, 1}, offset = {1, 1, 0};
  heddle_tensor inputs[] = {
      tensor("scale", HEDDLE_F32, scale.data(), {4}), tensor("pairs", HEDDLE_F32, pairs.data(), {8}),
      tensor("position", HEDDLE_I32, position.data(), {3}), tensor("offset", HEDDLE_I32, offset.data(), {3})};
  heddle_tensor results[2];
  ASSERT_EQ(heddle_result_shapes(f.model, window, inputs, 4, results, 2), HEDDLE_OK) << heddle_last_error();
  EXPECT_STREQ(results[0].name, "last");
  EXPECT_EQ(results[0].shape[0], 2);
  EXPECT_EQ(results[1].shape[0], 3);
  EXPECT_EQ(results[1].strides[0], 4);
  EXPECT_EQ(results[1].dtype, HEDDLE_F32);
  results[0].data = last.data();
  results[1].data = picked.data();
  ASSERT_EQ(heddle_run(f.session, window, inputs, 4, results, 2), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(last, (std::vector<float>{6, 7}));
  EXPECT_EQ(picked, (std::vector<float>{3, 0, 1}));
}

TEST(Call, denormals_are_zero_inside_and_the_callers_mode_is_kept) {
  Fixture f(2);
  float inside = -1;
  run_custom = [&](const heddle_call &) {
    volatile float tiny = 1e-38f;
    inside = tiny * 0.1f;
    return 0;
  };
  float x = 0, y = 0;
  heddle_tensor input = tensor("x", HEDDLE_F32, &x, {1});
  heddle_tensor result = tensor("y", HEDDLE_F32, &y, {});
  ASSERT_EQ(heddle_run(f.session, custom, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(inside, 0.0f);
  volatile float tiny = 1e-38f;
  EXPECT_NE(tiny * 0.1f, 0.0f);
}

} // namespace
