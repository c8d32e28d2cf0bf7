// Rows of a contraction's schedule against the slow evaluation of the same text.
#pragma once

#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/targets/target.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace heddle::test {

inline double tolerance(int64_t depth) { return 1e-6 * std::max(1.0, std::sqrt(double(depth))); }

/// How often a text has another.
inline int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// One row at all sizes, without asserts and, unless `asserts` is false, with them; of inputs that `change` may change.
inline void check_row(
    const std::string &text, const ScheduleRow &row, const std::vector<std::vector<int64_t>> &sizes, double relative,
    bool asserts = true, const std::function<void(std::vector<Values> &)> &change = [](std::vector<Values> &) {}) {
  const Target &target = host_target();
  KernelText kernel(text);
  ASSERT_EQ(kind_of(kernel.function()).name, "contraction");
  kernel.set_row(row);
  std::string name = row.variant;
  for (const auto &[parameter, value] : row.params)
    name += " " + parameter + "=" + std::to_string(value);
  SCOPED_TRACE(name);
  CompiledKernel compiled(kernel.function(), 0, target, false);
  std::optional<CompiledKernel> checked;
  if (asserts)
    checked.emplace(kernel.function(), 0, target, true);
  for (const std::vector<int64_t> &size : sizes) {
    std::vector<Values> inputs = random_inputs(kernel.function(), size, 7);
    change(inputs);
    std::vector<Values> expected = evaluate(kernel.function(), size, inputs);
    EXPECT_TRUE(close(compiled.run(size, inputs), expected, relative)) << "at size " << (size.empty() ? 0 : size[0]);
    if (checked)
      EXPECT_TRUE(close(checked->run(size, inputs), expected, relative))
          << "at size " << (size.empty() ? 0 : size[0]) << " with asserts";
  }
}

/// Of a matrix unit that multiplies parts of f32.
inline ScheduleRow split_tiles(int64_t width, int64_t depth, int64_t block = 96, int64_t panels = 2) {
  ScheduleRow row = row_of("contraction", "split_tiles",
                           {{"rows", 32},
                            {"width", width},
                            {"depth", depth},
                            {"panels", panels},
                            {"block", block},
                            {"ahead", 1},
                            {"tasks", 8}});
  row.micro_kernel = "tile_f32";
  return row;
}

/// The rows that the kind itself chooses, each at all sizes.
inline void check_chosen(const std::string &text, const std::vector<std::vector<int64_t>> &sizes, double relative) {
  KernelText kernel(text);
  ASSERT_EQ(kind_of(kernel.function()).name, "contraction");
  for (ScheduleRow row : choose(kernel.function(), host_target()).rows) {
    row.when.reset(); // every row is correct at every size
    check_row(text, row, sizes, relative);
  }
}

} // namespace heddle::test
