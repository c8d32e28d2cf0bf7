#include "dsl/differentiate/whole.h"

#include <algorithm>

namespace heddle::differentiating {
namespace {

constexpr int deepest = 12; // of eliminations in a proof; subscripts have a handful of indices

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

} // namespace

Polynomial plus(const Polynomial &a, const Polynomial &b, int64_t factor) {
  Polynomial sum = a;
  for (const auto &[monomial, f] : b) {
    int64_t &to = sum[monomial];
    to += f * factor;
    if (to == 0)
      sum.erase(monomial);
  }
  return sum;
}

Polynomial times(const Polynomial &a, int64_t factor) { return plus({}, a, factor); }

Polynomial times(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  for (const auto &[m, f] : a)
    for (const auto &[n, g] : b) {
      Monomial both = m;
      both.insert(both.end(), n.begin(), n.end());
      std::sort(both.begin(), both.end());
      product = plus(product, {{both, f * g}});
    }
  return product;
}

std::optional<int64_t> constant_of(const Polynomial &p) {
  if (p.empty())
    return 0;
  return p.size() == 1 && p.begin()->first.empty() ? std::optional(p.begin()->second) : std::nullopt;
}

Division divide(const Polynomial &p, const Polynomial &divisor) {
  const auto &[by, factor] = *divisor.begin();
  Division result;
  for (const auto &[monomial, f] : p) {
    Monomial left = monomial;
    bool divides = true;
    for (int atom : by) {
      auto at = std::find(left.begin(), left.end(), atom);
      divides = at != left.end();
      if (!divides)
        break;
      left.erase(at);
    }
    int64_t q = divides ? floor_quotient(f, factor) : 0, r = f - q * factor;
    if (divides && !by.empty() && r != 0)
      q = 0, r = f; // x y // (2 x) of an odd number of y is no whole number of them
    if (q != 0)
      result.quotient = plus(result.quotient, {{left, q}});
    if (r != 0)
      result.rest = plus(result.rest, {{monomial, r}});
  }
  return result;
}

int Whole::number(Term atom) {
  auto [at, is_new] = numbers_.try_emplace(atom, int(atoms_.size()));
  if (is_new)
    atoms_.push_back(atom);
  return at->second;
}

Polynomial Whole::of_product(const Size::Atom &atom) {
  Polynomial product{{{}, 1}};
  for (const Size::Atom &factor : atom.factors)
    product = times(product, of(Size::of_atom(factor)));
  return product;
}

Polynomial Whole::of(const Size &size) {
  Polynomial sum;
  if (size.constant() != 0)
    sum[{}] = size.constant();
  for (const Size::Term &term : size.terms()) {
    Polynomial one = term.atom.kind == Size::Atom::product
                         ? of_product(term.atom)
                         : Polynomial{{{number(terms_.size(Size::of_atom(term.atom)))}, 1}};
    sum = plus(sum, one, term.factor);
  }
  return sum;
}

Polynomial Whole::of(Term e) {
  switch (e->op) {
  case Expr::integer:
    return e->whole == 0 ? Polynomial{} : Polynomial{{{}, e->whole}};
  case Expr::size:
    return of(e->extent);
  case Expr::add:
    return plus(of(e->args[0]), of(e->args[1]));
  case Expr::sub:
    return plus(of(e->args[0]), of(e->args[1]), -1);
  case Expr::negate:
    return times(of(e->args[0]), -1);
  case Expr::mul:
    return times(of(e->args[0]), of(e->args[1]));
  default:
    return {{{number(e)}, 1}};
  }
}

std::optional<Size> Whole::size(const Polynomial &p) {
  Size sum;
  for (const auto &[monomial, factor] : p) {
    Size product(factor);
    for (int atom : monomial) {
      if (atoms_[atom]->op != Expr::size)
        return std::nullopt;
      product = product * atoms_[atom]->extent;
    }
    sum = sum + product;
  }
  return sum;
}

Term Whole::term(const Polynomial &p) {
  // Sizes of a monomial, and monomials of sizes, are one size each.
  Size sizes;
  std::vector<std::pair<Term, Size>> parts; // of the others: the product of what is no size, and its factor
  for (const auto &[monomial, factor] : p) {
    Size own(factor);
    Term rest = nullptr;
    for (int atom : monomial)
      if (atoms_[atom]->op == Expr::size)
        own = own * atoms_[atom]->extent;
      else
        rest = rest ? terms_.make(Expr::mul, Type::i32, {rest, atoms_[atom]}) : atoms_[atom];
    if (!rest) {
      sizes = sizes + own;
      continue;
    }
    auto same = std::find_if(parts.begin(), parts.end(), [&](const auto &part) { return part.first == rest; });
    if (same == parts.end())
      parts.emplace_back(rest, own);
    else
      same->second = same->second + own;
  }
  Term sum = nullptr;
  auto is_negative = [](const Size &s) { return s.is_constant() ? s.constant() < 0 : s.terms()[0].factor < 0; };
  std::erase_if(parts, [](const auto &part) { return part.second == Size(0); });
  std::vector<std::pair<Term, Size>> negatives; // after the others: S - i, not -i + S
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(negatives),
               [&](const auto &p) { return is_negative(p.second); });
  std::erase_if(parts, [&](const auto &part) { return is_negative(part.second); });
  parts.insert(parts.end(), negatives.begin(), negatives.end());
  auto append = [&](Term one, bool negative) {
    if (!sum)
      sum = negative ? terms_.make(Expr::negate, Type::i32, {one}) : one;
    else
      sum = terms_.make(negative ? Expr::sub : Expr::add, Type::i32, {sum, one});
  };
  bool leads = !parts.empty() && is_negative(parts[0].second) && !sizes.is_constant();
  if (leads)
    append(terms_.size(sizes), false);
  for (auto &[rest, factor] : parts) {
    bool negative = is_negative(factor);
    Size size = negative ? factor * -1 : factor;
    append(size == Size(1) ? rest : terms_.make(Expr::mul, Type::i32, {rest, terms_.size(size)}), negative);
  }
  if (!leads && !(sizes == Size(0) && sum)) {
    bool negative = sum && is_negative(sizes);
    append(terms_.size(negative ? sizes * -1 : sizes), negative);
  }
  return sum;
}

