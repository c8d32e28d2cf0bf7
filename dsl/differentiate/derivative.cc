// Nodes are taken from the value down to its reads; each hands its adjoint on to its arguments by the rule of its
// operation. max and min hand it to the first that attains them, as PyTorch's reductions do.
//
// What a node is handed is kept apart by the conditions that it is handed under: where none of them holds the node may
// be no number (the root of what is negative), which nothing is to be multiplied by, not even 0.
#include "dsl/differentiate/derivative.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace heddle::differentiating {
namespace {

class Reverse {
public:
  Reverse(Terms &terms, Term value, const std::function<bool(const Tensor *)> &active) : terms_(terms) {
    order_ = nodes_of(value);
    for (Term node : order_) {
      bool any = node->op == Expr::read && active(node->tensor);
      for (Term arg : node->args)
        any |= node->op != Expr::read && active_.count(arg) > 0;
      if (any && is_floating(node->type) && !node->stopped)
        active_.insert(node);
    }
  }

  bool varies(Term value) const { return active_.count(value) > 0; }

  std::vector<std::pair<Term, Term>> run(Term value, Term seed) {
    std::vector<std::pair<Term, Term>> reads;
    give(value, seed);
    for (size_t i = order_.size(); i-- > 0;) {
      Term node = order_[i];
      auto found = adjoints_.find(node);
      if (found == adjoints_.end())
        continue;
      const std::vector<Part> &parts = found->second;
      if (node->op == Expr::read)
        reads.emplace_back(node, sum(parts));
      else if (hands_on_as_it_is(node->op))
        for (const Part &part : std::vector<Part>(parts))
          hand_on(node, whole(part));
      else
        hand_on(node, under_any(parts));
    }
    return reads;
  }

private:
  struct Part {
    std::vector<Term> conditions;
    Term value; // where all of them hold
  };

  static bool hands_on_as_it_is(Expr::Op op) {
    return op == Expr::add || op == Expr::sub || op == Expr::negate || op == Expr::cast;
  }

  Part split(Term adjoint) {
    Part part{{}, adjoint};
    while (part.value->op == Expr::select && !part.value->stopped &&
           (is_zero(part.value->args[1]) || is_zero(part.value->args[2]))) {
      bool otherwise = is_zero(part.value->args[1]);
      Term condition = part.value->args[0];
      for (Term one : terms_.conjuncts(otherwise ? terms_.negation(condition) : condition))
        if (std::ranges::find(part.conditions, one) == part.conditions.end())
          part.conditions.push_back(one);
      part.value = part.value->args[otherwise ? 2 : 1];
    }
    return part;
  }
  Term whole(const Part &part) {
    return terms_.select(terms_.all(part.conditions), part.value, terms_.real(0, part.value->type));
  }
  Term sum(const std::vector<Part> &parts) {
    Term all = terms_.real(0, parts[0].value->type);
    for (const Part &part : parts)
      all = terms_.add(all, whole(part));
    return all;
  }

  /// Their sum under what they have in common, and where any of what else they have holds.
  Term under_any(std::vector<Part> parts) {
    std::vector<Term> common;
    for (Term one : parts[0].conditions)
      if (std::ranges::all_of(parts, [&](const Part &part) {
            return std::ranges::find(part.conditions, one) != part.conditions.end();
          }))
        common.push_back(one);
    Term any = terms_.boolean(false);
    for (Part &part : parts) {
      for (Term one : common)
        std::erase(part.conditions, one);
      any = terms_.either(any, terms_.all(part.conditions));
    }
    Term inner = sum(parts);
    return whole({common, terms_.select(any, inner, terms_.real(0, inner->type))});
  }

  void give(Term to, Term adjoint) {
    if (!active_.count(to) || is_zero(adjoint))
      return;
    Part part = split(terms_.convert(adjoint, to->type));
    std::vector<Part> &parts = adjoints_[to];
    auto known = std::ranges::find(parts, part.conditions, &Part::conditions);
    if (known == parts.end())
      parts.push_back(std::move(part));
    else
      known->value = terms_.add(known->value, part.value);
  }

