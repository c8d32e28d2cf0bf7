// `--precision int8`: products of an activation and a weight multiply 8-bit numbers and add up in i32. A weight has a
// scale per output channel, found when it is packed; an activation one per row, found when it is computed:
//
//   amax[m] = max[k](abs(x[m, k]))     q[m, k] = u8(round(x[m, k] * 127 / amax[m]) + 128)
//   y[m, n] = (sum[k](q[m, k] * w8[n, k]) - 128 * sums[n]) * (amax[m] / 127) * scales[n]
//
// Where the module has a scale for the activation (heddle.scales), that takes the place of amax / 127 for all rows, and
// what exceeds it is clamped.
//
// Above, w8, scales and sums are derived weights (heddle.derived). u8 times s8 is what the CPUs' dot products take; the
// offset's share is the column sum. What remains in floats is narrow_products' matter.
#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/unread_weights.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <set>

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
  explicit Quantizing(ModuleOp module)
      : module_(module), symbols_(module), precisions_(module), builder_(module.getContext()) {}

  void run() {
    std::vector<Candidate> candidates;
    for (func::FuncOp entry : entries(module_))
      entry.walk([&](GenericOp op) {
        if (auto candidate = candidate_of(op))
          candidates.push_back(*candidate);
      });
    for (Candidate &candidate : candidates)
      quantize(candidate);
    SmallVector<StringRef> names(quantized_.begin(), quantized_.end());
    if (!names.empty())
      module_->setAttr(ir::names::quantized, builder_.getStrArrayAttr(names));
  }