Whole::Linear Whole::linear(const Polynomial &p, Term atom) {
  Linear result;
  int own = number(atom);
  for (const auto &[monomial, factor] : p) {
    auto at = std::find(monomial.begin(), monomial.end(), own);
    if (at == monomial.end()) {
      result.rest[monomial] = factor;
      continue;
    }
    Monomial left = monomial;
    left.erase(left.begin() + (at - monomial.begin()));
    result.factor[left] = factor;
  }
  return result;
}

bool Whole::mentions(const Polynomial &p, int variable) {
  for (const auto &[monomial, factor] : p)
    for (int atom : monomial)
      if (terms_.variables(atoms_[atom]).count(variable))
        return true;
  return false;
}

// ------------------------------------------------------------------------------ signs

void Whole::live(const std::vector<int> &variables) {
  at_least_one_.clear();
  auto note = [&](const Size &extent) { // a product that is 1 at least has such factors only
    if (extent.constant() != 0 || extent.terms().size() != 1 || extent.terms()[0].factor < 0)
      return;
    const Size::Atom &atom = extent.terms()[0].atom;
    if (atom.kind == Size::Atom::dim)
      at_least_one_.insert(number(terms_.size(Size::of_atom(atom))));
    for (const Size::Atom &factor : atom.factors)
      at_least_one_.insert(number(terms_.size(Size::of_atom(factor))));
  };
  for (int v : variables)
    note(terms_.variable(v).extent);
  for (const Size &extent : loops_)
    note(extent);
}

void Whole::in_loops(std::vector<Size> extents) {
  loops_ = std::move(extents);
  live({});
}

