// The sizes of a module: the dims of its program, and products of them, and sums of these that must fit 32 bits, which
// no call tells.
#pragma once

#include "dsl/check/program.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <deque>
#include <string>
#include <vector>

namespace heddle::ir {

class ModuleSizes {
public:
  /// `entries`: the steps of each entry; `made`: the tensors in them that the program lacks.
  ModuleSizes(const Program &program, const std::vector<std::vector<Step>> &entries, const std::deque<Tensor> &made,
              mlir::MLIRContext &context);

  /// A Size over the module's dims.
  mlir::AffineExpr to_affine(const Size &size) const;
  unsigned count() const { return unsigned(program_.dims.size() + products_.size()); }
  std::string name(unsigned number) const;
  /// `heddle.dims` of the module.
  mlir::ArrayAttr attribute() const;

private:
  void find_products(const Size &size);
  void find_products(const std::vector<Step> &steps);
  mlir::AffineExpr to_affine(const Size::Atom &atom) const;

  const Program &program_;
  mlir::MLIRContext &context_;
  std::vector<Size> products_;
};

} // namespace heddle::ir
