// Conversions between files' elements and the evaluator's arrays.
#include "compiler/io/host_tensor.h"

#include "dsl/check/round.h"
#include "tests/io/files.h"

#include <bit>
#include <cmath>

namespace heddle {
namespace {

template <class T> std::string refusal(const Result<T> &result) { return result ? "no error" : result.error().message; }

TEST(HostTensors, the_names_of_dtypes_go_both_ways) {
  for (const char *name : {"F32", "BF16", "F16", "F64", "I8", "I32", "I64", "U8", "BOOL"})
    EXPECT_EQ(dtype_name(find_dtype(name).value()), name);
  EXPECT_FALSE(find_dtype("U32"));
}

TEST(HostTensors, every_f16_and_bf16_survives_the_way_to_an_array_and_back) {
  for (auto [dtype, type] : {std::pair(DType::f16, Type::f16), std::pair(DType::bf16, Type::bf16)}) {
    std::vector<uint16_t> bits(65536);
    for (size_t i = 0; i < bits.size(); ++i)
      bits[i] = static_cast<uint16_t>(i);
    HostTensor tensor = tensor_of(dtype, {65536}, bits);
    Result<Array> array = input_array(tensor.view(), type, "x");
    ASSERT_TRUE(array);
    HostTensor back = host_tensor(*array);
    for (size_t i = 0; i < bits.size(); ++i)
      if (!std::isnan(array->data[i])) {
        uint16_t again;
        std::memcpy(&again, back.bytes.data() + 2 * i, 2);
        ASSERT_EQ(again, bits[i]);
      }
  }
}

TEST(HostTensors, known_f16_values_are_read) {
  HostTensor tensor = tensor_of<uint16_t>(DType::f16, {7}, {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0xfc00, 0x7e00});
  std::vector<float> values(7);
  read_f32(tensor.view(), 0, values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[2], 65504);
  EXPECT_EQ(values[3], std::ldexp(1.0f, -24));
  EXPECT_EQ(values[4], INFINITY);
  EXPECT_EQ(values[5], -INFINITY);
  EXPECT_TRUE(std::isnan(values[6]));
}

TEST(HostTensors, narrow_floats_round_to_nearest_even_and_overflow_to_infinity) {
  // 1 + 2^-8 is half way between two bf16, 1 + 3 * 2^-8 too: each goes to the even one.
  HostTensor tensor = tensor_of<float>(DType::f32, {4}, {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 3.4e38f, 1e-42f});
  Result<Array> array = weight_array(tensor.view(), Type::bf16, "w");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->data[0], 1);
  EXPECT_EQ(array->data[1], 1 + 0x1p-6);
  EXPECT_EQ(array->data[2], INFINITY);
  EXPECT_EQ(array->data[3], 0);
  tensor = tensor_of<double>(DType::f64, {2}, {65519.99, 65520});
  array = weight_array(tensor.view(), Type::f16, "w");
  EXPECT_EQ(array->data[0], 65504);
  EXPECT_EQ(array->data[1], INFINITY);
}

TEST(HostTensors, a_part_is_read_as_f32) {
  HostTensor tensor = tensor_of<int64_t>(DType::i64, {4}, {1, 2, 3, 4});
  std::vector<float> values(2);
  read_f32(tensor.view(), 1, values);
  EXPECT_EQ(values, (std::vector<float>{2, 3}));
}

TEST(HostTensors, integers_of_any_width_are_inputs_where_their_values_fit) {
  for (const HostTensor &tensor :
       {tensor_of<int64_t>(DType::i64, {2}, {1, 0}), tensor_of<int32_t>(DType::i32, {2}, {1, 0}),
        tensor_of<uint8_t>(DType::u8, {2}, {1, 0}), tensor_of<uint8_t>(DType::boolean, {2}, {1, 0})})
    for (Type wanted : {Type::i32, Type::i8, Type::boolean}) {
      Result<Array> array = input_array(tensor.view(), wanted, "x");
      ASSERT_TRUE(array);
      EXPECT_EQ(array->type, wanted);
      EXPECT_EQ(array->data, (std::vector<double>{1, 0}));
    }
}

TEST(HostTensors, an_integer_that_does_not_fit_is_named_with_its_place) {
  EXPECT_EQ(refusal(input_array(tensor_of<int64_t>(DType::i64, {2, 2}, {1, 2, 3ll << 31, 4}).view(), Type::i32, "ids")),
            "`ids` has the value 6442450944 at [1, 0], which is no i32: the values go from -2147483648 to 2147483647");
  EXPECT_EQ(refusal(input_array(tensor_of<int32_t>(DType::i32, {}, {2}).view(), Type::boolean, "mask")),
            "`mask` has the value 2 at [], which is no bool: the values go from 0 to 1");
}

TEST(HostTensors, an_input_is_never_converted_between_floats_or_to_integers) {
  EXPECT_EQ(
      refusal(input_array(tensor_of<double>(DType::f64, {1}, {1}).view(), Type::f32, "x")),
      "`x` is F64; it must be F32, for inputs are never converted between integers and floats or between widths of "
      "floats");
  EXPECT_EQ(refusal(input_array(tensor_of<float>(DType::f32, {1}, {1}).view(), Type::i32, "ids")),
            "`ids` is F32; it must be I8, I32, I64, U8 or BOOL, for inputs are never converted between integers and "
            "floats or "
            "between widths of floats");
}

TEST(HostTensors, a_weight_is_rounded_to_the_models_float_but_stays_a_float) {
  Result<Array> array = weight_array(tensor_of<double>(DType::f64, {1}, {0.1}).view(), Type::f32, "w");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->data[0], static_cast<double>(0.1f));
  EXPECT_EQ(refusal(weight_array(tensor_of<int32_t>(DType::i32, {1}, {1}).view(), Type::f32, "w")),
            "the weight `w` is I32; the model reads it as f32");
}