std::optional<Size> Whole::extent_of(Term e) const {
  if (e->op == Expr::index)
    return terms_.variable(e->position).extent;
  if (e->op == Expr::loop_index && size_t(e->position) < loops_.size())
    return loops_[e->position];
  if (e->op == Expr::read)
    if (auto known = below.find(e->tensor); known != below.end())
      return known->second;
  return std::nullopt;
}

bool Whole::nonnegative_atom(Term e) {
  switch (e->op) {
  case Expr::index:
  case Expr::loop_index:
    return true;
  case Expr::size: { // a dim, or floor(n / c) or a remainder of sizes
    const Size::Atom &atom = e->extent.terms()[0].atom;
    return atom.kind != Size::Atom::floor_div || nonnegative(of(*atom.inner), 8);
  }
  case Expr::mod:
    return e->args[1]->op != Expr::integer || e->args[1]->whole > 0;
  case Expr::floor_div:
    return nonnegative(of(e->args[0]), 8) && nonnegative(of(e->args[1]), 8);
  case Expr::read:
    return nonnegative_tensors.count(e->tensor) > 0;
  default:
    return false;
  }
}

bool Whole::nonnegative(const Polynomial &p, int depth) {
  std::vector<int> atoms;
  bool plain = true;
  for (const auto &[monomial, factor] : p) {
    plain &= factor >= 0;
    for (int atom : monomial)
      if (std::find(atoms.begin(), atoms.end(), atom) == atoms.end())
        atoms.push_back(atom);
  }
  if (plain && std::all_of(atoms.begin(), atoms.end(), [&](int atom) { return nonnegative_atom(atoms_[atom]); }))
    return true;
  if (depth > deepest)
    return false;
  std::sort(atoms.begin(), atoms.end(), [&](int a, int b) {
    return std::pair(atoms_[a]->op != Expr::index, a) < std::pair(atoms_[b]->op != Expr::index, b);
  });
  for (int n : atoms) {
    Term e = atoms_[n];
    Linear line = linear(p, e);
    auto holds_it = [&](const auto &term) { return std::count(term.first.begin(), term.first.end(), n) > 0; };
    if (std::any_of(line.factor.begin(), line.factor.end(), holds_it))
      continue;
    if (auto extent = extent_of(e)) {
      bool inner = std::any_of(atoms.begin(), atoms.end(), [&](int other) { // floor(i / 2) moves with i
        if (other == n)
          return false;
        if (e->op == Expr::index)
          return terms_.variables(atoms_[other]).count(e->position) > 0;
        std::vector<Term> all = nodes_of(atoms_[other]);
        return std::find(all.begin(), all.end(), e) != all.end();
      });
      if (inner)
        continue;
      if (nonnegative(line.factor, depth + 4))
        return nonnegative(line.rest, depth + 1);
      if (nonnegative(times(line.factor, -1), depth + 4))
        return nonnegative(plus(times(line.factor, of(*extent - Size(1))), line.rest), depth + 1);
      continue;
    }
    auto k = constant_of(line.factor);
    if (!k || (e->op != Expr::mod && e->op != Expr::floor_div))
      continue;
    Polynomial divisor = of(e->args[1]);
    if (e->op == Expr::mod) // at least 0, less than the divisor
      return nonnegative(*k > 0 ? line.rest : plus(line.rest, plus(divisor, {{{}, -1}}), *k), depth + 1);
    auto by = constant_of(divisor);
    if (!by || *by <= 0)
      continue;
    // a // c >= m exactly when a >= c m, and a // c <= m exactly when a <= c m + c - 1; a multiple of it is bounded by
    // c (a // c) >= a - c + 1.
    int64_t slack = *k == -1 ? *by - 1 : *k > 1 ? -*k * (*by - 1) : 0;
    return nonnegative(plus(plus(times(line.rest, *by), of(e->args[0]), *k), {{{}, slack}}), depth + 1);
  }
  for (int n : atoms)
    if (at_least_one_.count(n)) {
      Linear line = linear(p, atoms_[n]);
      bool grows = std::all_of(line.factor.begin(), line.factor.end(), [&](const auto &term) {
        return term.second >= 0 && !std::count(term.first.begin(), term.first.end(), n);
      });
      if (grows)
        return nonnegative(plus(line.rest, line.factor), depth + 1);
    }
  return false;
}

