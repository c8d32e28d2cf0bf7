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

  Quantization of(const std::vector<float> &floats, std::vector<int64_t> shape, std::vector<int64_t> channels,
                  int64_t pair_sum = 0) {
    auto derived = ir::DerivedAttr::get(&context, ir::Derivation::quantized, shape, channels, pair_sum);
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

TEST_F(Quantized, no_pair_adds_up_to_more_than_it_may) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  const std::vector<int64_t> shape = {3, 4, 3, 5};
  constexpr int64_t count = 180;
  std::vector<float> floats(count);
  for (float &value : floats)
    value = normal(random);
  for (int64_t i = 60; i < 120; ++i) // neighbours of one sign
    floats[i] = 1 + std::fabs(floats[i]) / 8;
  for (const std::vector<int64_t> &channels : std::vector<std::vector<int64_t>>{
           {0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {0, 1, 2}, {1, 2, 3}}) {
    auto is_channel = [&](int64_t axis) { return std::ranges::find(channels, axis) != channels.end(); };
    auto at = [&](int64_t element) {
      std::vector<int64_t> out(4);
      for (int64_t axis = 3; axis >= 0; element /= shape[axis--])
        out[axis] = element % shape[axis];
      return out;
    };
    auto channel_of = [&](int64_t element) {
      int64_t out = 0;
      for (int64_t axis : channels)
        out = out * shape[axis] + at(element)[axis];
      return out;
    };
    auto is_pair = [&](int64_t a, int64_t b) { // b the later one
      std::vector<int64_t> from = at(a), to = at(b);
      for (int64_t axis = 0; axis < 4; ++axis)
        if (is_channel(axis) && from[axis] != to[axis])
          return false;
      for (int64_t first = 0; first < 4; ++first) // axes that follow one another, as one
        for (int64_t last = first; last < 4; ++last) {
          bool all = true, same = true;
          int64_t a_number = 0, b_number = 0;
          for (int64_t axis = 0; axis < 4; ++axis) {
            bool within = axis >= first && axis <= last;
            all &= !within || !is_channel(axis);
            same &= within || from[axis] == to[axis];
            a_number = within ? a_number * shape[axis] + from[axis] : a_number;
            b_number = within ? b_number * shape[axis] + to[axis] : b_number;
          }
          if (all && same && a_number % 2 == 0 && b_number - a_number == 1)
            return true;
        }
      return false;
    };
    int64_t number = 1;
    for (int64_t axis : channels)
      number *= shape[axis];
    std::vector<float> scales(number);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t b = 0; b < count; ++b) {
      float &scale = scales[channel_of(b)];
      scale = std::max(scale, std::fabs(floats[b]) / 127);
      for (int64_t a = 0; a < b; ++a)
        if (is_pair(a, b)) {
          scale = std::max(scale, std::fabs(floats[a] + floats[b]) / 127);
          pairs.emplace_back(a, b);
        }
    }
    ASSERT_FALSE(pairs.empty());
    Quantization quantization = of(floats, shape, channels, 128);
    EXPECT_EQ(read<float>(quantization, ir::Derivation::scales, 0, number), scales);
    std::vector<int8_t> numbers = read<int8_t>(quantization, ir::Derivation::quantized, 0, count);
    for (auto [a, b] : pairs)
      EXPECT_LE(std::abs(numbers[a] + numbers[b]), 128);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(numbers[i], int8_t(std::nearbyint(floats[i] / scales[channel_of(i)])));
  }
}

TEST_F(Quantized, a_pair_that_adds_up_to_more_than_f32_holds_has_a_scale) {
  Quantization quantization = of({3e38f, 3e38f, -2e38f, -2.5e38f}, {2, 2}, {0}, 128);
  for (float scale : read<float>(quantization, ir::Derivation::scales, 0, 2))
    EXPECT_TRUE(std::isfinite(scale));
  EXPECT_EQ(read<int8_t>(quantization, ir::Derivation::quantized, 0, 4), (std::vector<int8_t>{64, 64, -56, -71}));
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
