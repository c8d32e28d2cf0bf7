// The kinds of kernels. Each kind says which kernels it takes, how it likes its weights laid out, which schedule
// rows a kernel gets, and how a row is applied. Passes, emission, tests, benches and the tuner all read the table
// `kinds()`, whose rows are in kinds.def: what isn't in there doesn't exist.
#pragma once

#include "compiler/emit/halide/lower.h"
#include "compiler/targets/target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IntegerSet.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

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

struct Variant {
  std::string_view name;
  std::string_view what; // one line for the reader of a report
  std::vector<Parameter> parameters;
  bool multiplies = false; // in register tiles: its rows name a micro-kernel
};

struct KernelKind {
  std::string_view name;
  std::span<const Variant> variants;
  bool (*matches)(mlir::func::FuncOp kernel);
  /// The layout that argument number `argument` of the kernel should have, or null: row-major. No function: always.
  mlir::AffineMap (*layout)(mlir::func::FuncOp kernel, unsigned argument, const Target &target);
  /// The rows for this kernel, in order of preference. The last one has no `when`.
  std::vector<ScheduleRow> (*choose)(mlir::func::FuncOp kernel, const Target &target);
  /// What the lowering must do differently for a row; null: nothing.
  LowerOptions (*lowering)(mlir::func::FuncOp kernel, const ScheduleRow &row, const Target &target);
  /// Applies the row. Whatever it leaves alone is inlined.
  Status (*schedule)(LoweredKernel &kernel, const ScheduleRow &row, const Target &target);
};

/// All kinds, the most particular first. The last one, `general`, takes every kernel.
std::span<const KernelKind *const> kinds();
/// The first kind that matches.
const KernelKind &kind_of(mlir::func::FuncOp kernel);
/// The kind of that name, or null.
const KernelKind *find_kind(std::string_view name);

/// Whether a row names a variant of the kind, all of its parameters and no others, each within its bounds, and a
/// micro-kernel exactly where the variant multiplies.
Status check_row(const KernelKind &kind, const ScheduleRow &row);

/// The CPU features that a row's code is compiled with: what the target always has and what the micro-kernel uses.
/// Where the target has not all of that, Halide writes the micro-kernel out in plain arithmetic.
uint32_t cpu_features(const ScheduleRow &row, const Target &target);

/// Sets `heddle.kernel` and `heddle.schedule` of a kernel from the kind that takes it.
void assign_schedule(mlir::func::FuncOp kernel, const Target &target);
/// The rows as the attribute, and back. Reading fails, with the reason, on what no kind could have written.
mlir::ArrayAttr schedule_attribute(mlir::MLIRContext *context, std::span<const ScheduleRow> rows);
Result<std::vector<ScheduleRow>> schedule_rows(mlir::func::FuncOp kernel);

} // namespace heddle
