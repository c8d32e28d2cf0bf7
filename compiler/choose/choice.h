// Which rows a kernel's schedule gets: all variants of its kind are asked for candidates, each candidate for what it is
// expected to cost at some sizes of each order of magnitude, and a short list of rows comes close to the best
// everywhere.
#pragma once

#include "compiler/kernels/kinds.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heddle {

/// Between which numbers a run-time size of a kernel lies, both included.
struct Bounds {
  int64_t least, most;
};

/// Run-time sizes of a kernel that stand for all of about their magnitude.
using SizeClass = std::vector<int64_t>;

/// Classes of sizes within these bounds: 1, 2, 3, 4, 5, 6, 8, 12, … up to 4096 each, and what the bounds allow beside.
std::vector<SizeClass> size_classes(std::span<const Bounds> sizes);

struct Choice {
  struct Refused {
    std::string_view variant;
    std::string why;
  };
  const KernelKind *kind;
  std::vector<Candidate> candidates;
  std::vector<Refused> refused;
  std::vector<SizeClass> classes;
  std::vector<std::vector<double>> seconds; // expected or measured, by class and candidate
  std::vector<std::vector<bool>> measured;  // which of them are measured
  std::vector<size_t> chosen;               // the candidate of each row
  std::vector<ScheduleRow> rows;            // in order of preference; the last one has no `when`
  std::vector<bool> by_measurement = {};    // which candidates only measurements choose

  /// Whether a candidate may be chosen for a class: one of a variant that only measurements choose must have some.
  bool counts(size_t size_class, size_t candidate) const;

  /// The best candidate for a class, and the one that the rows select.
  size_t best(size_t size_class) const;
  size_t selected(size_t size_class) const;
};

/// Rows that cost at most a few percent more than the best candidate in each class, as far as a few rows can do that.
Choice choose(mlir::func::FuncOp kernel, const Target &target, std::vector<SizeClass> classes);

/// The least expected seconds of each class.
std::vector<double> least_seconds(mlir::func::FuncOp kernel, const Target &target, std::span<const SizeClass> classes);

/// The rows for a kernel of whose sizes nothing is known.
Choice choose(mlir::func::FuncOp kernel, const Target &target);

/// Sets `heddle.kernel` and `heddle.schedule`.
void set_schedule(mlir::func::FuncOp kernel, const Choice &choice);

/// Whether these run-time sizes satisfy all constraints.
bool holds(const mlir::IntegerSet &when, llvm::ArrayRef<int64_t> sizes);

/// The row of a schedule that serves these run-time sizes: the first whose condition holds, which is the last one where
/// no other does.
size_t row_for(std::span<const ScheduleRow> rows, llvm::ArrayRef<int64_t> sizes);

/// For people: what was considered at a few sizes, what each was expected to take, and which won.
std::string why(const Choice &choice);

} // namespace heddle
