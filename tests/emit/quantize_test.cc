// Derived weights against the definition of heddle.derived, computed here element by element.
#include "compiler/emit/artifact/quantize.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace heddle;

namespace {

class Quantized : public testing::Test {
protected:
  Quantized() {
    mlir::DialectRegistry registry;
    ir::register_dialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  Quantization of(const std::vector<float> &floats, std::vector<int64_t> shape, std::vector<int64_t> channels) {
    auto derived = ir::DerivedAttr::get(&context, ir::Derivation::quantized, shape, channels);
    return Quantization(derived, [floats](int64_t begin, std::span<float> out) {
      std::memcpy(out.data(), floats.data() + begin, out.size_bytes());
    });
  }

  template <class T>
  static std::vector<T> read(const Quantization &from, ir::Derivation what, int64_t begin, int64_t count) {
    std::vector<T> out(count);
    from.read(what, begin, std::as_writable_bytes(std::span(out)));
    return out;
  }

  mlir::MLIRContext context;
};

TEST_F(Quantized, numbers_scales_and_sums_are_those_of_the_definition_along_any_axes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::vector<int64_t> shape = {3, 4, 5};
  std::vector<float> floats(60);
  for (float &value : floats)
    value = normal(random);
  for (const std::vector<int64_t> &channels :
       std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 1}, {0, 2}, {2, 0}}) {
    auto channel_of = [&](int64_t element) {
      int64_t at[3] = {element / 20, element / 5 % 4, element % 5}, out = 0;
      for (int64_t axis : channels)
        out = out * shape[axis] + at[axis];
      return out;
    };
    int64_t count = 1;
    for (int64_t axis : channels)
      count *= shape[axis];
    std::vector<float> scales(count);
    for (int64_t i = 0; i < 60; ++i)
      scales[channel_of(i)] = std::max(scales[channel_of(i)], std::fabs(floats[i]) / 127);
    std::vector<int32_t> sums(count);
    std::vector<int8_t> numbers(60);
    for (int64_t i = 0; i < 60; ++i) {
      numbers[i] = int8_t(std::nearbyint(floats[i] / scales[channel_of(i)]));
      sums[channel_of(i)] += numbers[i];
    }
    Quantization quantization = of(floats, shape, channels);
    EXPECT_EQ(read<float>(quantization, ir::Derivation::scales, 0, count), scales);
    EXPECT_EQ(read<int32_t>(quantization, ir::Derivation::sums, 0, count), sums);
    EXPECT_EQ(read<int8_t>(quantization, ir::Derivation::quantized, 0, 60), numbers);
    EXPECT_EQ(read<int8_t>(quantization, ir::Derivation::quantized, 7, 16),
              std::vector<int8_t>(numbers.begin() + 7, numbers.begin() + 23))
        << "a piece that begins and ends within runs";
  }
}

TEST_F(Quantized, channels_of_nothing_but_zeros_have_numbers_and_what_is_no_number_is_the_scale) {
  float nan = std::nanf("");
  Quantization quantization = of({0, 0, 1, nan, -2, 1, nan, 3}, {4, 2}, {0});
  std::vector<float> scales = read<float>(quantization, ir::Derivation::scales, 0, 4);
  EXPECT_EQ(scales[0], 1);
  EXPECT_TRUE(std::isnan(scales[1]));
  EXPECT_EQ(scales[2], 2.0f / 127);
  EXPECT_TRUE(std::isnan(scales[3]));
  EXPECT_EQ(read<int8_t>(quantization, ir::Derivation::quantized, 0, 2), (std::vector<int8_t>{0, 0}));
  EXPECT_EQ(read<int8_t>(quantization, ir::Derivation::quantized, 4, 2), (std::vector<int8_t>{-127, 64}));
}

} // namespace
