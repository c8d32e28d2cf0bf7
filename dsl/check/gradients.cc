// `grad(loss, w)`. Where it stands, a stage of zeros holds the place of its result; when the entry is complete, all
// gradients of one loss are made in one pass, at the first of these places.
#include "dsl/check/gradients.h"
#include "dsl/check/expressions.h"
#include "dsl/check/params.h"
#include "dsl/check/verify.h"
#include "dsl/differentiate/differentiate.h"

#include <algorithm>

namespace heddle::checking {
namespace {

void mark_backward(std::vector<Step> &steps, size_t from) {
  for (size_t i = from; i < steps.size(); ++i)
    if (auto *stage = std::get_if<Stage>(&steps[i].what))
      stage->backward = true;
    else if (auto *loop = std::get_if<Loop>(&steps[i].what))
      mark_backward(loop->steps, 0);
}

/// The same tensor stands behind a name and behind `name[..]` of it; of formulas there is none yet.
const Tensor *tensor_of(const Entity &e) {
  if (e.kind == Entity::tensor)
    return e.read;
  if (e.kind == Entity::scalar && e.value->op == Expr::read && e.value->args.empty())
    return e.value->tensor;
  return nullptr;
}

} // namespace

Entity Gradients::gradient(const Tree &e, Frame &frame) {
  if (e.args.size() != 2) {
    report(Code::E029, e.span, {"grad", "2 arguments", std::to_string(e.args.size()), "grad(loss, w)"});
    return {};
  }
  if (!steps_.any()) { // among the declarations, where nothing is computed
    report(Code::E041, e.span, {text(e.span)});
    return {};
  }
  bool outer = frame.per_element;
  frame.per_element = false;
  Entity loss = expressions_.eval(*e.args[0], frame), of = expressions_.eval(*e.args[1], frame);
  frame.per_element = outer;
  if (loss.kind == Entity::error || of.kind == Entity::error)
    return {};
  const Tree &first = *e.args[0], &second = *e.args[1];
  bool is_tensor = loss.tensor_like() && !loss.extents().empty();
  if (is_tensor || (!loss.tensor_like() && loss.kind != Entity::scalar)) {
    report(Code::E081, first.span, {text(first.span), is_tensor ? "a tensor " + text(loss.extents()) : "no number"});
    return {};
  }
  const Tensor *number = tensor_of(loss);
  if (!number && loss.kind == Entity::scalar) // one stage of a formula, however often its name is asked for
    for (const Derivative &known : derivatives_)
      if (known.formula == loss.value)
        number = known.loss;
  if (!number || number->kind != Tensor::stage)
    number = steps_.materialise(loss, frame.path + "loss", first.span);
  if (!number)
    return {};
  if (!is_floating(number->type)) {
    report(Code::E081, first.span, {text(first.span), "of type " + std::string(type_name(number->type))});
    return {};
  }
  const Tensor *by = tensor_of(of);
  std::string what = !by                      ? "not a name of one"
                     : !is_floating(by->type) ? "of type " + std::string(type_name(by->type))
                     : by->kind == Tensor::state && !declared_.weights.count(by) ? "a state"
                     : by->kind == Tensor::carried                               ? "what a run-time loop passes on"
                                                                                 : "";
  if (!what.empty()) {
    report(Code::E082, second.span, {text(second.span), what});
    return {};
  }
  if (!indices_.loops().empty()) {
    report(Code::E083, e.span,
           {text(first.span), "it stands in a loop over a size of the call",
            "take the gradient after the loop, of what the loop passes on or defines"});
    return {};
  }
  std::vector<Extent> shape = of.kind == Entity::tensor ? of.extents() : std::vector<Extent>{};
  for (const Derivative &known : derivatives_)
    if (known.loss == number && known.of == by)
      return entity(known.result, shape);
  std::vector<int> variables;
  for (const Extent &extent : shape)
    variables.push_back(indices_.new_variable("i" + std::to_string(variables.size()), extent));
  const Tensor *result =
      steps_.reduction(by->name + ".grad", variables, Reducer::none, {}, build_.real(0, by->type), e.span);
  if (!result)
    return {};
  bool of_each = std::any_of(frame.scopes.begin(), frame.scopes.end(), [&](const Scope &scope) {
    return scope.loop && scope.loop->exprs.size() == 1 && params_.is_params(*scope.loop->exprs[0], frame);
  });
  derivatives_.push_back({loss.kind == Entity::scalar ? loss.value : nullptr, number, by, result, text(first.span),
                          of_each ? "" : text(second.span), e.span});
  return entity(result, shape);
}

std::vector<const Tensor *> Gradients::tensors() const {
  std::vector<const Tensor *> all;
  for (const Derivative &one : derivatives_)
    all.insert(all.end(), {one.loss, one.of, one.result});
  return all;
}

void Gradients::expand(Entry &entry) {
  std::vector<Step> &steps = entry.steps;
  auto holds_place = [](const Step &step, const Derivative &one) {
    auto *stage = std::get_if<Stage>(&step.what);
    return stage && stage->result == one.result;
  };
  for (size_t begin = 0; begin < derivatives_.size(); ++begin) {
    const Tensor *loss = derivatives_[begin].loss;
    bool is_done = std::any_of(derivatives_.begin(), derivatives_.begin() + begin,
                               [&](const Derivative &one) { return one.loss == loss; });
    if (is_done)
      continue;
    size_t at = steps.size();
    std::vector<Gradient> gradients;
    for (const Derivative &one : derivatives_)
      if (one.loss == loss) {
        size_t own = std::find_if(steps.begin(), steps.end(), [&](const Step &s) { return holds_place(s, one); }) -
                     steps.begin();
        at = std::min(at, own);
        if (own < steps.size())
          steps.erase(steps.begin() + own);
        gradients.push_back({one.of, one.result});
      }
    std::vector<Step> before(std::make_move_iterator(steps.begin()), std::make_move_iterator(steps.begin() + at));
    std::vector<Step> after(std::make_move_iterator(steps.begin() + at), std::make_move_iterator(steps.end()));
    std::vector<const Tensor *> unrelated;
    size_t forward = before.size();
    auto failed = differentiate(
        program_, before, loss, gradients, [this](const std::string &n) { return steps_.unique_name(n); }, unrelated);
    if (failed) {
      Diagnostic &d = report(Code::E083, derivatives_[begin].span,
                             {derivatives_[begin].loss_name, failed->reason, "compute it another way"});
      if (failed->span.valid() && failed->span.file == derivatives_[begin].span.file)
        d.label = "by line " + std::to_string(sources_.position(failed->span.file, failed->span.begin).line);
      return;
    }
    mark_backward(before, forward);
    for (const Derivative &one : derivatives_)
      if (one.loss == loss && !one.of_name.empty() &&
          std::find(unrelated.begin(), unrelated.end(), one.of) != unrelated.end())
        report(Code::W105, one.span, {one.loss_name, one.of_name});
    steps = std::move(before);
    std::move(after.begin(), after.end(), std::back_inserter(steps));
  }
  if (derivatives_.empty())
    return;
  if (std::string wrong = verify(program_, entry); !wrong.empty())
    report(Code::E079, derivatives_[0].span, {"grad: " + wrong});
}

} // namespace heddle::checking
