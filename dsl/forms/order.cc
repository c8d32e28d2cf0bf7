#include "dsl/forms/order.h"

#include <algorithm>
#include <numeric>

namespace heddle::forms {

using namespace heddle::differentiating;

Order::Order(Terms &terms, MakeTensor make, const Entry &entry) : terms_(terms), make_(std::move(make)) {
  for (const Output &output : entry.outputs)
    kept_.insert(output.tensor);
  keep(entry.steps);
}

void Order::keep(const std::vector<Step> &steps) {
  for (const Step &step : steps)
    if (auto *loop = std::get_if<Loop>(&step.what)) {
      for (const Loop::Carried &carried : loop->carried)
        kept_.insert({carried.start, carried.next});
      for (const Loop::Collected &collected : loop->collected)
        kept_.insert({collected.slice, collected.whole});
      keep(loop->steps);
    } else if (auto *update = std::get_if<Update>(&step.what)) {
      kept_.insert(update->value);
    }
}

Term Order::followed(Term e, std::map<Term, Term> &done) {
  if (auto known = done.find(e); known != done.end())
    return known->second;
  Expr copy = *e;
  for (Term &arg : copy.args)
    arg = followed(arg, done);
  if (auto other = permuted_.find(e->tensor); e->op == Expr::read && other != permuted_.end()) {
    std::vector<Term> at;
    for (int axis : other->second.axes)
      at.push_back(copy.args[axis]);
    copy.args = at;
    copy.tensor = other->second.tensor;
  }
  return done[e] = terms_.node(std::move(copy));
}

std::vector<int> Order::order_of(const Stage &stage) {
  std::vector<int> axes(stage.space.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (is_product(stage) && axes.size() > 1) {
    const std::set<int> &left = terms_.variables(stage.value->args[0]), &right = terms_.variables(stage.value->args[1]);
    auto in_both = [&](int axis) { return left.count(axis) == right.count(axis); };
    auto only = [&](const std::set<int> &a, const std::set<int> &b) {
      return std::any_of(axes.begin(), axes.end(), [&](int axis) { return a.count(axis) && !b.count(axis); });
    };
    if (in_both(axes.back()) && only(left, right) && only(right, left))
      std::stable_partition(axes.begin(), axes.end(), in_both);
  } else if (stage.reducer == Reducer::none) {
    for (Term node : nodes_of(stage.value)) {
      bool follows = std::any_of(permuted_.begin(), permuted_.end(), [&](const auto &one) {
        return node->op == Expr::read && one.second.tensor == node->tensor;
      });
      std::vector<int> order;
      for (Term at : node->args)
        if (follows && at->op == Expr::index && std::find(order.begin(), order.end(), at->position) == order.end())
          order.push_back(at->position);
      if (follows && order.size() == axes.size() && node->args.size() == axes.size())
        return order;
    }
  }
  return axes;
}

Stage Order::permuted(const Stage &stage, const Tensor *result, const std::vector<int> &axes) {
  Stage made = stage;
  made.result = result;
  std::vector<Term> indices(stage.space.size() + stage.over.size());
  for (size_t i = 0; i < indices.size(); ++i)
    indices[i] = terms_.index(int(i));
  for (size_t i = 0; i < axes.size(); ++i) {
    made.space[i] = stage.space[axes[i]];
    indices[axes[i]] = terms_.index(int(i));
  }
  made.value = terms_.import(stage.value, indices);
  return made;
}

void Order::copy_factors(Stage &product, std::vector<Step> &out) {
  std::vector<Term> factors = product.value->args;
  const std::set<int> left = terms_.variables(factors[0]), right = terms_.variables(factors[1]);
  for (Term &factor : factors) {
    std::vector<int> loops, axes;
    for (Term at : factor->args)
      if (at->op == Expr::index && std::find(loops.begin(), loops.end(), at->position) == loops.end())
        loops.push_back(at->position);
    auto in_both = [&](int axis) {
      return loops[axis] < int(product.space.size()) && left.count(loops[axis]) && right.count(loops[axis]);
    };
    if (factor->op != Expr::read || !factor->always_inside || loops.empty() || loops.size() != factor->args.size() ||
        !in_both(int(loops.size()) - 1))
      continue;
    axes.resize(loops.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::stable_partition(axes.begin(), axes.end(), in_both);
    Stage copy = product;
    copy.reducer = Reducer::none;
    copy.space.clear();
    copy.over.clear();
    std::vector<Term> from(loops.size()), to;
    std::vector<Size> shape;
    for (int axis : axes) {
      size_t loop = size_t(loops[axis]), own = product.space.size();
      copy.space.push_back(loop < own ? product.space[loop] : product.over[loop - own]);
      shape.push_back(copy.space.back().extent);
      from[axis] = terms_.index(int(to.size()));
      to.push_back(factor->args[axis]);
    }
    copy.result = make_(product, "factor", factor->type, shape);
    copy.value = terms_.read(factor->tensor, from, true);
    factor = terms_.read(copy.result, to, true);
    out.push_back({std::move(copy)});
  }
  product.value = terms_.make(Expr::mul, product.value->type, factors);
}

Stage Order::in_own_order(const Stage &stage) {
  Stage copy = stage;
  copy.reducer = Reducer::none;
  copy.over.clear();
  std::vector<Term> indices;
  for (size_t i = 0; i < stage.space.size(); ++i)
    indices.push_back(terms_.index(int(i)));
  std::map<Term, Term> done;
  copy.value = followed(terms_.read(stage.result, indices, true), done);
  return copy;
}

std::vector<Step> Order::ordered(const std::vector<Step> &steps) {
  std::vector<Step> out;
  for (const Step &step : steps) {
    if (auto *loop = std::get_if<Loop>(&step.what)) {
      Loop copy = *loop;
      copy.steps = ordered(loop->steps);
      out.push_back({std::move(copy)});
      continue;
    }
    auto *known = std::get_if<Stage>(&step.what);
    if (!known || known->exact) {
      out.push_back(step);
      continue;
    }
    Stage stage = *known;
    std::map<Term, Term> done;
    if (!permuted_.empty() || is_product(stage))
      stage.value = followed(stage.value, done);
    std::vector<int> axes = order_of(stage);
    bool kept = kept_.count(stage.result);
    if ((kept && !is_product(stage)) || std::is_sorted(axes.begin(), axes.end())) {
      out.push_back({std::move(stage)});
      continue;
    }
    std::vector<Size> shape;
    for (int axis : axes)
      shape.push_back(stage.result->shape[axis]);
    const Tensor *made = make_(stage, "ordered", stage.result->type, shape);
    Stage in_order = permuted(stage, made, axes);
    if (is_product(in_order))
      copy_factors(in_order, out);
    out.push_back({std::move(in_order)});
    permuted_[stage.result] = {made, axes};
    if (kept)
      out.push_back({in_own_order(stage)});
  }
  return out;
}

} // namespace heddle::forms
