// Weights whose elements packing takes from other places of a tensor (heddle.gathered).
#pragma once

#include "compiler/ir/dialect.h"

#include <functional>
#include <vector>

namespace heddle {

class Gather {
public:
  explicit Gather(ir::GatheredAttr gathered);

  /// Calls `take(i, from)` for the elements `begin` + i, i < count: the row-major number of the element of the tensor,
  /// or -1 for a place outside of it.
  void for_each(int64_t begin, int64_t count, const std::function<void(size_t i, int64_t from)> &take) const;

private:
  std::vector<int64_t> shape_, from_;
  mlir::AffineMap places_;
};

} // namespace heddle
