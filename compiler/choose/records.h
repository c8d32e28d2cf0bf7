// Measurements of candidates, and how the choice counts on them. A measurement is known by what was computed (the
// kernel's structure), at which sizes, how its operands lay, and which row of which version of a variant computed it;
// where and with how many threads is the matter of whoever keeps records (compiler/tune).
#pragma once

#include "compiler/choose/choice.h"

#include <string>
#include <vector>

namespace heddle {

struct Measured {
  std::vector<int64_t> sizes; // of the kernel's `index` arguments
  std::string layouts, row;   // layouts_text, row_text
  double seconds;             // `useless` where the candidate crashed or was wrong
  static constexpr double useless = 1e6;
};

/// What is known of the machine that the target's code is chosen for.
class Records {
public:
  virtual ~Records() = default;
  /// All that was measured of kernels of that structure.
  virtual std::vector<Measured> of(const std::string &structure) const = 0;
};

/// A digest of what a kernel computes: its text without name, places, schedule and layouts.
std::string structure_of(mlir::func::FuncOp kernel);

/// How its arguments lie, "2: d0 floordiv 48, d1, d0 mod 48"; empty where all are row-major.
std::string layouts_text(mlir::func::FuncOp kernel);

/// "tiles/1 ahead=1 rows=6 width=16 fma": the variant with its version, the parameters, the micro-kernel.
std::string row_text(const ScheduleRow &row, const Variant &variant);

/// Of these the ones at the sizes nearest to a class, where these are of its class: no size a tenth larger or smaller.
std::vector<const Measured *> nearest(const std::vector<Measured> &all, const SizeClass &sizes);

/// Puts what was measured in the place of what is expected. Where some candidates of a class were measured and others
/// were not, the others count as what they are expected to take by that measure, and as no better than the best.
void use_records(Choice &choice, mlir::func::FuncOp kernel, const Records &records);

/// In how many of these classes the kernel's schedule has a row that the target's records have a measurement of.
size_t measured_classes(mlir::func::FuncOp kernel, const Target &target, std::span<const SizeClass> classes);

} // namespace heddle
