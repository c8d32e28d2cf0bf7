// Weights that packing derives from floats: whole numbers of 8 bits with a scale per channel (heddle.derived).
#pragma once

#include "compiler/ir/dialect.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace heddle {

/// Reads `out.size()` floats of a tensor from the row-major element `begin` on.
using ReadFloats = std::function<void(int64_t begin, std::span<float> out)>;

class Quantization {
public:
  /// Looks at all floats once.
  Quantization(ir::DerivedAttr derived, ReadFloats read);

  /// Elements from `begin` on of the derived tensor that `what` names, as its type has them.
  void read(ir::Derivation what, int64_t begin, std::span<std::byte> out) const;

private:
  /// Makes the scale of each channel hold the sums of pairs, too.
  void hold_pairs(ir::DerivedAttr derived, int64_t elements);

  /// Calls `row(first, floats, channel, step)` for each run that has one of the floats numbered `begin` .. `end` - 1:
  /// it begins with number `first`, and its float i belongs to channel `channel + i * step`.
  template <class Row> void for_each_run(int64_t begin, int64_t end, Row &&row) const;

  ReadFloats read_;
  std::vector<int64_t> shape_, step_; // step_: of the channel's number, per axis
  int64_t last_ = 1;                  // extent of the last axis
  std::vector<float> scales_;
  std::vector<int32_t> sums_;
};

} // namespace heddle
