#include "compiler/kernels/product/micro_kernel.h"

#include "compiler/halide/scalars.h"
#include "compiler/ir/precision.h"
#include "runtime/cpu_features.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {

static const MicroKernel table[] = {
#define HEDDLE_MICRO_KERNEL(name, what, row, panel, sum, group, rows, pair_sum, needs, cost)                           \
  {#name, what, row, panel, sum, group, rows, pair_sum, needs, cost},
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

namespace {

/// Adds up four products of u8 and s8 in two steps: pairs in i16, which saturates, and those in i32.
class PairsFirst : public Halide::Internal::IRMutator {
  using IRMutator::visit;

  Halide::Expr visit(const Halide::Internal::VectorReduce *op) override {
    using namespace Halide::Internal;
    const Cast *wide = op->value.as<Cast>();
    const Call *product = wide ? wide->value.as<Call>() : nullptr;
    const int sums = op->type.lanes();
    if (op->op != VectorReduce::Add || !op->type.element_of().is_int() || op->type.bits() != 32 ||
        op->value.type().lanes() != 4 * sums || !product || !product->is_intrinsic(Call::widening_mul) ||
        product->args[0].type().bits() != 8 || product->args[0].type().is_int() == product->args[1].type().is_int())
      return IRMutator::visit(op);
    Halide::Expr pairs = VectorReduce::make(VectorReduce::SaturatingAdd, mutate(wide->value), 2 * sums);
    return VectorReduce::make(VectorReduce::Add, Cast::make(op->type.with_lanes(2 * sums), pairs), sums);
  }
};

} // namespace

std::shared_ptr<Halide::Internal::IRMutator> pass_of(const MicroKernel &micro_kernel) {
  return micro_kernel.pair_sum ? std::make_shared<PairsFirst>() : nullptr;
}

/// Whether a micro-kernel's type has all values of another, whole numbers of fewer bits.
static bool holds(Halide::Type wide, std::optional<Halide::Type> type) {
  return type && (*type == wide || (wide.is_int() && type->is_int_or_uint() && type->bits() == 8 && wide.bits() > 8));
}

/// Whether pairs of terms of a factor are known to add up to no more than that.
static bool adds_up_to(const contraction::Factor &factor, int64_t pair_sum) {
  mlir::Operation *widening = factor.value.getDefiningOp();
  auto known = widening ? widening->getAttrOfType<mlir::IntegerAttr>(ir::names::pair_sum) : mlir::IntegerAttr();
  return pair_sum == 0 || (known && known.getInt() <= pair_sum);
}

static bool multiplies(const MicroKernel &micro_kernel, const contraction::Product &product) {
  if (micro_kernel.takes_any_type())
    return true;
  if (micro_kernel.splits())
    return product.left.value.getType().isF32() && product.right.value.getType().isF32();
  return holds(micro_kernel.row, type_before_widening(product.left)) &&
         holds(micro_kernel.panel, type_before_widening(product.right)) &&
         adds_up_to(product.right, micro_kernel.pair_sum);
}

static bool has(const Target &target, const MicroKernel &micro_kernel) {
  return (micro_kernel.needs & ~target.cpu_features()) == 0;
}

static bool fits(const MicroKernel &micro_kernel, std::span<const contraction::Product> products,
                 const Target &target) {
  bool fits = has(target, micro_kernel);
  for (const contraction::Product &product : products)
    fits &= multiplies(micro_kernel, product);
  return fits;
}

/// The last of those with the largest groups that a predicate takes and that multiply row by row.
template <class Takes> static const MicroKernel &best_of(Takes &&takes) {
  const MicroKernel *best = &table[0];
  for (const MicroKernel &micro_kernel : table)
    if (!micro_kernel.takes_tiles() && micro_kernel.group >= best->group && takes(micro_kernel))
      best = &micro_kernel;
  return *best;
}

const MicroKernel &micro_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  return best_of([&](const MicroKernel &micro_kernel) { return fits(micro_kernel, products, target); });
}

const MicroKernel *grouping_kernel_of(Halide::Type terms, const Target &target) {
  for (const MicroKernel &micro_kernel : table)
    if (!micro_kernel.takes_tiles() && micro_kernel.group > 1 && micro_kernel.row == terms &&
        micro_kernel.panel == terms && has(target, micro_kernel))
      return &micro_kernel;
  return nullptr;
}

double instruction_cost(const MicroKernel &micro_kernel, const Target &target) {
  return micro_kernel.cost ? target.*micro_kernel.cost : 1;
}

const MicroKernel &fastest_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  const MicroKernel &most = micro_kernel_for(products, target);
  return most.group < instruction_cost(most, target) ? table[0] : most;
}

int64_t pair_sum_of_bytes(const Target &target) {
  return best_of([&](const MicroKernel &micro_kernel) {
           return micro_kernel.row == Halide::UInt(8) && !target.gpu && has(target, micro_kernel);
         })
      .pair_sum;
}

static const MicroKernel *tiles_for(std::span<const contraction::Product> products, const Target &target, bool split) {
  for (const MicroKernel &micro_kernel : table)
    if (micro_kernel.takes_tiles() && micro_kernel.splits() == split && fits(micro_kernel, products, target))
      return &micro_kernel;
  return nullptr;
}

const MicroKernel *tile_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  return tiles_for(products, target, false);
}

const MicroKernel *splitting_kernel_for(std::span<const contraction::Product> products, const Target &target) {
  return tiles_for(products, target, true);
}

} // namespace heddle