// ------------------------------------------------------------------------------ simpler expressions

/// k (a % c) + k c (a // c) is k a.
Polynomial Whole::rejoined(Polynomial p) {
  for (const auto &[monomial, k] : p)
    for (int n : monomial) {
      Term e = atoms_[n];
      if (e->op != Expr::mod)
        continue;
      Monomial left = monomial;
      left.erase(std::find(left.begin(), left.end(), n));
      Polynomial quotient = of(terms_.make(Expr::floor_div, Type::i32, e->args));
      Polynomial want = times({{left, k}}, times(of(e->args[1]), quotient));
      bool has = std::all_of(want.begin(), want.end(), [&](const auto &term) {
        auto found = p.find(term.first);
        return found != p.end() && found->second == term.second;
      });
      if (has)
        return rejoined(plus(plus(plus(p, want, -1), {{monomial, -k}}), times({{left, k}}, of(e->args[0]))));
    }
  return p;
}

Term Whole::simple_quotient(Term e) {
  Polynomial a = of(e->args[0]), divisor = of(e->args[1]);
  if (divisor.size() != 1 || divisor.begin()->second <= 0)
    return e;
  auto [quotient, rest] = divide(a, divisor);
  bool whole = e->op == Expr::floor_div;
  if (nonnegative(rest) && nonnegative(plus(plus(divisor, rest, -1), {{{}, -1}})))
    return term(whole ? quotient : rest);
  if (quotient.empty())
    return e;
  Term of_rest = terms_.make(e->op, Type::i32, {term(rest), e->args[1]});
  return whole ? term(plus(quotient, of(of_rest))) : of_rest;
}

Term Whole::simple_comparison(Term e) {
  Polynomial up = plus(of(e->args[1]), of(e->args[0]), -1); // the right side less the left one
  Polynomial down = times(up, -1), one{{{}, -1}};
  auto sure = [&](const Polynomial &holds, const Polynomial &fails) -> Term {
    if (nonnegative(holds))
      return terms_.boolean(true);
    return nonnegative(fails) ? terms_.boolean(false) : e;
  };
  switch (e->op) {
  case Expr::less:
    return sure(plus(up, one), down);
  case Expr::less_equal:
    return sure(up, plus(down, one));
  case Expr::greater:
    return sure(plus(down, one), up);
  case Expr::greater_equal:
    return sure(down, plus(up, one));
  default: {
    bool equal = up.empty() || (nonnegative(up) && nonnegative(down));
    bool differ = !equal && (nonnegative(plus(up, one)) || nonnegative(plus(down, one)));
    return equal || differ ? terms_.boolean(equal == (e->op == Expr::equal)) : e;
  }
  }
}

Term Whole::simple(Term e, std::unordered_map<Term, Term> &done) {
  if (auto known = done.find(e); known != done.end())
    return known->second;
  std::vector<Term> args;
  for (Term arg : e->args)
    args.push_back(simple(arg, done));
  Term result = terms_.with_args(e, std::move(args));
  bool whole = result->type == Type::i32 && !result->stopped;
  if (whole && (result->op == Expr::add || result->op == Expr::sub || result->op == Expr::mul ||
                result->op == Expr::negate || result->op == Expr::size))
    result = term(rejoined(of(result)));
  else if (whole && (result->op == Expr::floor_div || result->op == Expr::mod))
    result = simple_quotient(result);
  else if (is_comparison(result->op) && result->args[0]->type == Type::i32)
    result = simple_comparison(result);
  return done[e] = result;
}

Term Whole::simplified(Term e) {
  std::unordered_map<Term, Term> done;
  return simple(e, done);
}

} // namespace heddle::differentiating
