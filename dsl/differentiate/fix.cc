#include "dsl/differentiate/fix.h"

#include <cstdlib>
#include <numeric>

namespace heddle::differentiating {
namespace {

Term compare(Terms &terms, Expr::Op op, Term a, Term b) { return terms.make(op, Type::boolean, {a, b}); }

/// a b == 1 modulo c, of an `a` that has no divisor in common with it.
int64_t inverse(int64_t a, int64_t c) {
  int64_t b = 1;
  while ((((a * b) % c) + c) % c != 1 % c)
    ++b;
  return b;
}

/// Whether a sum over `a` has more terms than one over `b`, as far as that can be told: run-time sizes before
/// constants.
bool is_longer(const Variable &a, const Variable &b) {
  if (!a.extent.is_constant() || !b.extent.is_constant())
    return !a.extent.is_constant() && b.extent.is_constant();
  return a.extent.constant() > b.extent.constant();
}

/// e % c == k for an index v in e: v = c w + rest, where rest is what k and the other terms of e leave.
std::optional<Fixed> fixed_by_remainder(Terms &terms, Whole &whole, const Polynomial &p,
                                        const std::vector<int> &variables) {
  for (const auto &[monomial, sign] : p) {
    Term atom = monomial.size() == 1 ? whole.atom(monomial[0]) : nullptr;
    if (!atom || atom->op != Expr::mod || (sign != 1 && sign != -1))
      continue;
    auto c = constant_of(whole.of(atom->args[1]));
    if (!c || *c < 2 || *c > 1024)
      continue;
    Polynomial k = times(plus(p, {{monomial, sign}}, -1), -sign), e = whole.of(atom->args[0]);
    for (int v : variables) {
      auto line = whole.linear(e, terms.index(v));
      auto a = constant_of(line.factor);
      if (!a || std::gcd(*a, *c) != 1 || whole.mentions(line.rest, v) || whole.mentions(k, v))
        continue;
      const Size &extent = terms.variable(v).extent;
      Polynomial rest = times(plus(k, line.rest, -1), inverse(*a, *c));
      Polynomial low =
          whole.of(whole.simplified(terms.make(Expr::mod, Type::i32, {whole.term(rest), terms.integer(*c)})));
      Size count = (extent + Size(*c - 1)).floor_div(*c);
      Fixed fixed{v, nullptr, {}, {}};
      if (count != Size(1)) {
        fixed.instead = terms.new_variable(terms.variable(v).name, count);
        low = plus(low, times(whole.of(terms.index(*fixed.instead)), *c));
      }
      fixed.value = whole.term(low);
      fixed.guards = {compare(terms, Expr::less, fixed.value, terms.size(extent)),
                      compare(terms, Expr::less_equal, terms.integer(0), whole.term(k)),
                      compare(terms, Expr::less, whole.term(k), terms.integer(*c))};
      return fixed;
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<Fixed> fixed_by(Terms &terms, Whole &whole, Term condition, const std::vector<int> &variables) {
  if (condition->op != Expr::equal || condition->args[0]->type != Type::i32)
    return std::nullopt;
  for (Term node : nodes_of(condition))
    for (int v : variables)
      if (node->op == Expr::read && terms.variables(node).count(v) && !whole.below.count(node->tensor))
        return std::nullopt;
  Polynomial p = plus(whole.of(condition->args[0]), whole.of(condition->args[1]), -1);
  std::optional<int> chosen;
  for (int v : variables) {
    auto line = whole.linear(p, terms.index(v));
    auto c = constant_of(line.factor);
    if (c && *c != 0 && !whole.mentions(line.rest, v) &&
        (!chosen || is_longer(terms.variable(v), terms.variable(*chosen))))
      chosen = v;
  }
  if (!chosen)
    return fixed_by_remainder(terms, whole, p, variables);
  auto line = whole.linear(p, terms.index(*chosen));
  int64_t c = constant_of(line.factor).value(), by = std::abs(c);
  Term value = whole.term(times(line.rest, c > 0 ? -1 : 1)), extent = terms.size(terms.variable(*chosen).extent);
  Fixed fixed{*chosen, value, {}, {}};
  if (by > 1) {
    fixed.value = terms.make(Expr::floor_div, Type::i32, {value, terms.integer(by)});
    fixed.guards.push_back(
        compare(terms, Expr::equal, terms.make(Expr::mod, Type::i32, {value, terms.integer(by)}), terms.integer(0)));
  }
  fixed.guards.push_back(compare(terms, Expr::less_equal, terms.integer(0), fixed.value));
  fixed.guards.push_back(compare(terms, Expr::less, fixed.value, extent));
  return fixed;
}

} // namespace heddle::differentiating
