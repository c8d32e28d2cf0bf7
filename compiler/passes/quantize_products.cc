// `--precision int8`: products of an activation and a weight multiply 8-bit numbers and add up in i32. A weight has a
// scale per output channel, found when it is packed; an activation one per row, found when it is computed:
//
//   amax[m] = max[k](abs(x[m, k]))     q[m, k] = u8(round(x[m, k] * 127 / amax[m]) + 128)
//   y[m, n] = (sum[k](q[m, k] * w8[n, k]) - 128 * sums[n]) * (amax[m] / 127) * scales[n]
//
// where w8, scales and sums are derived weights (heddle.derived). u8 times s8 is what the CPUs' dot products take; the
// offset's share is the column sum. What remains in floats is narrow_products' matter.
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/unread_weights.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace heddle::passes {

using namespace mlir;
using contraction::Product;
using linalg::GenericOp;

namespace {

/// Terms of which an i32 holds the sum: 255 * 127 each.
constexpr int64_t most_terms = 65536;
/// Fewer terms are not worth finding a scale for.
constexpr int64_t least_terms = 16;

/// An operand of a product that is read in place.
struct Side {
  OpOperand *operand = nullptr;
  AffineMap map;                     // of loops to axes
  SmallVector<int64_t> kept, summed; // axes that parallel loops run along, and those that the sum does
};

/// A product that can be quantized.
struct Candidate {
  GenericOp op;
  Side rows, weight;
  ir::WeightOp of;
};

class Quantizing {
public:
  explicit Quantizing(ModuleOp module) : module_(module), symbols_(module), builder_(module.getContext()) {}

  void run() {
    std::vector<Candidate> candidates;
    module_.walk([&](GenericOp op) {
      if (auto candidate = candidate_of(op))
        candidates.push_back(*candidate);
    });
    for (Candidate &candidate : candidates)
      quantize(candidate);
  }

private:
  struct Rows {
    Value numbers, largest;
  };
  struct Weights {
    ir::WeightOp numbers, scales, sums;
  };

  static std::optional<Side> side_of(GenericOp op, const contraction::Factor &factor) {
    auto element = dyn_cast<BlockArgument>(factor.value);
    if (!element || element.getOwner() != op.getBlock() || !element.getType().isF32() || !element.hasOneUse())
      return std::nullopt;
    Side side;
    side.operand = &op->getOpOperand(element.getArgNumber());
    side.map = op.getMatchingIndexingMap(side.operand);
    if (!side.map.isProjectedPermutation())
      return std::nullopt;
    auto kinds = op.getIteratorTypesArray();
    for (auto [axis, expr] : llvm::enumerate(side.map.getResults()))
      (kinds[cast<AffineDimExpr>(expr).getPosition()] == utils::IteratorType::parallel ? side.kept : side.summed)
          .push_back(axis);
    return side;
  }

  std::optional<Candidate> candidate_of(GenericOp op) {
    std::optional<Product> product = contraction::product_of(op);
    if (!product)
      return std::nullopt;
    std::optional<Side> left = side_of(op, product->left), right = side_of(op, product->right);
    if (!left || !right)
      return std::nullopt;
    for (Side *weight : {&*left, &*right}) {
      Side &rows = weight == &*left ? *right : *left;
      auto get = weight->operand->get().getDefiningOp<ir::GetOp>();
      auto of = get ? symbols_.lookup<ir::WeightOp>(get.getWeight()) : ir::WeightOp();
      if (!of || rows.operand->get().getDefiningOp<ir::GetOp>() || rows.summed.size() != weight->summed.size())
        continue;
      // Every loop of the sum is one of both, every other loop of one of them, and the sum begins with 0.
      auto shape = cast<RankedTensorType>(get.getType()).getShape();
      int64_t terms = 1;
      for (int64_t axis : weight->summed)
        terms *= shape[axis];
      bool apart = rows.kept.size() + weight->kept.size() == op.getNumParallelLoops() &&
                   weight->summed.size() == op.getNumReductionLoops();
      auto zero = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
      if (apart && !rows.kept.empty() && !weight->kept.empty() && terms >= least_terms && terms <= most_terms && zero &&
          matchPattern(zero.getInputs()[0], m_AnyZeroFloat()) && zero.getInputs()[0].getType().isF32() &&
          op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isProjectedPermutation() && !of.getDerived())
        return Candidate{op, rows, *weight, of};
    }
    return std::nullopt;
  }

  Value constant(OpBuilder &builder, Location loc, double value) {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  }
  Value constant(OpBuilder &builder, Location loc, int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }

  using Body = llvm::function_ref<Value(OpBuilder &, Location, ValueRange)>;
  Value generic(OpBuilder &builder, Location loc, ValueRange inputs, Value init, ArrayRef<AffineMap> maps,
                ArrayRef<utils::IteratorType> loops, Body body) {
    return GenericOp::create(builder, loc, TypeRange(init.getType()), inputs, ValueRange(init), maps, loops,
                             [&](OpBuilder &at, Location loc, ValueRange elements) {
                               Value result = body(at, loc, elements);
                               linalg::YieldOp::create(at, loc, result);
                             })
        .getResult(0);
  }

  /// Magnitudes are ordered as the whole numbers of their bits are, where NaN is the largest: it has no number in a
  /// row, so the row's scale must be what keeps it.
  Value bits(OpBuilder &builder, Location loc, Value real) {
    return arith::BitcastOp::create(builder, loc, builder.getI32Type(), real);
  }
  Value real(OpBuilder &builder, Location loc, Value bits) {
    return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits);
  }

  /// The quantized rows of an activation, made once for all products that read it alike.
  std::optional<Rows> rows_of(const Side &side) {
    Value x = side.operand->get();
    auto [known, is_new] = rows_.try_emplace(
        std::make_pair(x, AffineMap::get(side.map.getNumResults(), 0, axes(side.kept), module_.getContext())));
    if (!is_new)
      return known->second;
    OpBuilder builder(module_.getContext());
    auto extents = ir::build_extents_behind(builder, x);
    if (failed(extents)) {
      rows_.erase(known);
      return std::nullopt;
    }
    Location loc = x.getLoc();
    SmallVector<OpFoldResult> &sizes = *extents, kept;
    for (int64_t axis : side.kept)
      kept.push_back(sizes[axis]);

    unsigned rank = sizes.size();
    AffineMap all = AffineMap::getMultiDimIdentityMap(rank, module_.getContext());
    AffineMap row = AffineMap::get(rank, 0, axes(side.kept), module_.getContext());
    SmallVector<utils::IteratorType> parallel(rank, utils::IteratorType::parallel), reduced(parallel);
    for (int64_t axis : side.summed)
      reduced[axis] = utils::IteratorType::reduction;
    Value empty = tensor::EmptyOp::create(builder, loc, kept, builder.getI32Type());
    int64_t least = llvm::bit_cast<int32_t>(1e-30f); // something is divided by it
    Value none = linalg::FillOp::create(builder, loc, constant(builder, loc, least), empty).getResult(0);
    Rows out;
    out.largest = generic(builder, loc, x, none, {all, row}, reduced, [&](OpBuilder &at, Location loc, ValueRange e) {
      Value magnitude = bits(at, loc, math::AbsFOp::create(at, loc, e[0]));
      return arith::MaxSIOp::create(at, loc, e[1], magnitude).getResult();
    });
    Value bytes = tensor::EmptyOp::create(builder, loc, sizes, builder.getI8Type());
    out.numbers = generic(builder, loc, {x, out.largest}, bytes, {all, row, all}, parallel,
                          [&](OpBuilder &at, Location loc, ValueRange e) {
                            Value scale = arith::DivFOp::create(at, loc, constant(at, loc, 127.0), real(at, loc, e[1]));
                            Value whole =
                                math::RoundEvenOp::create(at, loc, arith::MulFOp::create(at, loc, e[0], scale));
                            Value number = arith::FPToSIOp::create(at, loc, at.getI32Type(), whole);
                            Value shifted = arith::AddIOp::create(at, loc, number, constant(at, loc, int64_t(128)));
                            return arith::TruncIOp::create(at, loc, at.getI8Type(), shifted).getResult();
                          });
    return rows_[{x, AffineMap::get(side.map.getNumResults(), 0, axes(side.kept), module_.getContext())}] = out;
  }

  SmallVector<AffineExpr> axes(ArrayRef<int64_t> which) {
    return llvm::map_to_vector(which, [&](int64_t axis) { return builder_.getAffineDimExpr(axis); });
  }

  /// The derived weights of a weight, for these axes of channels.
  Weights weights_of(ir::WeightOp of, RankedTensorType type, ArrayRef<int64_t> channels) {
    Weights &out = weights_[{of, builder_.getDenseI64ArrayAttr(channels)}];
    if (out.numbers)
      return out;
    SmallVector<int64_t> extents = llvm::map_to_vector(channels, [&](int64_t axis) { return type.getDimSize(axis); });
    auto derive = [&](const char *suffix, ir::Derivation what, RankedTensorType derived) {
      OpBuilder builder(of);
      auto attr = ir::DerivedAttr::get(module_.getContext(), what, type.getShape(), channels);
      auto weight = ir::WeightOp::create(builder, of.getLoc(), builder.getStringAttr(of.getSymName() + suffix),
                                         TypeAttr::get(derived), of.getNames(), of.getStoredAttr(), of.getPartAttr(),
                                         of.getAtAttr(), ir::LayoutAttr(), attr);
      symbols_.insert(weight, Block::iterator(of));
      return weight;
    };
    out.numbers = derive(".s8", ir::Derivation::quantized, type.clone(builder_.getI8Type()));
    out.scales = derive(".scales", ir::Derivation::scales, RankedTensorType::get(extents, builder_.getF32Type()));
    out.sums = derive(".sums", ir::Derivation::sums, RankedTensorType::get(extents, builder_.getI32Type()));
    return out;
  }

  void quantize(Candidate &candidate) {
    GenericOp op = candidate.op;
    std::optional<Rows> rows = rows_of(candidate.rows);
    if (!rows)
      return;
    auto get = candidate.weight.operand->get().getDefiningOp<ir::GetOp>();
    Weights weights = weights_of(candidate.of, cast<RankedTensorType>(get.getType()), candidate.weight.kept);
    OpBuilder builder(op);
    Location loc = op.getLoc();
    auto read = [&](ir::WeightOp weight) {
      return ir::GetOp::create(builder, loc, weight.getType(), weight.getSymName()).getResult();
    };
    auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
    auto empty = fill.getOutputs()[0].getDefiningOp<tensor::EmptyOp>();
    Value sums = tensor::EmptyOp::create(builder, loc, empty.getMixedSizes(), builder.getI32Type());
    Value zero = linalg::FillOp::create(builder, loc, constant(builder, loc, int64_t(0)), sums).getResult(0);
    AffineMap result = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    Value product = generic(
        builder, loc, {rows->numbers, read(weights.numbers)}, zero, {candidate.rows.map, candidate.weight.map, result},
        op.getIteratorTypesArray(), [](OpBuilder &at, Location loc, ValueRange e) {
          Value a = arith::ExtUIOp::create(at, loc, at.getI32Type(), e[0]);
          Value b = arith::ExtSIOp::create(at, loc, at.getI32Type(), e[1]);
          return arith::AddIOp::create(at, loc, e[2], arith::MulIOp::create(at, loc, a, b)).getResult();
        });
    // Over the axes of the result: which of them a row's and a channel's are.
    SmallVector<AffineExpr> axis_of_loop(op.getNumLoops());
    for (auto [axis, expr] : llvm::enumerate(result.getResults()))
      axis_of_loop[cast<AffineDimExpr>(expr).getPosition()] = builder.getAffineDimExpr(axis);
    auto along = [&](const Side &side) {
      SmallVector<AffineExpr> out = llvm::map_to_vector(side.kept, [&](int64_t axis) {
        return axis_of_loop[cast<AffineDimExpr>(side.map.getResult(axis)).getPosition()];
      });
      return AffineMap::get(result.getNumResults(), 0, out, module_.getContext());
    };
    AffineMap all = AffineMap::getMultiDimIdentityMap(result.getNumResults(), module_.getContext());
    SmallVector<utils::IteratorType> parallel(result.getNumResults(), utils::IteratorType::parallel);
    Value scaled =
        generic(builder, loc, {product, rows->largest, read(weights.scales), read(weights.sums)}, empty.getResult(),
                {all, along(candidate.rows), along(candidate.weight), along(candidate.weight), all}, parallel,
                [&](OpBuilder &at, Location loc, ValueRange e) {
                  Value share = arith::MulIOp::create(at, loc, e[3], constant(at, loc, int64_t(128)));
                  Value whole =
                      arith::SIToFPOp::create(at, loc, at.getF32Type(), arith::SubIOp::create(at, loc, e[0], share));
                  Value row = arith::MulFOp::create(at, loc, real(at, loc, e[1]), constant(at, loc, 1.0 / 127));
                  return arith::MulFOp::create(at, loc, arith::MulFOp::create(at, loc, whole, row), e[2]).getResult();
                });
    op.getResult(0).replaceAllUsesWith(scaled);
    op.erase();
    if (get->use_empty())
      get.erase();
  }

  ModuleOp module_;
  SymbolTable symbols_;
  Builder builder_;
  DenseMap<std::pair<Value, AffineMap>, Rows> rows_;
  DenseMap<std::pair<Operation *, Attribute>, Weights> weights_;
};

struct QuantizeProducts : PassWrapper<QuantizeProducts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(QuantizeProducts)
  StringRef getArgument() const override { return "quantize_products"; }
  StringRef getDescription() const override { return "with --precision int8, products with weights in 8 bits"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    if (ir::precision_of(getOperation()) != "int8")
      return;
    Quantizing(getOperation()).run();
    erase_unread_weights(getOperation()); // those that only products read are not stored as floats, too
  }
};

} // namespace

std::unique_ptr<Pass> quantize_products() { return std::make_unique<QuantizeProducts>(); }

} // namespace heddle::passes
