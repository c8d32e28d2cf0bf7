// The sum takes the place of the product's element, from which everything else is computed where it is read.
#include "compiler/kernels/product/returned.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle::contraction {

using namespace mlir;

LogicalResult store_returned(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest, ValueRange loops,
                             Value sum) {
  linalg::LinalgOp op = nest.product.op;
  gpu::Elements &elements = thread.elements;
  elements.give(op->getResult(0), sum);
  for (unsigned result : nest.returned) {
    Value value = program.kernel().front().getTerminator()->getOperand(result);
    Value zero = arith::ConstantIndexOp::create(thread.b, thread.loc, 0);
    SmallVector<Value> at(cast<RankedTensorType>(value.getType()).getRank(), zero);
    for (auto [loop, axis] : llvm::enumerate(nest.axis_of_loop))
      if (axis >= 0)
        at[axis] = loops[loop];
    Value found = elements.element(value, at);
    if (!found)
      return failure();
    elements.store(value, at, found);
  }
  elements.take_back(op->getResult(0));
  return success();
}

} // namespace heddle::contraction
