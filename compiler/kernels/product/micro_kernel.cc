#include "compiler/kernels/product/micro_kernel.h"

#include "compiler/halide/scalars.h"
#include "runtime/cpu_features.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {

static const MicroKernel table[] = {
#define HEDDLE_MICRO_KERNEL(name, what, row, panel, sum, group, rows, needs)                                           \
  {#name, what, row, panel, sum, group, rows, needs},
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

/// The type of a factor before it is widened. What is widened with zeros is unsigned.
static std::optional<Halide::Type> type_before_widening(const contraction::Factor &factor) {
  mlir::Value narrow = unwidened(factor.value);
  std::optional<Halide::Type> type = halide_type(narrow.getType());
  if (narrow == factor.value || !type)
    return std::nullopt;
  return factor.value.getDefiningOp<mlir::arith::ExtUIOp>() ? type->with_code(Halide::Type::UInt) : *type;
}

/// Whether a micro-kernel's type has all values of another, whole numbers of fewer bits.
static bool holds(Halide::Type wide, std::optional<Halide::Type> type) {
  return type && (*type == wide || (wide.is_int() && type->is_int_or_uint() && type->bits() == 8 && wide.bits() > 8));
}

static bool multiplies(const MicroKernel &micro_kernel, const contraction::Product &product) {
  if (micro_kernel.takes_any_type())
    return true;
  return holds(micro_kernel.row, type_before_widening(product.left)) &&
         holds(micro_kernel.panel, type_before_widening(product.right));
}

static bool fits(const MicroKernel &micro_kernel, std::span<const contraction::Product> products,
                 const Target &target) {
  bool fits = (micro_kernel.needs & ~target.cpu_features()) == 0;
  for (const contraction::Product &product : products)
    fits &= multiplies(micro_kernel, product);
  return fits;
}

const MicroKernel &micro_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  const MicroKernel *best = &table[0];
  for (const MicroKernel &micro_kernel : table)
    if (!micro_kernel.takes_tiles() && micro_kernel.group >= best->group && fits(micro_kernel, products, target))
      best = &micro_kernel;
  return *best;
}

const MicroKernel *tile_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  for (const MicroKernel &micro_kernel : table)
    if (micro_kernel.takes_tiles() && fits(micro_kernel, products, target))
      return &micro_kernel;
  return nullptr;
}

} // namespace heddle
