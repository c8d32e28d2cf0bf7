// Which places a read touches is told from the maps of operands and the arithmetic of indices; anything else than sums
// and multiples of loops counts as unknown.
#include "compiler/kernels/product/nest.h"

#include "compiler/ir/shapes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

namespace heddle::contraction {

using namespace mlir;
using linalg::LinalgOp;

namespace {

/// An index as far as a loop of the op, and a divisor of the rest, matter: step * loop + what is a multiple of divisor.
struct Form {
  int64_t step;
  int64_t divisor; // 0: of everything
};

std::optional<int64_t> constant_of(Value value) {
  IntegerAttr number;
  return matchPattern(value, m_Constant(&number)) ? std::optional(number.getInt()) : std::nullopt;
}

using FormOfLeaf = llvm::function_ref<std::optional<Form>(AffineExpr)>;

/// `leaf`: of a dimension or a symbol.
std::optional<Form> form_of(AffineExpr e, FormOfLeaf leaf) {
  if (isa<AffineDimExpr, AffineSymbolExpr>(e))
    return leaf(e);
  if (auto constant = dyn_cast<AffineConstantExpr>(e))
    return Form{0, constant.getValue()};
  auto binary = cast<AffineBinaryOpExpr>(e);
  auto p = form_of(binary.getLHS(), leaf), q = form_of(binary.getRHS(), leaf);
  if (!p || !q)
    return std::nullopt;
  if (e.getKind() == AffineExprKind::Add)
    return Form{p->step + q->step, std::gcd(p->divisor, q->divisor)};
  auto times = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (e.getKind() == AffineExprKind::Mul && times)
    return Form{p->step * times.getValue(), p->divisor * times.getValue()};
  return p->step == 0 && q->step == 0 ? std::optional(Form{0, 1}) : std::nullopt;
}

/// Of a map of an op's operand.
std::optional<Form> form_of(AffineExpr e, unsigned loop) {
  return form_of(e, [&](AffineExpr leaf) -> std::optional<Form> {
    auto dim = dyn_cast<AffineDimExpr>(leaf);
    return dim && dim.getPosition() == loop ? Form{1, 0} : Form{0, 1};
  });
}

/// `clamps`: a nearest place inside counts as the place itself.
std::optional<Form> form_of(LinalgOp op, Value index, unsigned loop, bool clamps) {
  if (auto constant = constant_of(index))
    return Form{0, *constant};
  if (!loops_behind(op, index).test(loop)) {
    if (auto times = index.getDefiningOp<arith::MulIOp>())
      for (Value factor : times->getOperands())
        if (auto constant = constant_of(factor))
          return Form{0, *constant};
    if (!index.getDefiningOp() ||
        !isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, affine::AffineApplyOp>(index.getDefiningOp()))
      return Form{0, 1};
  }
  Operation *made = index.getDefiningOp();
  if (!made)
    return std::nullopt;
  if (auto own = dyn_cast<linalg::IndexOp>(made))
    return own.getDim() == loop ? Form{1, 0} : Form{0, 1};
  if (clamps && isa<arith::MaxSIOp, arith::MinSIOp>(made)) {
    for (Value operand : made->getOperands())
      if (loops_behind(op, operand).test(loop))
        return form_of(op, operand, loop, clamps);
    return Form{0, 1};
  }
  if (auto apply = dyn_cast<affine::AffineApplyOp>(made)) {
    AffineMap map = apply.getAffineMap();
    return form_of(map.getResult(0), [&](AffineExpr leaf) {
      auto symbol = dyn_cast<AffineSymbolExpr>(leaf);
      unsigned operand = symbol ? map.getNumDims() + symbol.getPosition() : cast<AffineDimExpr>(leaf).getPosition();
      return form_of(op, apply.getMapOperands()[operand], loop, clamps);
    });
  }
  if (made->getNumOperands() != 2)
    return std::nullopt;
  auto p = form_of(op, made->getOperand(0), loop, clamps), q = form_of(op, made->getOperand(1), loop, clamps);
  if (!p || !q)
    return std::nullopt;
  if (isa<arith::AddIOp>(made))
    return Form{p->step + q->step, std::gcd(p->divisor, q->divisor)};
  if (isa<arith::SubIOp>(made))
    return Form{p->step - q->step, std::gcd(p->divisor, q->divisor)};
  if (isa<arith::MulIOp>(made)) {
    auto left = constant_of(made->getOperand(0)), right = constant_of(made->getOperand(1));
    if (right)
      return Form{p->step * *right, p->divisor * *right};
    if (left)
      return Form{q->step * *left, q->divisor * *left};
  }
  return p->step == 0 && q->step == 0 ? std::optional(Form{0, 1}) : std::nullopt;
}

/// The form of each index of a read, and the tensor's type; nothing where one has none.
std::optional<std::pair<SmallVector<Form>, RankedTensorType>> forms_of(LinalgOp op, Value read, unsigned loop,
                                                                       bool clamps) {
  SmallVector<Form> forms;
  if (auto argument = dyn_cast<BlockArgument>(read)) {
    if (argument.getOwner() != op.getBlock())
      return std::nullopt;
    OpOperand &operand = op->getOpOperand(argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type)
      return std::nullopt;
    for (AffineExpr e : op.getMatchingIndexingMap(&operand).getResults())
      if (auto form = form_of(e, loop))
        forms.push_back(*form);
      else
        return std::nullopt;
    return std::pair(forms, type);
  }
  auto from = read.getDefiningOp<tensor::ExtractOp>();
  if (!from)
    return std::nullopt;
  for (Value index : from.getIndices())
    if (auto form = form_of(op, index, loop, clamps))
      forms.push_back(*form);
    else
      return std::nullopt;
  return std::pair(forms, cast<RankedTensorType>(from.getTensor().getType()));
}

/// Puts the loop last along which a factor's neighbours lie: of one that is read at computed places, such as a picture,
/// before others.
void order_terms(Nest &nest) {
  SmallVector<const Factor *> factors{&nest.product.left, &nest.product.right};
  if (isa<BlockArgument>(element_read(factors[0]->value)) && !isa<BlockArgument>(element_read(factors[1]->value)))
    std::swap(factors[0], factors[1]);
  for (const Factor *factor : factors)
    for (unsigned &loop : nest.terms)
      if (step_of(nest.product.op, element_read(factor->value), loop) == 1) {
        unsigned last = loop;
        nest.terms.erase(&loop);
        nest.terms.push_back(last);
        return;
      }
}

} // namespace

std::optional<int64_t> step_of(LinalgOp op, Value read, unsigned loop) {
  auto found = forms_of(op, read, loop, /*clamps=*/true);
  if (!found)
    return std::nullopt;
  int64_t step = 0, apart = 1;
  for (auto [axis, form] : llvm::enumerate(llvm::reverse(found->first))) {
    if (form.step != 0 && apart < 0)
      return std::nullopt;
    step += form.step * std::max<int64_t>(apart, 0);
    int64_t extent = found->second.getShape()[found->first.size() - 1 - axis];
    apart = apart < 0 || ShapedType::isDynamic(extent) ? -1 : apart * extent;
  }
  return step;
}

bool lies_together(LinalgOp op, Value read, unsigned loop, bool clamps) {
  auto found = forms_of(op, read, loop, clamps);
  return found && !found->first.empty() && found->first.back().step == 1 &&
         llvm::all_of(ArrayRef(found->first).drop_back(), [](const Form &form) { return form.step == 0; });
}

bool lies_in_groups(LinalgOp op, Value read, unsigned loop, int64_t group) {
  int64_t extent = op.getStaticLoopRanges()[loop];
  if (ShapedType::isDynamic(extent) || extent % group != 0 || !lies_together(op, read, loop))
    return false;
  auto [forms, type] = *forms_of(op, read, loop, /*clamps=*/false);
  bool aligned = type.getRank() == 1 || (!type.isDynamicDim(type.getRank() - 1) && type.getShape().back() % group == 0);
  return aligned && forms.back().divisor % group == 0;
}

PlainRead plain_read(Value factor) {
  PlainRead out{factor, {}};
  while (Operation *made = out.read.getDefiningOp()) {
    auto choice = dyn_cast<arith::SelectOp>(made);
    if (isa<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(made)) {
      out.read = made->getOperand(0);
    } else if (choice && (matchPattern(choice.getFalseValue(), m_AnyZeroFloat()) ||
                          matchPattern(choice.getFalseValue(), m_Zero()))) {
      out.conditions.push_back(choice.getCondition());
      out.read = choice.getTrueValue();
    } else {
      break;
    }
  }
  if (!isa<BlockArgument>(out.read) && !out.read.getDefiningOp<tensor::ExtractOp>())
    out.read = {};
  return out;
}

static Result<Nest> nest_of(const Reached &reached) {
  Nest out{reached.product, reached.axis_of_loop, {}, {}, {}, {}, {}, {}};
  const Product &product = out.product;
  if (product.op->getNumResults() != 1)
    return Error{"its sums are several"};
  auto extents = ir::loop_extents(product.op);
  if (failed(extents))
    return Error{"an extent is no formula"};
  out.extents = *extents;
  SmallVector<unsigned> reduced;
  LinalgOp op = product.op;
  op.getReductionDims(reduced);
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    bool left = product.left.loops.test(loop), right = product.right.loops.test(loop);
    if (llvm::is_contained(reduced, loop))
      out.terms.push_back(loop);
    else
      (left == right ? out.batches : left ? out.rows : out.columns).push_back(loop);
  }
  if (out.rows.empty() || out.columns.empty())
    return Error{"one factor is used once only: there is nothing to stage"};
  order_terms(out);
  return out;
}

Result<std::vector<Nest>> nests_of(func::FuncOp kernel) {
  auto results = match(kernel);
  if (!results)
    return Error{"it is no product"};
  std::vector<Nest> out;
  for (auto [number, products] : llvm::enumerate(*results)) {
    if (products.size() != 1)
      return Error{"a result comes from several products"};
    const Reached &reached = products.front();
    auto known = llvm::find_if(out, [&](const Nest &nest) { return nest.product.op == reached.product.op; });
    if (known == out.end()) {
      auto nest = nest_of(reached);
      if (!nest)
        return nest.error();
      out.push_back(std::move(*nest)), known = std::prev(out.end());
    }
    if (known->axis_of_loop != reached.axis_of_loop)
      return Error{"a product is returned at several places"};
    known->returned.push_back(unsigned(number));
  }
  const Nest &first = out.front();
  for (const Nest &nest : out)
    if (nest.extents != first.extents || nest.batches != first.batches || nest.rows != first.rows ||
        nest.columns != first.columns || nest.terms != first.terms)
      return Error{"its results come from products of several shapes"};
  return out;
}

} // namespace heddle::contraction
