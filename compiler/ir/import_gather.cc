#include "compiler/ir/import_gather.h"

#include "dsl/differentiate/whole.h"

namespace heddle::ir {

using HExpr = heddle::Expr;
using mlir::AffineExpr;

/// Null where the expression is more than sums, multiples and quotients of indices.
static AffineExpr place_of(const HExpr &e, mlir::MLIRContext *context) {
  switch (e.op) {
  case HExpr::integer:
    return getAffineConstantExpr(e.whole, context);
  case HExpr::size:
    return e.extent.is_constant() ? getAffineConstantExpr(e.extent.constant(), context) : AffineExpr();
  case HExpr::index:
    return getAffineDimExpr(unsigned(e.position), context);
  case HExpr::negate:
    if (AffineExpr inner = place_of(*e.args[0], context))
      return -inner;
    return {};
  case HExpr::add:
  case HExpr::sub:
  case HExpr::mul:
  case HExpr::floor_div:
  case HExpr::mod:
    break;
  default:
    return {};
  }
  AffineExpr a = place_of(*e.args[0], context), b = place_of(*e.args[1], context);
  if (!a || !b)
    return {};
  if (e.op == HExpr::add)
    return a + b;
  if (e.op == HExpr::sub)
    return a - b;
  auto number = llvm::dyn_cast<mlir::AffineConstantExpr>(b);
  if (e.op == HExpr::mul)
    return number || llvm::isa<mlir::AffineConstantExpr>(a) ? a * b : AffineExpr();
  if (!number || number.getValue() <= 0)
    return {};
  return e.op == HExpr::floor_div ? a.floorDiv(b) : a % b;
}

/// Whether a condition says no more than that some place of the read is one of the weight's.
static bool is_range_of(const HExpr &condition, const HExpr &read) {
  differentiating::Terms terms;
  differentiating::Whole whole(terms);
  std::vector<differentiating::Term> indices;
  for (const HExpr *root : {&condition, &read})
    for (const HExpr *node : nodes_of(root))
      while (node->op == HExpr::index && int(indices.size()) <= node->position)
        indices.push_back(terms.index(int(indices.size())));
  auto polynomial = [&](const HExpr *e) { return whole.of(terms.import(e, indices)); };
  if (!is_comparison(condition.op) || condition.args[0]->type != heddle::Type::i32)
    return false;
  auto difference = differentiating::plus(polynomial(condition.args[1]), polynomial(condition.args[0]), -1);
  for (auto [axis, at] : llvm::enumerate(read.args)) {
    auto place = polynomial(at), room = differentiating::plus(whole.of(read.tensor->shape[axis]), place, -1);
    if ((condition.op == HExpr::less_equal && difference == place) || // 0 <= place
        (condition.op == HExpr::less && difference == room))          // place < extent
      return true;
    if ((condition.op == HExpr::greater_equal && difference == differentiating::times(place, -1)) ||
        (condition.op == HExpr::greater && difference == differentiating::times(room, -1)))
      return true;
  }
  return false;
}

std::optional<Gather> gather_of(const Stage &stage, mlir::MLIRContext *context) {
  const HExpr *read = stage.value;
  std::vector<const HExpr *> conditions;
  while (read->op == HExpr::select && differentiating::is_zero(read->args[2])) {
    conditions.push_back(read->args[0]);
    read = read->args[1];
  }
  if (read->op != HExpr::read || read->tensor->kind != Tensor::weight || stage.exact)
    return std::nullopt;
  while (!conditions.empty()) {
    const HExpr *condition = conditions.back();
    conditions.pop_back();
    if (condition->op == HExpr::logical_and)
      conditions.insert(conditions.end(), condition->args.begin(), condition->args.end());
    else if (!is_range_of(*condition, *read))
      return std::nullopt;
  }
  llvm::SmallVector<AffineExpr> places;
  for (const HExpr *at : read->args) {
    places.push_back(place_of(*at, context));
    if (!places.back())
      return std::nullopt;
  }
  auto map = mlir::AffineMap::get(unsigned(stage.space.size()), 0, places, context);
  int64_t elements = 1, made = 1;
  for (const Size &extent : read->tensor->shape)
    elements *= extent.constant();
  for (const Index &index : stage.space)
    made *= index.extent.is_constant() ? index.extent.constant() : elements + elements + 1;
  if (map.isProjectedPermutation() || made > 2 * elements) // readers see through it; it is computed in no time
    return std::nullopt;
  return Gather{read->tensor, map};
}

} // namespace heddle::ir
