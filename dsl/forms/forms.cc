#include "dsl/forms/forms.h"

#include "dsl/forms/factors.h"
#include "dsl/forms/linked.h"
#include "dsl/forms/order.h"
#include "dsl/forms/product.h"
#include "dsl/forms/shapes.h"
#include "dsl/forms/taps.h"

#include <algorithm>

namespace heddle::forms {

using namespace heddle::differentiating;

Forms::Forms(const Program &program) {
  for (const Tensor &tensor : program.tensors)
    names_.insert(tensor.name);
  for (const Entry &entry : program.entries)
    for (const Input &input : entry.inputs)
      if (input.below)
        note_range(input.tensor, *input.below);
}

const Tensor *Forms::new_tensor(const Stage &of, const std::string &part, Type type, std::vector<Size> shape) {
  std::string name = of.result->name + "." + part, unique = name;
  for (int n = 2; !names_.insert(unique).second; ++n)
    unique = name + std::to_string(n);
  tensors_.push_back({Tensor::stage, unique, type, std::move(shape), of.span});
  return &tensors_.back();
}

void Forms::note_range(const Tensor *tensor, const Size &below) {
  whole_.nonnegative_tensors.insert(tensor);
  if (below.is_constant() && below.constant() > 0)
    whole_.below.insert_or_assign(tensor, below);
}

/// A number that all values of an expression are less than, none of which is negative; 0: none is known.
static int64_t bound_of(const Expr *e, const Stage &stage, const Whole &whole) {
  auto argument = [&](size_t i) { return bound_of(e->args[i], stage, whole); };
  switch (e->op) {
  case Expr::integer:
    return e->whole >= 0 ? e->whole + 1 : 0;
  case Expr::index: {
    size_t position = size_t(e->position);
    const Size &extent =
        position < stage.space.size() ? stage.space[position].extent : stage.over[position - stage.space.size()].extent;
    return extent.is_constant() ? extent.constant() : 0;
  }
  case Expr::read: {
    auto known = whole.below.find(e->tensor);
    return known == whole.below.end() ? 0 : known->second.constant();
  }
  case Expr::select:
  case Expr::maximum: {
    int64_t a = argument(e->args.size() - 2), b = argument(e->args.size() - 1);
    return a && b ? std::max(a, b) : 0;
  }
  case Expr::minimum: {
    int64_t a = argument(0), b = argument(1);
    return a && b ? std::min(a, b) : 0;
  }
  default:
    return 0;
  }
}

void Forms::note_range(const Stage &stage) {
  if (stage.reducer == Reducer::argmax || stage.reducer == Reducer::argmin)
    note_range(stage.result, stage.over[0].extent);
  else if (stage.reducer == Reducer::none && stage.result->type == Type::i32)
    if (int64_t below = bound_of(stage.value, stage, whole_))
      note_range(stage.result, Size(below));
}

/// A sum of reals in which some index is divided, or some condition an equation.
static bool may_have_form(const Stage &stage) {
  if (stage.reducer != Reducer::sum || !is_floating(stage.result->type) || stage.exact)
    return false;
  std::vector<const Expr *> nodes = nodes_of(stage.value);
  return std::any_of(nodes.begin(), nodes.end(), [](const Expr *e) {
    return (e->op == Expr::equal || e->op == Expr::floor_div || e->op == Expr::mod) && e->args[0]->type == Type::i32;
  });
}

/// What a formula reads of a stage's result in another shape is a view of that: x[m // N, m % N] + b[m]  becomes
/// v[m] + b[m]. So is what it reads of a product that may be computed in that order.
std::vector<Stage> Forms::with_views(const Stage &stage, Readers *readers) {
  std::vector<Stage> made;
  if (stage.value->op == Expr::read)
    return made;
  std::map<const Expr *, const Tensor *> views;
  for (const Expr *node : nodes_of(stage.value))
    if (node->op == Expr::read && node->tensor->kind == Tensor::stage) {
      Stage view = stage;
      view.value = node;
      if (!reshapes(*node, stage.space) && !(readers && readers->product_at(view)))
        continue;
      view.result = new_tensor(stage, "view", node->type, stage.result->shape);
      views[node] = view.result;
      made.push_back(std::move(view));
    }
  if (views.empty())
    return made;
  std::vector<Term> indices;
  for (size_t i = 0; i < stage.space.size(); ++i)
    indices.push_back(terms_.index(int(i)));
  std::map<const Expr *, Term> done;
  std::function<Term(const Expr *)> go = [&](const Expr *node) -> Term {
    if (auto known = done.find(node); known != done.end())
      return known->second;
    Expr copy = *node;
    if (auto view = views.find(node); view != views.end()) {
      copy.tensor = view->second;
      copy.args = indices;
    } else {
      for (Term &arg : copy.args)
        arg = go(arg);
    }
    return done[node] = terms_.node(std::move(copy));
  };
  made.push_back(stage);
  made.back().value = go(stage.value);
  return made;
}

std::vector<Stage> Forms::solved(const Stage &stage) {
  Product product(terms_, whole_, stage);
  product.solve();
  std::vector<Stage> made = product.changed() ? product.stages(make_) : std::vector<Stage>();
  std::optional<Linked> linked = made.empty() ? product_before_conditions(terms_, make_, stage) : std::nullopt;
  if (!linked)
    return made;
  Product sum(terms_, whole_, linked->sum);
  sum.solve();
  if (!sum.has_few_terms()) // such that equations give each product its one place
    return {};
  made.push_back(std::move(linked->product));
  for (Stage &part : sum.stages(make_)) {
    std::optional<Stage> taps = with_taps_written_out(terms_, part);
    made.push_back(taps ? std::move(*taps) : std::move(part));
  }
  return made;
}

std::vector<Stage> Forms::rewritten(const Stage &stage, Readers *readers) {
  std::vector<Stage> made, out;
  if (std::optional<Stage> taps = with_taps_written_out(terms_, stage))
    made.push_back(std::move(*taps));
  else if (may_have_form(stage))
    made = solved(stage);
  else if (stage.reducer == Reducer::none && !stage.exact)
    made = with_views(stage, readers);
  if (made.empty())
    made.push_back(stage);
  for (Stage &one : made) {
    std::optional<Stage> product = readers ? readers->product_at(one) : std::nullopt;
    std::vector<Stage> at_places = product ? solved(*product) : std::vector<Stage>();
    if (at_places.empty())
      at_places.push_back(std::move(one));
    out.insert(out.end(), at_places.begin(), at_places.end());
  }
  return out;
}

std::vector<Step> Forms::rewritten(const std::vector<Step> &steps, FactorForms factors, Readers *readers) {
  std::vector<Step> out;
  for (const Step &step : steps) {
    if (auto *loop = std::get_if<Loop>(&step.what)) {
      Loop copy = *loop;
      loops_.push_back(loop->index.extent);
      whole_.in_loops(loops_);
      copy.steps = rewritten(loop->steps, factors, nullptr);
      loops_.pop_back();
      whole_.in_loops(loops_);
      out.push_back({std::move(copy)});
    } else if (auto *written = std::get_if<Stage>(&step.what)) {
      std::optional<Stage> inlined = readers ? readers->with_formulas(*written) : std::nullopt;
      const Stage &stage = inlined ? *inlined : *written;
      note_range(stage);
      for (const Stage &one : rewritten(stage, readers))
        for (Stage &part : factors.of(one))
          out.push_back({std::move(part)});
      if (readers)
        readers->note(stage);
    } else {
      out.push_back(step);
    }
  }
  return out;
}

std::vector<std::vector<Step>> Forms::steps(const Program &program) {
  std::vector<std::vector<Step>> out;
  for (const Entry &entry : program.entries) {
    Readers readers(terms_, entry);
    std::vector<Step> steps = rewritten(entry.steps, FactorForms(terms_, make_), &readers);
    out.push_back(Order(terms_, make_, entry).ordered(readers.needed(std::move(steps))));
  }
  return out;
}

} // namespace heddle::forms
