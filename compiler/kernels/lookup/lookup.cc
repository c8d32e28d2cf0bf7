// Embeddings: x[m, c] = word[ids[m], c] + position[m, c] + …, with the norm that follows where the cluster has it. The
// number of the row to fetch is read once per row; its elements are contiguous, so lanes run along them.
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/whole_rows.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {

namespace {

const Variant rows_variant = rows::variant("one row after the other, tasks of about `grain` elements");
const Variant *const variants[] = {&rows_variant, &whole_rows, &each_element};

/// Whether a tensor is read where numbers of another one say.
bool looks_up(mlir::linalg::LinalgOp op) {
  return op.getBlock()
      ->walk([&](mlir::tensor::ExtractOp read) {
        bool by_data = llvm::any_of(read.getIndices(), [&](mlir::Value i) { return contraction::is_data(op, i); });
        return by_data ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

bool matches(mlir::func::FuncOp kernel) {
  bool any = false, contracts = false;
  kernel.walk([&](mlir::linalg::LinalgOp op) {
    contracts |= contraction::is_matrix_product(op);
    any |= looks_up(op);
  });
  return any && !contracts && rows::shared_axes(kernel) > 0;
}

} // namespace

extern const KernelKind lookup_kind;
const KernelKind lookup_kind = {"lookup", variants, matches};

} // namespace heddle
