// Compiles kernels given as MLIR text, runs them on guarded buffers and compares them with a slow evaluation of the
// same text. Shared by the tests of all kinds of kernels. A buffer ends at an inaccessible page and begins behind a
// red zone, so that a read past the end faults and a write before the start is seen.
#pragma once

#include "compiler/emit/kernels/emit.h"
#include "compiler/kernels/kinds.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::test {

/// A tensor of any element type, its values as doubles, row-major.
struct Values {
  mlir::Type element;
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t count() const;
};

/// A module with one kernel, parsed from text.
class KernelText {
public:
  explicit KernelText(std::string_view text);
  mlir::func::FuncOp function() const { return function_; }

  /// Puts `row` in as the kernel's only schedule, under the kind that takes the kernel.
  void set_row(const ScheduleRow &row);

private:
  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp function_;
};

/// Inputs for the given run-time sizes: floats from a normal distribution, integers below `heddle.below` (or 4).
std::vector<Values> random_inputs(mlir::func::FuncOp kernel, const std::vector<int64_t> &sizes, unsigned seed);

/// What the kernel computes, in double precision, op by op and point by point.
std::vector<Values> evaluate(mlir::func::FuncOp kernel, const std::vector<int64_t> &sizes,
                             const std::vector<Values> &inputs);

/// The extents of an argument or result (by its `heddle.extents` or its static type).
std::vector<int64_t> shape_of(mlir::Type type, mlir::Attribute extents, const std::vector<int64_t> &sizes);

/// The most demanding target that this machine can run, also one that `native` leaves out as slow.
const Target &host_target();

/// One row of a kernel's schedule, compiled, linked and loaded.
class CompiledKernel {
public:
  CompiledKernel(mlir::func::FuncOp kernel, int row, const Target &target, bool with_asserts,
                 std::string_view without_rewrite = {});
  ~CompiledKernel();
  CompiledKernel(CompiledKernel &&other) noexcept;
  CompiledKernel(const CompiledKernel &) = delete;

  /// Runs it; checks that nothing outside of the results was written, that the status is 0, that it needs no more
  /// scratch than it says, and that it fails where one of its allocations does.
  std::vector<Values> run(const std::vector<int64_t> &sizes, const std::vector<Values> &inputs) const;

  /// The function itself: (user_context, sizes…, halide_buffer_t *inputs…, *results…), through an array of pointers to
  /// the arguments, as Halide's `_argv` form has it. For benches.
  using Function = int (*)(void **arguments);
  Function function() const { return function_; }
  const KernelObject &object() const { return object_; }

  /// What it says that a thread needs.
  int64_t scratch_lines(const std::vector<int32_t> &sizes) const;

private:
  mutable mlir::func::FuncOp kernel_; // its accessors are not const
  KernelObject object_;
  void *library_ = nullptr;
  Function function_ = nullptr;
};

/// A text with every occurrence of a part replaced.
std::string with(std::string text, std::string_view what, std::string_view by);

/// The text of tests/lit/kernels/<name>.mlir, with each first string of a pair replaced by its second.
std::string lit_kernel(std::string_view name, const std::vector<std::pair<std::string, std::string>> &replaced = {});

/// The text with every W (which no keyword holds) replaced.
std::string with_width(std::string text, const std::string &width);

/// Every variant of a kind with every combination of its parameters' values.
std::vector<ScheduleRow> all_rows(const KernelKind &kind);
/// One row: these parameters, the first value that is tried of the others, and the micro-kernel `fma` where one is
/// needed.
ScheduleRow row_of(std::string_view kind, std::string_view variant, Parameters parameters);

/// Equal within `relative` of the largest expected magnitude; NaN and infinities must agree exactly.
testing::AssertionResult close(const std::vector<Values> &actual, const std::vector<Values> &expected, double relative);

/// For every row of the kernel's kind and all given sizes: compile with and without Halide's asserts, run, compare.
/// `expected_kind` guards against a test that silently takes another road.
void check_all_rows(std::string_view text, std::string_view expected_kind,
                    const std::vector<std::vector<int64_t>> &sizes, double relative = 1e-5);
/// The same for these rows, where what is tested is not the schedule but what it is applied to.
void check_rows(std::string_view text, std::string_view expected_kind, const std::vector<ScheduleRow> &rows,
                const std::vector<std::vector<int64_t>> &sizes, double relative = 1e-5);

/// How many scratch allocations (halide_malloc) are live: 0 after every run.
int live_allocations();

} // namespace heddle::test