TEST(HostTensors, results_keep_their_type) {
  HostTensor tensor = host_tensor({Type::i8, {2}, {-128, 127}});
  EXPECT_EQ(tensor.dtype, DType::i8);
  EXPECT_EQ(read_element(tensor.view(), 0), -128);
  tensor = host_tensor({Type::boolean, {1}, {1}});
  EXPECT_EQ(tensor.dtype, DType::boolean);
  tensor = host_tensor({Type::i32, {1}, {-7}});
  EXPECT_EQ(read_element(tensor.view(), 0), -7);
  EXPECT_EQ(tensor.bytes.size(), 4u);
}

TEST(HostTensors, elements_are_packed_as_the_evaluator_rounds_them) {
  std::vector<float> values;
  for (uint32_t bits = 1; bits < 0xff000000; bits += 65537 * 3) // all exponents, many fractions
    values.push_back(std::bit_cast<float>(bits));
  for (float value :
       {65519.996f, 65520.f, 0x1p-14f, 0x1.ffcp-15f, 0x1.ffep-15f, 0x1p-25f, 0x1.8p-25f, 0x1.8p-24f, -0.f})
    values.push_back(value);
  HostTensor tensor = tensor_of(DType::f32, {int64_t(values.size())}, values);
  for (auto [dtype, type] : {std::pair(DType::f16, Type::f16), std::pair(DType::bf16, Type::bf16)}) {
    std::vector<uint16_t> packed(values.size() - 1);
    read_as(tensor.view(), dtype, 1, std::as_writable_bytes(std::span(packed)));
    HostTensor again{dtype, {int64_t(packed.size())}, {}};
    again.bytes.assign(std::as_bytes(std::span(packed)).begin(), std::as_bytes(std::span(packed)).end());
    for (size_t i = 0; i < packed.size(); ++i) {
      double want = round_to(type, values[i + 1]), got = read_element(again.view(), i);
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(got)) << values[i + 1];
      else
        ASSERT_EQ(got, want) << values[i + 1];
    }
  }
}

} // namespace
} // namespace heddle
