#include "dsl/forms/readers.h"

#include "dsl/forms/shapes.h"

#include <algorithm>

namespace heddle::forms {

using namespace heddle::differentiating;

Readers::Readers(Terms &terms, const Entry &entry) : terms_(terms), entry_(entry) {
  for (const Step &step : entry.steps)
    count(step);
  for (const Output &output : entry.outputs)
    ++uses_[output.tensor].all;
}

void Readers::count(const Expr *e, bool is_sum) {
  for (const Expr *node : nodes_of(e))
    if (node->op == Expr::read) {
      ++uses_[node->tensor].all;
      uses_[node->tensor].sums += is_sum;
    }
}

void Readers::count(const Step &step) {
  if (auto *stage = std::get_if<Stage>(&step.what)) {
    count(stage->value, stage->reducer == Reducer::sum);
  } else if (auto *loop = std::get_if<Loop>(&step.what)) {
    for (const Loop::Carried &carried : loop->carried)
      ++uses_[carried.start].all, ++uses_[carried.next].all;
    for (const Loop::Collected &collected : loop->collected)
      ++uses_[collected.slice].all;
    for (const Step &inner : loop->steps)
      count(inner);
  } else if (auto *update = std::get_if<Update>(&step.what)) {
    ++uses_[update->value].all;
    for (const Update::Along &along : update->place)
      count(along.offset, false);
  } else {
    ++uses_[std::get<Require>(step.what).condition].all;
  }
}

void Readers::note(const Stage &stage) {
  if (!stage.exact)
    stages_.insert_or_assign(stage.result, stage);
}

static Size places(const std::vector<Index> &space) {
  Size product(1);
  for (const Index &index : space)
    product = product * index.extent;
  return product;
}

static bool reads_weight(const Stage &stage) {
  std::vector<const Expr *> nodes = nodes_of(stage.value);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Expr *node) { return node->op == Expr::read && node->tensor->kind == Tensor::weight; });
}

std::optional<Stage> Readers::product_at(const Stage &copy) {
  const Expr *read = copy.value;
  if (copy.reducer != Reducer::none || copy.exact || read->op != Expr::read || !read->always_inside)
    return std::nullopt;
  auto found = stages_.find(read->tensor);
  bool plain = std::all_of(read->args.begin(), read->args.end(), [](const Expr *at) { return at->op == Expr::index; });
  if (found == stages_.end() || uses_[read->tensor].all != 1 || reshapes(*read, copy.space))
    return std::nullopt;
  const Stage &product = found->second;
  if (!is_product(product) || plain || places(product.space) != places(copy.space) || !reads_weight(product))
    return std::nullopt;
  std::vector<Term> own, indices;
  for (size_t i = 0; i < copy.space.size() + product.over.size(); ++i)
    own.push_back(terms_.index(int(i)));
  for (const Expr *at : read->args)
    indices.push_back(terms_.import(at, own));
  indices.insert(indices.end(), own.begin() + int(copy.space.size()), own.end());
  Stage made = product;
  made.result = copy.result;
  made.space = copy.space;
  made.value = terms_.import(product.value, indices);
  return made;
}

std::optional<Stage> Readers::with_formulas(const Stage &stage) {
  if (stage.exact)
    return std::nullopt;
  std::vector<Term> own;
  for (size_t i = 0; i < stage.space.size() + stage.over.size(); ++i)
    own.push_back(terms_.index(int(i)));
  auto formula_of = [&](Term node) -> Term {
    bool may_be = node->op == Expr::read && node->always_inside && is_floating(node->type);
    auto found = may_be ? stages_.find(node->tensor) : stages_.end();
    if (found == stages_.end() || found->second.reducer != Reducer::none || node->args.size() <= own.size())
      return nullptr;
    std::vector<Term> inner = nodes_of(node);
    bool by_data = std::any_of(inner.begin(), inner.end(), [&](Term at) { return at != node && at->op == Expr::read; });
    const Uses &uses = uses_[node->tensor];
    bool has_all = std::all_of(own.begin(), own.end(), [&](Term index) {
      return std::find(node->args.begin(), node->args.end(), index) != node->args.end();
    });
    return by_data && has_all && uses.all - uses.sums <= 1 ? terms_.import(found->second.value, node->args) : nullptr;
  };
  Stage made = stage;
  made.value = terms_.import(stage.value, own);
  const Term written = made.value;
  for (Term before = nullptr; before != made.value;) {
    before = made.value;
    made.value = terms_.rewrite(made.value, formula_of);
  }
  return made.value == written ? std::nullopt : std::optional(made);
}

std::vector<Step> Readers::needed(std::vector<Step> steps) const {
  Readers later(terms_, {entry_.name, {}, entry_.outputs, {}, entry_.span});
  std::vector<Step> kept;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    auto *stage = std::get_if<Stage>(&step->what);
    if (stage && !later.uses_.count(stage->result))
      continue;
    later.count(*step);
    kept.push_back(std::move(*step));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

} // namespace heddle::forms
