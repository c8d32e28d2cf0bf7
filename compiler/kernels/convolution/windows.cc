// Looks for the largest subexpressions that are affine in the loops. Where all that hold a loop of the result are the
// same sum of loops, but for a factor and what is free of loops, that sum becomes a variable.
#include "compiler/kernels/convolution/windows.h"

#include "compiler/kernels/inlining.h"

#include <algorithm>
#include <numeric>

namespace heddle::convolution {

using Halide::Expr;
using Halide::Var;
namespace hi = Halide::Internal;

std::optional<Form> form_of(const Expr &e, const std::vector<std::string> &loops) {
  if (const auto *variable = e.as<hi::Variable>()) {
    if (std::find(loops.begin(), loops.end(), variable->name) != loops.end())
      return Form{{variable->name, 1}};
    return Form{};
  }
  auto combined = [&](const Expr &a, const Expr &b, int64_t sign) -> std::optional<Form> {
    std::optional<Form> left = form_of(a, loops), right = form_of(b, loops);
    if (!left || !right)
      return std::nullopt;
    for (auto [name, factor] : *right)
      (*left)[name] += sign * factor;
    std::erase_if(*left, [](const auto &term) { return term.second == 0; });
    return left;
  };
  if (const auto *add = e.as<hi::Add>())
    return combined(add->a, add->b, 1);
  if (const auto *sub = e.as<hi::Sub>())
    return combined(sub->a, sub->b, -1);
  if (const auto *times = e.as<hi::Mul>())
    for (auto [a, b] : {std::pair(times->a, times->b), std::pair(times->b, times->a)})
      if (std::optional<int64_t> factor = hi::as_const_int(b)) {
        std::optional<Form> form = form_of(a, loops);
        if (form)
          for (auto &[name, by] : *form)
            by *= *factor;
        return form;
      }
  bool uses = std::any_of(loops.begin(), loops.end(), [&](const auto &name) { return hi::expr_uses_var(e, name); });
  return uses ? std::nullopt : std::optional(Form{});
}

namespace {

/// Divides a form by the largest common factor, with the sign of `place`'s; returns that factor.
int64_t reduce(Form &form, const std::string &place) {
  int64_t factor = 0;
  for (auto [name, times] : form)
    factor = std::gcd(factor, times);
  if (form[place] < 0)
    factor = -factor;
  for (auto &[name, times] : form)
    times /= factor;
  return factor;
}

/// Finds the largest affine subexpressions that hold `place`, and writes `window` for their reduced form.
class ReplaceForms : public hi::IRGraphMutator {
public:
  ReplaceForms(std::string place, const std::vector<std::string> &loops, Var window)
      : place_(std::move(place)), loops_(loops), window_(std::move(window)) {}
  std::vector<Form> found; // each once

  Expr mutate(const Expr &e) override {
    if (!e.type().is_int())
      return IRGraphMutator::mutate(e);
    std::optional<Form> form = form_of(e, loops_);
    if (!form)
      return IRGraphMutator::mutate(e);
    if (!form->count(place_))
      return e;
    int64_t factor = reduce(*form, place_);
    if (std::find(found.begin(), found.end(), *form) == found.end())
      found.push_back(*form);
    std::map<std::string, Expr> nowhere;
    for (const std::string &loop : loops_)
      nowhere[loop] = 0;
    return Expr(window_) * int(factor) + hi::simplify(replaced(nowhere, e));
  }
  using IRGraphMutator::mutate;

private:
  std::string place_;
  const std::vector<std::string> &loops_;
  Var window_;
};

/// The first read of a tensor.
class FindRead : public hi::IRGraphVisitor {
public:
  const hi::Call *read = nullptr;

protected:
  using IRGraphVisitor::visit;
  void visit(const hi::Call *call) override {
    if (!read && (call->call_type == hi::Call::Image || call->call_type == hi::Call::Halide))
      read = call;
    IRGraphVisitor::visit(call);
  }
};

std::vector<std::string> names_of(const std::vector<Var> &a, const std::vector<Var> &b) {
  std::vector<std::string> names;
  for (const std::vector<Var> *vars : {&a, &b})
    for (const Var &var : *vars)
      names.push_back(var.name());
  return names;
}

} // namespace

Windows::Windows(Expr value, const std::vector<Var> &places, const std::vector<Var> &sums,
                 const std::vector<Var> &others)
    : value_(hi::substitute_in_all_lets(value)) {
  for (const Var &place : places)
    replace(place, places, sums);
  std::vector<Var> left;
  for (const auto &[name, form] : forms_)
    left.push_back(Var(name));
  for (const std::vector<Var> *vars : {&sums, &places, &others})
    left.insert(left.end(), vars->begin(), vars->end());
  std::erase_if(left, [&](const Var &var) { return !hi::expr_uses_var(value_, var.name()); });
  // In the order of the tensor that is read, so that the copy of a row is a row.
  FindRead find;
  value_.accept(&find);
  if (find.read)
    for (const Expr &index : find.read->args) {
      for (auto var = left.begin(); var != left.end();)
        if (hi::expr_uses_var(index, var->name())) {
          variables_.push_back(*var);
          var = left.erase(var);
        } else {
          ++var;
        }
    }
  variables_.insert(variables_.end(), left.begin(), left.end());
  for (const Var &var : variables_) {
    auto form = forms_.find(var.name());
    places_.push_back(form == forms_.end() ? Expr(var) : form->second);
  }
}

bool Windows::slides(const Var &sum) const {
  return std::find(sliding_.begin(), sliding_.end(), sum.name()) != sliding_.end();
}

Expr Windows::last_place(size_t i, const std::map<std::string, Expr> &extents) const {
  std::vector<std::string> loops;
  for (const auto &[name, extent] : extents)
    loops.push_back(name);
  const Form form = *form_of(places_[i], loops);
  Expr last = 0;
  for (auto [name, factor] : form)
    if (factor > 0)
      last += (extents.at(name) - 1) * int(factor);
  return hi::simplify(last);
}

void Windows::replace(const Var &place, const std::vector<Var> &places, const std::vector<Var> &sums) {
  std::vector<std::string> loops = names_of(places, sums);
  Var window("w" + std::to_string(forms_.size()));
  ReplaceForms forms(place.name(), loops, window);
  Expr value = forms.mutate(value_);
  if (forms.found.size() != 1 || forms.found[0].size() < 2)
    return;
  Expr sum = 0;
  for (auto [name, factor] : forms.found[0]) {
    if (hi::expr_uses_var(value, name))
      return;
    for (const Var &other : places)
      if (name == other.name() && name != place.name())
        return;
    sum += Expr(Var(name)) * int(factor);
  }
  value_ = value;
  forms_[window.name()] = hi::simplify(sum);
  for (auto [name, factor] : forms.found[0])
    if (name != place.name())
      sliding_.push_back(name);
    else
      stride_ *= std::abs(factor);
}

} // namespace heddle::convolution