private:
  struct Rows {
    Value numbers;
    Value largest;              // null where the scale is known
    std::optional<float> known; // the magnitude that 127 stands for
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
    if (!product || precisions_.of(op) != "int8")
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

  /// A constant of one layer, as its bits: what is the same in all layers shares kernels.
  Value given(OpBuilder &builder, Location loc, float value) {
    auto out = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(llvm::bit_cast<int32_t>(value)));
    out->setAttr(ir::names::given, builder.getUnitAttr());
    return out;
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

  /// The definition or input that an activation is; empty where it has no name.
  static std::string name_of(Value activation) {
    if (auto argument = dyn_cast<BlockArgument>(activation)) {
      auto entry = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      auto name = entry ? entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::names::name) : StringAttr();
      return name ? name.str() : "";
    }
    std::vector<ir::Definition> definitions = ir::definitions_in(activation.getLoc());
    return definitions.empty() ? "" : definitions.back().name;
  }

  /// A magnitude that all rows of the activation share, where one was given.
  std::optional<float> scale_of(Value activation) {
    std::string name = name_of(activation);
    if (name.empty())
      return std::nullopt;
    quantized_.insert(name);
    auto scales = module_->getAttrOfType<DictionaryAttr>(ir::names::scales);
    auto scale = scales ? scales.getAs<FloatAttr>(name) : FloatAttr();
    return scale ? std::optional<float>(scale.getValue().convertToDouble()) : std::nullopt;
  }

  /// x * scale, rounded to a whole number from 0 to 255 whose zero is 128.
  Value byte_of(OpBuilder &at, Location loc, Value x, Value scale, bool clamped) {
    Value whole = math::RoundEvenOp::create(at, loc, arith::MulFOp::create(at, loc, x, scale));
    Value number = arith::FPToSIOp::create(at, loc, at.getI32Type(), whole);
    if (clamped) {
      number = arith::MaxSIOp::create(at, loc, number, constant(at, loc, int64_t(-127)));
      number = arith::MinSIOp::create(at, loc, number, constant(at, loc, int64_t(127)));
    }
    Value shifted = arith::AddIOp::create(at, loc, number, constant(at, loc, int64_t(128)));
    return arith::TruncIOp::create(at, loc, at.getI8Type(), shifted);
  }

  /// The quantized rows of an activation, made once for all products that read it alike.
  std::optional<Rows> rows_of(const Side &side) {
    Value x = side.operand->get();
    auto [known, is_new] = rows_.try_emplace(key_of(side));
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
    Value bytes = tensor::EmptyOp::create(builder, loc, sizes, builder.getI8Type());
    Rows out;
    out.known = scale_of(x);
    if (out.known) {
      Value scale = given(builder, loc, 127 / *out.known);
      out.numbers =
          generic(builder, loc, x, bytes, {all, all}, parallel, [&](OpBuilder &at, Location loc, ValueRange e) {
            return byte_of(at, loc, e[0], real(at, loc, scale), true);
          });
      return remember(side, out);
    }
    Value empty = tensor::EmptyOp::create(builder, loc, kept, builder.getI32Type());
    int64_t least = llvm::bit_cast<int32_t>(1e-30f); // something is divided by it
    Value none = linalg::FillOp::create(builder, loc, constant(builder, loc, least), empty).getResult(0);
    out.largest = generic(builder, loc, x, none, {all, row}, reduced, [&](OpBuilder &at, Location loc, ValueRange e) {
      Value magnitude = bits(at, loc, math::AbsFOp::create(at, loc, e[0]));
      return arith::MaxSIOp::create(at, loc, e[1], magnitude).getResult();
    });
    out.numbers = generic(builder, loc, {x, out.largest}, bytes, {all, row, all}, parallel,
                          [&](OpBuilder &at, Location loc, ValueRange e) {
                            Value scale = arith::DivFOp::create(at, loc, constant(at, loc, 127.0), real(at, loc, e[1]));
                            return byte_of(at, loc, e[0], scale, false);
                          });
    return remember(side, out);
  }

  /// Axes of an activation that have scales of their own.
  std::pair<Value, AffineMap> key_of(const Side &side) {
    return {side.operand->get(), AffineMap::get(side.map.getNumResults(), 0, axes(side.kept), module_.getContext())};
  }
  Rows remember(const Side &side, const Rows &rows) { return rows_[key_of(side)] = rows; }

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
      auto weight =
          ir::WeightOp::create(builder, of.getLoc(), builder.getStringAttr(of.getSymName() + suffix),
                               TypeAttr::get(derived), of.getNames(), of.getStoredAttr(), of.getPartAttr(),
                               of.getAtAttr(), ir::LayoutAttr(), attr, of.getGatheredAttr(), of.getComputedAttr());
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
    SmallVector<Value> read_at{product};
    SmallVector<AffineMap> maps{all};
    if (rows->largest) {
      read_at.push_back(rows->largest);
      maps.push_back(along(candidate.rows));
    }
    size_t scales = read_at.size();
    read_at.append({read(weights.scales), read(weights.sums)});
    maps.append({along(candidate.weight), along(candidate.weight), all});
    Value known = rows->known ? given(builder, loc, *rows->known / 127) : Value();
    Value scaled = generic(
        builder, loc, read_at, empty.getResult(), maps, parallel, [&](OpBuilder &at, Location loc, ValueRange e) {
          Value share = arith::MulIOp::create(at, loc, e[scales + 1], constant(at, loc, int64_t(128)));
          Value whole = arith::SIToFPOp::create(at, loc, at.getF32Type(), arith::SubIOp::create(at, loc, e[0], share));
          Value row = rows->known ? real(at, loc, known)
                                  : arith::MulFOp::create(at, loc, real(at, loc, e[1]), constant(at, loc, 1.0 / 127));
          return arith::MulFOp::create(at, loc, arith::MulFOp::create(at, loc, whole, row), e[scales]).getResult();
        });
    op.getResult(0).replaceAllUsesWith(scaled);
    op.erase();
    if (get->use_empty())
      get.erase();
  }

  ModuleOp module_;
  SymbolTable symbols_;
  ir::Precisions precisions_;
  Builder builder_;
  std::set<std::string> quantized_; // activations
  DenseMap<std::pair<Value, AffineMap>, Rows> rows_;
  DenseMap<std::pair<Operation *, Attribute>, Weights> weights_;
};

struct QuantizeProducts : PassWrapper<QuantizeProducts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(QuantizeProducts)
  StringRef getArgument() const override { return "quantize_products"; }
  StringRef getDescription() const override { return "with --precision int8, products with weights in 8 bits"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    ir::Precisions precisions(getOperation());
    if (failed(check_kept(precisions)))
      return signalPassFailure();
    if (!precisions.has("int8"))
      return;
    Quantizing(getOperation()).run();
    erase_unread_weights(getOperation()); // those that only products read are not stored as floats, too
  }

  /// A part whose precision was asked for has products.
  LogicalResult check_kept(const ir::Precisions &precisions) {
    SmallVector<Operation *> products;
    getOperation().walk([&](GenericOp op) {
      if (contraction::product_of(op))
        products.push_back(op);
    });
    std::vector<std::string> unreached = precisions.unreached(products);
    if (unreached.empty())
      return success();
    return emitError(UnknownLoc::get(&getContext()))
           << "--keep " << unreached.front() << "=…: no product is computed there, and all else is as the model has it "
           << "in any precision; leave it out, or name a part that has products";
  }
};

} // namespace

std::unique_ptr<Pass> quantize_products() { return std::make_unique<QuantizeProducts>(); }

} // namespace heddle::passes
