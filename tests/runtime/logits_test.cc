// What is done to rows of logits, against the same in double, one number after the other: on every set of instructions
// that this machine has, with the same bits.
#include "runtime/cpu_features.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

extern "C" {
#include "runtime/logits.h"
}

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
using Row = std::vector<float>;

std::vector<const rt_logit_functions *> all_functions() {
  std::vector<const rt_logit_functions *> out{rt_logit_functions_for(0)};
  for (uint32_t feature : {HEDDLE_CPU_AVX2, HEDDLE_CPU_AVX512})
    if (heddle_host_cpu_features() & feature)
      out.push_back(rt_logit_functions_for(feature));
  return out;
}

Row random_row(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 8);
  Row out(n);
  for (float &x : out)
    x = normal(random);
  return out;
}

std::vector<uint32_t> bits(const Row &row) {
  std::vector<uint32_t> out;
  for (float x : row)
    out.push_back(std::isnan(x) ? ~0u : std::bit_cast<uint32_t>(x));
  return out;
}

double log_sum(const Row &row, double largest) {
  double sum = 0;
  for (float x : row)
    sum += std::exp(double(x) - largest);
  return largest + std::log(sum);
}

TEST(Logits, log_probabilities_are_those_of_double) {
  for (size_t n : {1, 2, 15, 16, 17, 31, 64, 1000, 50257}) {
    Row row = random_row(n, uint32_t(n)), first;
    row[n / 2] = n > 1 ? -infinity : row[0]; // a token that is forbidden
    double sum = log_sum(row, *std::max_element(row.begin(), row.end()));
    for (const rt_logit_functions *functions : all_functions()) {
      Row own = row;
      functions->log_softmax(own.data(), int64_t(n));
      for (size_t i = 0; i < n; i++) {
        double right = row[i] - sum, alone = functions->log_probability(row.data(), int64_t(n), int64_t(i));
        EXPECT_EQ(std::isinf(row[i]), std::isinf(own[i]) && std::isinf(alone));
        if (!std::isinf(row[i])) {
          ASSERT_NEAR(own[i], right, 1e-5) << i << " of " << n; // sums near 40 have units of 4e-6
          ASSERT_NEAR(alone, right, 1e-5) << i << " of " << n;
        }
        if (n > 1000 && i > 20)
          i += 997;
      }
      first = first.empty() ? own : first;
      EXPECT_EQ(bits(own), bits(first));
    }
  }
}

TEST(Logits, exponentials_are_right_to_two_units_of_their_last_place) {
  Row row{0};
  for (float x = 0; x > -86.9f; x -= 0.00173f)
    row.push_back(x);
  Row beyond{-87.1f, -88, -200, -3e38f, -infinity};
  row.insert(row.end(), beyond.begin(), beyond.end());
  Row first;
  for (const rt_logit_functions *functions : all_functions()) {
    Row own = row;
    double sum = functions->exponentials(own.data(), int64_t(own.size())), all = 0;
    for (size_t i = 0; i < row.size(); i++) {
      double right = std::exp(double(row[i]));
      all += own[i];
      if (i + beyond.size() < row.size())
        ASSERT_NEAR(own[i] / right, 1, 0x1p-22) << row[i];
      else
        EXPECT_EQ(own[i], 0) << row[i];
    }
    EXPECT_NEAR(sum, all, 1e-9 * all);
    first = first.empty() ? own : first;
    EXPECT_EQ(bits(own), bits(first));
  }
}

TEST(Logits, infinities_and_no_numbers) {
  for (const rt_logit_functions *functions : all_functions())
    for (size_t n : {3, 16, 21}) {
      Row forbidden(n, -infinity), forced(n, -infinity), torn = random_row(n, 1);
      EXPECT_EQ(functions->exponentials(forbidden.data(), int64_t(n)), double(n)); // none is better than another one
      EXPECT_EQ(forbidden, Row(n, 1));
      forced[2] = infinity;
      EXPECT_EQ(functions->exponentials(forced.data(), int64_t(n)), 1);
      EXPECT_EQ(forced[2], 1);
      torn[1] = none;
      functions->log_softmax(torn.data(), int64_t(n));
      for (float x : torn)
        EXPECT_TRUE(std::isnan(x));
    }
}

TEST(Logits, the_best_is_the_first_of_equals) {
  for (const rt_logit_functions *functions : all_functions())
    for (int64_t n : {1, 2, 16, 17, 40, 1001})
      for (int64_t place = 0; place < n; place = place * 2 + 1) {
        Row row(size_t(n), -1);
        row[size_t(place)] = row.back() = 3;
        EXPECT_EQ(functions->best(row.data(), n), place);
        if (place > 0)
          row[0] = none;
        EXPECT_EQ(functions->best(row.data(), n), 0); // nothing is more than no number
        row[0] = -1;
        row[size_t(place)] = 3;
        if (place > 1)
          row[1] = none; // nor is it more than anything
        EXPECT_EQ(functions->best(row.data(), n), place);
        Row worst(size_t(n), -infinity);
        EXPECT_EQ(functions->best(worst.data(), n), 0);
      }
}

TEST(Logits, the_next_best_is_the_first_that_is_not_less) {
  Row row = random_row(333, 5);
  row[100] = none;
  for (const rt_logit_functions *functions : all_functions())
    for (float least : {-30.0f, 0.0f, 10.0f, 1000.0f, none})
      for (int64_t from = 0; from <= 333; from += 7) {
        int64_t wanted = from;
        while (wanted < 333 && row[size_t(wanted)] + 0.25f < least)
          wanted++;
        EXPECT_EQ(functions->next_best(row.data(), 333, from, 0.25f, least), wanted);
      }
}

} // namespace
