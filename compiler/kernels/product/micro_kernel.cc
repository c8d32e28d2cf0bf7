#include "compiler/kernels/product/micro_kernel.h"

#include "compiler/emit/halide/scalars.h"
#include "runtime/cpu_features.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {

static const MicroKernel table[] = {
#define HEDDLE_MICRO_KERNEL(name, what, row, panel, sum, group, needs) {#name, what, row, panel, sum, group, needs},
#include "compiler/kernels/product/micro_kernels.def"
#undef HEDDLE_MICRO_KERNEL
};

std::span<const MicroKernel> micro_kernels() { return table; }

const MicroKernel *find_micro_kernel(std::string_view name) {
  for (const MicroKernel &micro_kernel : table)
    if (micro_kernel.name == name)
      return &micro_kernel;
  return nullptr;
}

mlir::Value unwidened(mlir::Value factor) {
  mlir::Operation *cast = factor.getDefiningOp();
  return cast && llvm::isa<mlir::arith::ExtFOp, mlir::arith::ExtSIOp, mlir::arith::ExtUIOp>(cast) ? cast->getOperand(0)
                                                                                                  : factor;
}

/// Whether a factor has exactly that type before it is widened.
static bool comes_as(const contraction::Factor &factor, Halide::Type type) {
  mlir::Value narrow = unwidened(factor.value);
  return narrow != factor.value && halide_type(narrow.getType()) == type;
}

static bool multiplies(const MicroKernel &micro_kernel, const contraction::Product &product) {
  return micro_kernel.takes_any_type() ||
         (comes_as(product.left, micro_kernel.row) && comes_as(product.right, micro_kernel.panel)) ||
         (comes_as(product.right, micro_kernel.row) && comes_as(product.left, micro_kernel.panel));
}

const MicroKernel &micro_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  const MicroKernel *best = &table[0];
  for (const MicroKernel &micro_kernel : table) {
    bool fits = (micro_kernel.needs & ~target.cpu_features()) == 0;
    for (const contraction::Product &product : products)
      fits &= multiplies(micro_kernel, product);
    if (fits && micro_kernel.group >= best->group)
      best = &micro_kernel;
  }
  return *best;
}

} // namespace heddle
