// `--precision int8`: products of an activation and a weight multiply 8-bit numbers and add up in i32. A weight has a
// scale per output channel, found when it is packed; an activation one per row, found when it is computed:
//
//   amax[m] = max[k](abs(x[m, k]))     q[m, k] = u8(round(x[m, k] * 127 / amax[m]) + 128)
//   y[m, n] = (sum[k](q[m, k] * w8[n, k]) - 128 * sums[n]) * (amax[m] / 127) * scales[n]
//
// What a ReLU or another op made that has no negative results takes all of 0 .. 255 instead: the offset is 0.
//
// A convolution reads its rows at computed places. The scale must be the same for all terms of a sum, so it is one for
// all places that the sum's loops move over: one per picture under a window that slides, one per row under a filter of
// 1 x 1. Padding is the offset.
//
// Where the module has a scale for the activation (heddle.scales), that takes the place of amax for all rows, and
// what exceeds it is clamped.
//
// For GPUs numbers have a sign, -127 .. 127, and the offset is 0: tensor cores multiply either, and padding is then
// what copies fill with, 0.
//
// Above, w8, scales and sums are derived weights (heddle.derived). u8 times s8 is what the CPUs' dot products take; the
// offset's share is the column sum. A CPU without them adds up two products in 16 bits, which hold them if the two
// weights add up to no more than 128 in magnitude: there the scales are as large as that takes (pair_sum). What remains
// in floats is narrow_products' matter.
//
// An erf, tanh or exp that makes what is only read as such numbers needn't have all digits right (roundings.h).
#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/nonnegative.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/roundings.h"
#include "compiler/passes/unread_weights.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

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

/// A factor of a product: an operand that is read in place, or a tensor that is read at computed places.
struct Side {
  OpOperand *operand = nullptr;
  AffineMap map;                     // of loops to axes, of an operand
  tensor::ExtractOp read;            // at computed places
  SmallVector<int64_t> kept, summed; // axes whose places only parallel loops say, and those that the sum moves over

  /// As it is now: what made it may have been quantized, too.
  Value tensor() const { return operand ? operand->get() : tensor::ExtractOp(read).getTensor(); }
};

/// The loop that an index of a body is, without anything added to it; -1: it isn't.
int64_t plain_loop(Value index) {
  auto loop = index.getDefiningOp<linalg::IndexOp>();
  return loop ? int64_t(loop.getDim()) : -1;
}

/// Whether a value of a body is made of the loops' indices and of what doesn't vary, not of elements. `loops`: those.
bool is_of_places(GenericOp op, Value value, llvm::SmallBitVector &loops) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getOwner() != op.getBlock();
  Operation *made = value.getDefiningOp();
  if (made->getBlock() != op.getBlock())
    return true;
  if (auto index = dyn_cast<linalg::IndexOp>(made))
    loops.set(index.getDim());
  return !isa<tensor::ExtractOp>(made) && made->getNumRegions() == 0 &&
         llvm::all_of(made->getOperands(), [&](Value operand) { return is_of_places(op, operand, loops); });
}

/// A product that can be quantized.
struct Candidate {
  GenericOp op;
  Side rows, weight;
  ir::WeightOp of;
};

class Quantizing {
public:
  /// `signs`: the target multiplies numbers of either sign with others. `pair_sum`: what pairs of weights may add
  /// up to, in magnitude; 0: anything.
  Quantizing(ModuleOp module, bool signs, int64_t pair_sum)
      : module_(module), symbols_(module), precisions_(module), builder_(module.getContext()), signs_(signs),
        pair_sum_(pair_sum) {}

  void run() {
    std::vector<Candidate> candidates;
    for (func::FuncOp entry : entries(module_))
      entry.walk([&](GenericOp op) {
        if (auto candidate = candidate_of(op))
          candidates.push_back(*candidate);
      });
    for (Candidate &candidate : candidates)
      quantize(candidate);
    for (Operation *rounding : roundings_) {
      Value activation = rounding->getOperand(0);
      if (llvm::all_of(activation.getUsers(), [&](Operation *reader) { return roundings_.contains(reader); }))
        approximate_functions(activation);
    }
    SmallVector<StringRef> names(quantized_.begin(), quantized_.end());
    if (!names.empty())
      module_->setAttr(ir::names::quantized, builder_.getStrArrayAttr(names));
  }

private:
  struct Rows {
    Value numbers;
    Value largest;              // null where the scale is known
    std::optional<float> known; // the magnitude that `top` stands for
    int64_t zero, top;          // the number of 0, and how much more the largest is
    bool has_sign;              // numbers are from -top on
  };
  struct Weights {
    ir::WeightOp numbers, scales, sums;
  };

