// The kinds of kernels, and the variants of each: the ways to compute it, with what each is expected to cost. A row of
// a kernel's schedule is a variant with its parameters; compiler/choose picks rows by cost. Passes, emission, tests and
// benches all read the table `kinds()`, whose rows are in kinds.def: what isn't in there doesn't exist.
#pragma once

#include "compiler/halide/lower.h"
#include "compiler/targets/target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IntegerSet.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

namespace gpu {
class Program;
} // namespace gpu

using Parameters = std::map<std::string, int64_t>;

/// One row of `heddle.schedule`.
struct ScheduleRow {
  std::string variant;
  Parameters params;
  std::optional<mlir::IntegerSet> when = {}; // over the run-time sizes of the kernel; absent: always
  std::string micro_kernel = {};             // of its products; empty where there are none
};

/// A parameter of a variant: what values make sense, and those that the tests and the tuner try.
struct Parameter {
  std::string_view name;
  std::string_view what; // with its unit, for the reader of a report
  int64_t least, most;
  std::vector<int64_t> tried;
};

/// A row that a variant offers, and what a call is expected to take.
struct Candidate {
  ScheduleRow row; // for every size
  /// On one thread, for these run-time sizes of the kernel (its `index` arguments).
  std::function<double(llvm::ArrayRef<int64_t> sizes)> seconds;
};

/// One way to compute a kind, on CPUs or on GPUs: a file of its own, and a line in its kind's list.
struct Variant {
  std::string_view name;
  std::string_view what; // one line for the reader of a report
  std::vector<Parameter> parameters = {};
  /// The rows worth considering for a kernel, or why the variant computes none of it. Where an argument has a layout,
  /// those that suit it.
  Result<std::vector<Candidate>> (*candidates)(mlir::func::FuncOp kernel, const Target &target);
  /// On CPUs: applies a row. Whatever it leaves alone is inlined.
  Status (*schedule)(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) = nullptr;
  bool multiplies = false; // in register tiles: its rows name a micro-kernel
  /// Raised by a commit after which some row is other code: measurements of the variant before that don't count.
  int version = 1;
  /// On GPUs, instead: writes the launches of a row. Failure was reported.
  mlir::LogicalResult (*write)(gpu::Program &program, const ScheduleRow &row, const Target &target) = nullptr;
  /// What it takes depends on who shares the core: expected costs don't choose it, measurements of `heddle tune` do.
  bool by_measurement = false;

  bool runs_on(const Target &target) const { return (write != nullptr) == (target.gpu != nullptr); }
};

struct KernelKind {
  std::string_view name;
  std::span<const Variant *const> variants;
  bool (*matches)(mlir::func::FuncOp kernel);
  /// The layouts that argument number `argument` may profit from; none: row-major. No function: none for any.
  std::vector<mlir::AffineMap> (*layouts)(mlir::func::FuncOp kernel, unsigned argument, const Target &target) = nullptr;
  /// Formulas over the run-time sizes that the conditions of rows are about, such as the number of rows of a product.
  /// No function: one row serves every size.
  std::vector<mlir::AffineExpr> (*ranges)(mlir::func::FuncOp kernel) = nullptr;
  /// How many rows a schedule may have, each of which is code.
  size_t most_rows = 4;
  /// On CPUs: whether schedules compute each element once, and read all that it is made of at its own place before they
  /// write any of it, so that a result may lie where an argument does.
  bool writes_over = false;

  /// The variant of that name, or null.
  const Variant *find_variant(std::string_view name) const;
};

/// All kinds, the most particular first. The last one, `general`, takes every kernel.
std::span<const KernelKind *const> kinds();
/// The first kind that matches.
const KernelKind &kind_of(mlir::func::FuncOp kernel);
/// The kind of that name, or null.
const KernelKind *find_kind(std::string_view name);
/// The kind that the kernel's attribute `heddle.kernel` names, or null.
const KernelKind *named_kind(mlir::func::FuncOp kernel);

/// For people: "tiles rows=8 width=48".
std::string to_text(const ScheduleRow &row);

/// Whether a row names a variant of the kind, all of its parameters and no others, each within its bounds, and a
/// micro-kernel exactly where the variant multiplies.
Status check_row(const KernelKind &kind, const ScheduleRow &row);

/// The CPU features that a row's code is compiled with: what the target always has and what the micro-kernel uses.
/// Where the target has not all of that, Halide writes the micro-kernel out in plain arithmetic.
uint32_t cpu_features(const ScheduleRow &row, const Target &target);

/// The rows as the attribute, and back. Reading fails, with the reason, on what no kind could have written.
mlir::ArrayAttr schedule_attribute(mlir::MLIRContext *context, std::span<const ScheduleRow> rows);
Result<std::vector<ScheduleRow>> schedule_rows(mlir::func::FuncOp kernel);

/// A row of a kernel's schedule and the variant that it names.
struct VariantRow {
  const Variant *variant;
  ScheduleRow row;
};

/// Row `row` of a kernel's schedule, as code is made from it: check_row() has nothing against it.
Result<VariantRow> checked_row(mlir::func::FuncOp kernel, int row);

/// The first row of a kernel's schedule that has the code of row `row`: rows may differ in when they are taken alone.
int row_of_code(mlir::func::FuncOp kernel, int row);

} // namespace heddle
