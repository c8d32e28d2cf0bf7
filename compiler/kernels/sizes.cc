// Extents come from the result's type and, of run-time axes, from `heddle.extents`.
#include "compiler/kernels/sizes.h"

#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>

namespace heddle::sizes {

mlir::AffineExpr extent_of(mlir::func::FuncOp kernel, int axis) {
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  if (!type.isDynamicDim(unsigned(axis)))
    return mlir::getAffineConstantExpr(type.getDimSize(unsigned(axis)), kernel.getContext());
  auto extents = kernel.getResultAttrOfType<mlir::AffineMapAttr>(0, ir::names::extents);
  return extents ? extents.getValue().getResult(unsigned(axis)) : mlir::AffineExpr();
}

int64_t evaluate(mlir::AffineExpr formula, llvm::ArrayRef<int64_t> sizes) {
  return mlir::AffineMap::get(unsigned(sizes.size()), 0, formula).compose(sizes)[0];
}

double value_of(mlir::AffineExpr extent, llvm::ArrayRef<int64_t> sizes) {
  return extent ? std::max(1.0, double(evaluate(extent, sizes))) : double(unknown);
}

int64_t terms_of(mlir::linalg::LinalgOp sum) {
  int64_t terms = 1;
  auto kinds = sum.getIteratorTypesArray();
  for (auto [loop, extent] : llvm::enumerate(sum.getStaticLoopRanges()))
    if (kinds[loop] == mlir::utils::IteratorType::reduction)
      terms *= mlir::ShapedType::isDynamic(extent) ? unknown : extent;
  return terms;
}

mlir::AffineExpr extent_of(mlir::linalg::LinalgOp op, unsigned axis) {
  mlir::Value init = op.getDpsInitOperand(0)->get();
  auto type = llvm::cast<mlir::RankedTensorType>(init.getType());
  if (!type.isDynamicDim(axis))
    return mlir::getAffineConstantExpr(type.getDimSize(axis), op.getContext());
  if (auto fill = init.getDefiningOp<mlir::linalg::FillOp>())
    init = fill.getOutputs()[0];
  auto empty = init.getDefiningOp<mlir::tensor::EmptyOp>();
  return empty ? ir::size_formula(empty.getDynamicSizes()[type.getDynamicDimIndex(axis)]) : mlir::AffineExpr();
}

double points_of(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> sizes) {
  double points = double(terms_of(op));
  auto type = llvm::cast<mlir::RankedTensorType>(op.getDpsInitOperand(0)->get().getType());
  for (unsigned axis = 0; axis < type.getRank(); ++axis)
    points *= value_of(extent_of(op, axis), sizes);
  return points;
}

bool is_only_looked_into(mlir::Value argument) {
  return !argument.use_empty() && llvm::all_of(argument.getUsers(), llvm::IsaPred<mlir::tensor::ExtractOp>);
}

} // namespace heddle::sizes