  void hand_on(Term node, Term g) {
    const std::vector<Term> &a = node->args;
    Type type = node->type;
    auto number = [&](double value) { return terms_.real(value, type); };
    auto function = [&](Expr::Op op, Term x) { return terms_.make(op, type, {x}); };
    switch (node->op) {
    case Expr::add:
      give(a[0], g);
      give(a[1], g);
      return;
    case Expr::sub:
      give(a[0], g);
      give(a[1], terms_.negate(g));
      return;
    case Expr::mul:
      if (a[0] == a[1])
        return give(a[0], terms_.mul(g, terms_.mul(number(2), a[0])));
      give(a[0], terms_.mul(g, a[1]));
      give(a[1], terms_.mul(g, a[0]));
      return;
    case Expr::div:
      give(a[0], terms_.div(g, a[1]));
      give(a[1], terms_.negate(terms_.div(terms_.mul(g, node), a[1])));
      return;
    case Expr::mod: // a - b floor(a / b)
      give(a[0], g);
      give(a[1], terms_.negate(terms_.mul(g, function(Expr::floor, terms_.div(a[0], a[1])))));
      return;
    case Expr::negate:
      return give(a[0], terms_.negate(g));
    case Expr::power: {
      bool square = is_number(a[1], 2);
      Term less = square ? a[0] : terms_.make(Expr::power, type, {a[0], terms_.sub(a[1], number(1))});
      if (a[1]->op == Expr::real)
        less = square ? a[0] : terms_.make(Expr::power, type, {a[0], number(a[1]->number - 1)});
      auto compared = [&](Expr::Op op, Term x) { return terms_.make(op, Type::boolean, {x, number(0)}); };
      Term by_base = terms_.mul(g, terms_.mul(a[1], less));
      Term by_exponent = terms_.mul(g, terms_.mul(node, function(Expr::log, a[0])));
      // 0 * x ** -1 and 0 * log(0) are no numbers where x ** 0 and 0 ** y stay as they are.
      if (a[1]->op != Expr::real)
        by_base = terms_.select(compared(Expr::equal, a[1]), number(0), by_base);
      Term stays = terms_.both(compared(Expr::equal, a[0]), compared(Expr::greater_equal, a[1]));
      give(a[0], by_base);
      give(a[1], terms_.select(stays, number(0), by_exponent));
      return;
    }
    case Expr::select:
      give(a[1], terms_.select(a[0], g, number(0)));
      give(a[2], terms_.select(a[0], number(0), g));
      return;
    case Expr::maximum:
    case Expr::minimum: {
      Term first = terms_.make(node->op == Expr::maximum ? Expr::greater_equal : Expr::less_equal, Type::boolean, a);
      give(a[0], terms_.select(first, g, number(0)));
      give(a[1], terms_.select(first, number(0), g));
      return;
    }
    case Expr::absolute: {
      Term below = terms_.make(Expr::less, Type::boolean, {a[0], number(0)});
      Term above = terms_.make(Expr::greater, Type::boolean, {a[0], number(0)});
      return give(a[0], terms_.select(below, terms_.negate(g), terms_.select(above, g, number(0))));
    }
    case Expr::cast:
      return give(a[0], g);
    case Expr::exp:
      return give(a[0], terms_.mul(g, node));
    case Expr::log:
      return give(a[0], terms_.div(g, a[0]));
    case Expr::sqrt:
      return give(a[0], terms_.div(g, terms_.mul(number(2), node)));
    case Expr::sin:
      return give(a[0], terms_.mul(g, function(Expr::cos, a[0])));
    case Expr::cos:
      return give(a[0], terms_.negate(terms_.mul(g, function(Expr::sin, a[0]))));
    case Expr::tanh:
      return give(a[0], terms_.mul(g, terms_.sub(number(1), terms_.mul(node, node))));
    case Expr::erf: {
      Term bell = function(Expr::exp, terms_.negate(terms_.mul(a[0], a[0])));
      return give(a[0], terms_.mul(g, terms_.mul(number(2 / std::sqrt(std::numbers::pi)), bell)));
    }
    default: // floor, floor_div and all that is no real number: 0 wherever there is a derivative
      return;
    }
  }

  Terms &terms_;
  std::vector<Term> order_;
  std::set<Term> active_;
  std::unordered_map<Term, std::vector<Part>> adjoints_;
};

} // namespace

bool depends(Term e, const std::function<bool(const Tensor *)> &active) {
  Terms none;
  return Reverse(none, e, active).varies(e);
}

std::vector<std::pair<Term, Term>> derivative(Terms &terms, Term value, Term seed,
                                              const std::function<bool(const Tensor *)> &active) {
  return Reverse(terms, value, active).run(value, seed);
}

} // namespace heddle::differentiating
