// Embeddings: x[m, c] = word[ids[m], c] + position[m, c] + …, with the norm that follows where the cluster has it. The
// number of the row to fetch is read once per row; its elements are contiguous, so lanes run along them.
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/whole_rows.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/SetVector.h"

namespace heddle {

namespace {

const Variant rows_variant = rows::variant("one row after the other, tasks of about `grain` elements");
const Variant *const variants[] = {&rows_variant, &whole_rows, &each_element};

/// Whether an index of the read depends on the contents of a tensor.
bool is_lookup(mlir::tensor::ExtractOp read, mlir::Block *body) {
  llvm::SetVector<mlir::Value> made(read.getIndices().begin(), read.getIndices().end()); // each once: values are shared
  for (size_t next = 0; next < made.size(); ++next) {
    mlir::Value value = made[next];
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      if (argument.getOwner() == body)
        return true;
    } else if (value.getDefiningOp<mlir::tensor::ExtractOp>()) {
      return true;
    } else {
      made.insert(value.getDefiningOp()->operand_begin(), value.getDefiningOp()->operand_end());
    }
  }
  return false;
}

bool matches(mlir::func::FuncOp kernel) {
  bool looks_up = false, contracts = false;
  kernel.walk([&](mlir::linalg::LinalgOp op) {
    contracts |= contraction::is_matrix_product(op);
    op.getBlock()->walk([&](mlir::tensor::ExtractOp read) { looks_up |= is_lookup(read, op.getBlock()); });
  });
  return looks_up && !contracts && rows::shared_axes(kernel) > 0;
}

} // namespace

extern const KernelKind lookup_kind;
const KernelKind lookup_kind = {"lookup", variants, matches};

} // namespace heddle