  static std::optional<Side> side_of(GenericOp op, const contraction::Factor &factor) {
    auto element = dyn_cast<BlockArgument>(unwidened(factor.value));
    if (!element || element.getOwner() != op.getBlock() || !isa<FloatType>(element.getType()) || !element.hasOneUse() ||
        !factor.value.hasOneUse())
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

  /// A factor that is read at computed places, with zeros where a condition on these doesn't hold. Its terms must lie
  /// side by side in groups, enough of them for the loop over these (convolution/problem.cc).
  std::optional<Side> picture_of(GenericOp op, const contraction::Factor &factor) {
    auto guard = unwidened(factor.value).getDefiningOp<arith::SelectOp>();
    auto read = contraction::element_read(factor.value).getDefiningOp<tensor::ExtractOp>();
    llvm::SmallBitVector ignored(op.getNumLoops());
    bool reads = read && read->getBlock() == op.getBlock() && isa<FloatType>(read.getType()) && read->hasOneUse() &&
                 (guard ? unwidened(guard.getTrueValue()) == read.getResult() && guard->hasOneUse() &&
                              is_of_places(op, guard.getCondition(), ignored)
                        : unwidened(factor.value) == read.getResult());
    if (!reads)
      return std::nullopt;
    Side side;
    side.read = read;
    auto kinds = op.getIteratorTypesArray();
    int64_t grouped = 0;
    for (auto [axis, index] : llvm::enumerate(read.getIndices())) {
      llvm::SmallBitVector loops(op.getNumLoops());
      if (!is_of_places(op, index, loops))
        return std::nullopt;
      bool summed =
          llvm::any_of(loops.set_bits(), [&](unsigned l) { return kinds[l] == utils::IteratorType::reduction; });
      int64_t loop = plain_loop(index);
      if (summed && loop >= 0)
        grouped = op.getStaticLoopRanges()[loop];
      // Behind a guard there may be no such place.
      (summed || (guard && loop < 0) ? side.summed : side.kept).push_back(axis);
    }
    return grouped >= least_terms ? std::optional(side) : std::nullopt;
  }

  std::optional<Candidate> candidate_of(GenericOp op) {
    std::optional<Product> product = contraction::product_of(op);
    if (!product || precisions_.of(op) != "int8")
      return std::nullopt;
    std::optional<Side> left = side_of(op, product->left), right = side_of(op, product->right);
    if (!left && right)
      left = picture_of(op, product->left);
    else if (left && !right)
      right = picture_of(op, product->right);
    if (!left || !right)
      return std::nullopt;
    // Every loop of the sum is one of both, every other loop of one of them.
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      bool of_left = product->left.loops.test(loop), of_right = product->right.loops.test(loop);
      if (kind == utils::IteratorType::reduction ? !of_left || !of_right : of_left == of_right)
        return std::nullopt;
    }
    for (Side *weight : {&*left, &*right}) {
      Side &rows = weight == &*left ? *right : *left;
      auto get = weight->operand ? weight->tensor().getDefiningOp<ir::GetOp>() : ir::GetOp();
      auto of = get ? symbols_.lookup<ir::WeightOp>(get.getWeight()) : ir::WeightOp();
      if (!of || rows.tensor().getDefiningOp<ir::GetOp>())
        continue;
      auto shape = cast<RankedTensorType>(get.getType()).getShape();
      int64_t terms = 1;
      for (int64_t axis : weight->summed)
        terms *= shape[axis];
      auto zero = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
      if (!rows.kept.empty() && !weight->kept.empty() && terms >= least_terms && terms <= most_terms && zero &&
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

  /// x * scale, rounded to a whole number from 0 to 255, or from -127 to 127.
  Value byte_of(OpBuilder &at, Location loc, const Rows &rows, Value x, Value scale) {
    Value whole = math::RoundEvenOp::create(at, loc, arith::MulFOp::create(at, loc, widened(at, loc, x), scale));
    Value number = arith::FPToSIOp::create(at, loc, at.getI32Type(), whole);
    if (rows.known) {
      number = arith::MaxSIOp::create(at, loc, number, constant(at, loc, rows.zero || rows.has_sign ? -rows.top : 0));
      number = arith::MinSIOp::create(at, loc, number, constant(at, loc, rows.top));
    }
    if (rows.zero)
      number = arith::AddIOp::create(at, loc, number, constant(at, loc, rows.zero));
    return arith::TruncIOp::create(at, loc, at.getI8Type(), number);
  }

  /// The quantized rows of an activation, made once for all products that read it alike.
  std::optional<Rows> rows_of(const Side &side) {
    Value x = side.tensor();
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
    SmallVector<OpFoldResult> &sizes = *extents;
    unsigned rank = sizes.size();
    AffineMap all = AffineMap::getMultiDimIdentityMap(rank, module_.getContext());
    AffineMap row = AffineMap::get(rank, 0, axes(side.kept), module_.getContext());
    SmallVector<utils::IteratorType> parallel(rank, utils::IteratorType::parallel);
    Value bytes = tensor::EmptyOp::create(builder, loc, sizes, builder.getI8Type());
    Rows out{};
    out.known = scale_of(x);
    bool whole = is_nonnegative(x);
    out.has_sign = !whole && signs_;
    out.zero = whole || signs_ ? 0 : 128;
    out.top = whole ? 255 : 127;
    if (out.known) {
      Value scale = given(builder, loc, float(out.top) / *out.known);
      out.numbers =
          generic(builder, loc, x, bytes, {all, all}, parallel, [&](OpBuilder &at, Location loc, ValueRange e) {
            return byte_of(at, loc, out, e[0], real(at, loc, scale));
          });
      return remember(side, out);
    }
    out.largest = largest_of(builder, side, x, sizes);
    out.numbers = generic(builder, loc, {x, out.largest}, bytes, {all, row, all}, parallel,
                          [&](OpBuilder &at, Location loc, ValueRange e) {
                            Value scale =
                                arith::DivFOp::create(at, loc, constant(at, loc, double(out.top)), real(at, loc, e[1]));
                            return byte_of(at, loc, out, e[0], scale);
                          });
    return remember(side, out);
  }

  /// The largest magnitudes of an activation along the axes that the sum moves over. Where these are several and end
  /// with the innermost one, which is contiguous, first along all but the outermost of them, which has enough places
  /// for all threads (rows of a picture), and then along that.
  Value largest_of(OpBuilder &builder, const Side &side, Value x, ArrayRef<OpFoldResult> sizes) {
    Location loc = x.getLoc();
    int64_t least = llvm::bit_cast<int32_t>(1e-30f); // something is divided by it
    auto reduce = [&](Value from, ArrayRef<OpFoldResult> sizes, ArrayRef<int64_t> kept, bool of_floats) {
      SmallVector<OpFoldResult> extents = llvm::map_to_vector(kept, [&](int64_t axis) { return sizes[axis]; });
      SmallVector<utils::IteratorType> loops(sizes.size(), utils::IteratorType::reduction);
      for (int64_t axis : kept)
        loops[axis] = utils::IteratorType::parallel;
      Value empty = tensor::EmptyOp::create(builder, loc, extents, builder.getI32Type());
      Value none = linalg::FillOp::create(builder, loc, constant(builder, loc, least), empty).getResult(0);
      AffineMap all = AffineMap::getMultiDimIdentityMap(sizes.size(), module_.getContext());
      AffineMap row = AffineMap::get(sizes.size(), 0, axes(kept), module_.getContext());
      return generic(builder, loc, from, none, {all, row}, loops, [&](OpBuilder &at, Location loc, ValueRange e) {
        Value magnitude = of_floats ? bits(at, loc, math::AbsFOp::create(at, loc, widened(at, loc, e[0]))) : e[0];
        return arith::MaxSIOp::create(at, loc, e[1], magnitude).getResult();
      });
    };
    int64_t rank = sizes.size();
    if (side.summed.size() == 1 || side.summed.back() != rank - 1)
      return reduce(x, sizes, side.kept, true);
    SmallVector<int64_t> rows(side.kept), among; // axes of x, and of its rows
    rows.push_back(side.summed.front());
    llvm::sort(rows);
    SmallVector<OpFoldResult> left = llvm::map_to_vector(rows, [&](int64_t axis) { return sizes[axis]; });
    for (auto [i, axis] : llvm::enumerate(rows))
      if (axis != side.summed.front())
        among.push_back(int64_t(i));
    return reduce(reduce(x, sizes, rows, true), left, among, false);
  }

  /// Axes of an activation that have scales of their own.
  std::pair<Value, AffineMap> key_of(const Side &side) {
    int64_t rank = cast<RankedTensorType>(side.tensor().getType()).getRank();
    return {side.tensor(), AffineMap::get(rank, 0, axes(side.kept), module_.getContext())};
  }
  Rows remember(const Side &side, const Rows &rows) {
    for (Value made : {rows.numbers, rows.largest})
      if (made)
        roundings_.insert(made.getDefiningOp());
    return rows_[key_of(side)] = rows;
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
      auto attr = ir::DerivedAttr::get(module_.getContext(), what, type.getShape(), channels, pair_sum_);
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

  /// A value that is made of places, made again in another body, where the loops are those that `axis_of_loop` says.
  static Value again(OpBuilder &at, GenericOp op, Value value, ArrayRef<int64_t> axis_of_loop, IRMapping &made) {
    Operation *before = value.getDefiningOp();
    if (!before || before->getBlock() != op.getBlock())
      return value;
    if (Value known = made.lookupOrNull(value))
      return known;
    if (auto index = dyn_cast<linalg::IndexOp>(before)) {
      int64_t dim = axis_of_loop.empty() ? int64_t(index.getDim()) : axis_of_loop[index.getDim()];
      Value loop = linalg::IndexOp::create(at, value.getLoc(), dim);
      made.map(value, loop);
      return loop;
    }
    for (Value operand : before->getOperands())
      made.map(operand, again(at, op, operand, axis_of_loop, made));
    at.clone(*before, made);
    return made.lookup(value);
  }

  /// The element of the quantized tensor in place of that of the floats: under a guard, or as it is.
  Value number_read(OpBuilder &at, GenericOp op, tensor::ExtractOp read, const Rows &rows) {
    Location loc = read.getLoc();
    IRMapping made;
    SmallVector<Value> places =
        llvm::map_to_vector(read.getIndices(), [&](Value index) { return again(at, op, index, {}, made); });
    Value number = tensor::ExtractOp::create(at, loc, rows.numbers, places);
    Operation *reader = *read->user_begin();
    auto guard = dyn_cast<arith::SelectOp>(isa<arith::ExtFOp>(reader) ? *reader->user_begin() : reader);
    if (!guard)
      return number;
    Value zero = arith::ConstantOp::create(at, loc, at.getI8IntegerAttr(int8_t(rows.zero)));
    return arith::SelectOp::create(at, loc, again(at, op, guard.getCondition(), {}, made), number, zero);
  }

  /// The magnitude that belongs to an element of the result, whose axes these loops run along.
  Value largest_read(OpBuilder &at, GenericOp op, Side &side, const Rows &rows, ArrayRef<int64_t> axis_of_loop) {
    IRMapping made;
    SmallVector<Value> places = llvm::map_to_vector(
        side.kept, [&](int64_t axis) { return again(at, op, side.read.getIndices()[axis], axis_of_loop, made); });
    return tensor::ExtractOp::create(at, side.read.getLoc(), rows.largest, places);
  }

  void quantize(Candidate &candidate) {
    GenericOp op = candidate.op;
    std::optional<Rows> rows = rows_of(candidate.rows);
    if (!rows)
      return;
    auto get = candidate.weight.tensor().getDefiningOp<ir::GetOp>();
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
    Side &picture = candidate.rows;
    SmallVector<Value> factors;
    SmallVector<AffineMap> places;
    if (!picture.read) {
      factors.push_back(rows->numbers);
      places.push_back(picture.map);
    }
    factors.push_back(read(weights.numbers));
    places.append({candidate.weight.map, result});
    Value product = generic(builder, loc, factors, zero, places, op.getIteratorTypesArray(),
                            [&](OpBuilder &at, Location loc, ValueRange e) {
                              Value number = picture.read ? number_read(at, op, picture.read, *rows) : e[0];
                              Value a = rows->has_sign
                                            ? arith::ExtSIOp::create(at, loc, at.getI32Type(), number).getResult()
                                            : arith::ExtUIOp::create(at, loc, at.getI32Type(), number);
                              Value b = arith::ExtSIOp::create(at, loc, at.getI32Type(), e[factors.size() - 1]);
                              if (pair_sum_)
                                b.getDefiningOp()->setAttr(ir::names::pair_sum, at.getI64IntegerAttr(pair_sum_));
                              Value term = arith::MulIOp::create(at, loc, a, b);
                              return arith::AddIOp::create(at, loc, e.back(), term).getResult();
                            });
    // Over the axes of the result: which of them a row's and a channel's are.
    SmallVector<int64_t> axis_of_loop(op.getNumLoops(), -1);
    for (auto [axis, expr] : llvm::enumerate(result.getResults()))
      axis_of_loop[cast<AffineDimExpr>(expr).getPosition()] = axis;
    auto loop_along = [&](Side &side, int64_t axis) {
      return side.read ? plain_loop(side.read.getIndices()[axis])
                       : int64_t(cast<AffineDimExpr>(side.map.getResult(axis)).getPosition());
    };
    auto along = [&](Side &side) {
      SmallVector<int64_t> out =
          llvm::map_to_vector(side.kept, [&](int64_t axis) { return axis_of_loop[loop_along(side, axis)]; });
      return AffineMap::get(result.getNumResults(), 0, axes(out), module_.getContext());
    };
    bool in_place = llvm::all_of(picture.kept, [&](int64_t axis) { return loop_along(picture, axis) >= 0; });
    AffineMap all = AffineMap::getMultiDimIdentityMap(result.getNumResults(), module_.getContext());
    SmallVector<utils::IteratorType> parallel(result.getNumResults(), utils::IteratorType::parallel);
    SmallVector<Value> read_at{product};
    SmallVector<AffineMap> maps{all};
    if (rows->largest && in_place) {
      read_at.push_back(rows->largest);
      maps.push_back(along(candidate.rows));
    }
    size_t scales = read_at.size();
    read_at.push_back(read(weights.scales));
    maps.push_back(along(candidate.weight));
    if (rows->zero) {
      read_at.push_back(read(weights.sums));
      maps.push_back(along(candidate.weight));
    }
    maps.push_back(all);
    Value known = rows->known ? given(builder, loc, *rows->known / float(rows->top)) : Value();
    Value scaled = generic(
        builder, loc, read_at, empty.getResult(), maps, parallel, [&](OpBuilder &at, Location loc, ValueRange e) {
          Value sum = e[0];
          if (rows->zero) {
            Value share = arith::MulIOp::create(at, loc, e[scales + 1], constant(at, loc, rows->zero));
            sum = arith::SubIOp::create(at, loc, sum, share);
          }
          Value whole = arith::SIToFPOp::create(at, loc, at.getF32Type(), sum);
          Value row = known ? real(at, loc, known) : Value();
          if (!row) {
            Value largest = in_place ? e[1] : largest_read(at, op, picture, *rows, axis_of_loop);
            row = arith::MulFOp::create(at, loc, real(at, loc, largest), constant(at, loc, 1.0 / double(rows->top)));
          }
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
  bool signs_;
  int64_t pair_sum_;
  std::set<std::string> quantized_;        // activations
  llvm::SetVector<Operation *> roundings_; // what reads an activation to make numbers of it
  DenseMap<std::pair<Value, AffineMap>, Rows> rows_;
  DenseMap<std::pair<Operation *, Attribute>, Weights> weights_;
};

struct QuantizeProducts : PassWrapper<QuantizeProducts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(QuantizeProducts)
  explicit QuantizeProducts(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "quantize_products"; }
  StringRef getDescription() const override { return "with --precision int8, products with weights in 8 bits"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    ir::Precisions precisions(getOperation());
    if (failed(check_kept(precisions)))
      return signalPassFailure();
    if (!precisions.has("int8"))
      return;
    bool has_gpu = target.gpu != nullptr;
    Quantizing(getOperation(), has_gpu, pair_sum_of_bytes(target)).run();
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

  Target target;
};

} // namespace

std::unique_ptr<Pass> quantize_products(const Target &target) { return std::make_unique<QuantizeProducts>(target); }

} // namespace heddle::passes
