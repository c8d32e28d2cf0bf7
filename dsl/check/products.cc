// Products in proofs. Presburger arithmetic has none, so each product of atoms is a number of its own, of which only
// what follows from bounds is known: if 0 <= f and 0 <= g then 0 <= f * g. With y <= Y - 1 that gives y * X <= Y * X -
// X, and so y * X + x < Y * X.
#include "dsl/check/prover.h"

#include <algorithm>

namespace heddle::checking {

int Prover::monomial(int a, int b) {
  std::vector<int> factors;
  for (int one : {a, b}) {
    const std::vector<int> &own = atoms_[one].factors;
    factors.insert(factors.end(), own.begin(), own.end());
    if (own.empty())
      factors.push_back(one);
  }
  std::sort(factors.begin(), factors.end());
  std::string key = "p";
  for (int factor : factors)
    key += std::to_string(factor) + ",";
  return atom(key, [&](int self) {
    Atom out{Atom::made, "", {{}}, -1, true, factors};
    for (int factor : factors) {
      out.nonnegative &= atoms_[factor].nonnegative;
      out.indices.insert(atoms_[factor].indices.begin(), atoms_[factor].indices.end());
      out.outside.insert(out.outside.end(), atoms_[factor].outside.begin(), atoms_[factor].outside.end());
    }
    if (out.nonnegative)
      out.cases[0].push_back({0, {{self, 1}}});
    for (size_t i = 0; i < 2 && out.nonnegative && factors.size() == 2; ++i) // Y * X <= most of Y * X
      if (const Atom &one = atoms_[factors[i]]; one.kind == Atom::dim && program_.dims[one.number].most)
        out.cases[0].push_back(
            plus(Affine{0, {{factors[1 - i], *program_.dims[one.number].most}}}, {0, {{self, 1}}}, -1));
    return out;
  });
}

Prover::Affine Prover::multiplied(const Affine &a, const Affine &b) {
  Affine sum = plus(times(a, b.constant), b, a.constant);
  sum = plus(sum, {1, {}}, -a.constant * b.constant);
  for (auto [i, f] : a.terms)
    for (auto [j, g] : b.terms) {
      int64_t factor = 0;
      overflow_ |= __builtin_mul_overflow(f, g, &factor);
      sum = plus(sum, {0, {{monomial(i, j), 1}}}, factor);
    }
  return sum;
}

bool Prover::is_nonnegative(const Affine &a) const {
  return a.constant >= 0 && std::all_of(a.terms.begin(), a.terms.end(), [&](const auto &term) {
           return term.second > 0 && atoms_[term.first].nonnegative;
         });
}

std::optional<Prover::Affine> Prover::upper_bound(int number) {
  const Atom atom = atoms_[number];
  if (atom.kind == Atom::dim)
    return Affine{0, {{number, 1}}};
  if (!atom.factors.empty()) {
    Affine out{1, {}};
    for (int factor : atom.factors) {
      auto most = upper_bound(factor);
      if (!most || !atoms_[factor].nonnegative)
        return std::nullopt;
      out = multiplied(out, *most);
    }
    return out;
  }
  if (atom.most)
    return atom.most;
  if (atom.kind == Atom::made || atom.cases.size() != 1)
    return atom.kind == Atom::made ? std::optional(Affine{0, {{number, 1}}}) : std::nullopt;
  for (const Affine &line : atom.cases[0]) // most - atom >= 0
    if (auto own = line.terms.find(number); own != line.terms.end() && own->second == -1)
      return plus(line, {0, {{number, 1}}}, 1);
  return std::nullopt;
}

std::optional<Prover::Affine> Prover::bound(const Affine &a, bool upper) {
  Affine out{a.constant, {}};
  for (auto [number, factor] : a.terms) {
    const Atom &atom = atoms_[number];
    bool fixed = atom.kind == Atom::dim || (atom.kind == Atom::made && atom.factors.empty());
    auto most = fixed ? std::optional(Affine{0, {{number, 1}}}) : upper_bound(number);
    if (!most || (!fixed && !atoms_[number].nonnegative))
      return std::nullopt;
    if (fixed || (factor > 0) == upper)
      out = plus(out, *most, factor);
  }
  return out;
}

std::vector<Prover::Line> Prover::nonnegative_forms(const Affine &a) {
  std::vector<Line> out;
  auto add = [&](const Affine &form, std::vector<Affine> extents = {}) {
    bool known = form.terms.empty() || std::any_of(out.begin(), out.end(), [&](const Line &other) {
                   return !(form < other.value) && !(other.value < form);
                 });
    if (!known)
      out.push_back({form, indices_of(form), std::move(extents), outside_of(form)});
  };
  bool extent = !is_nonnegative(a) && std::any_of(variables_.begin(), variables_.end(), [&](const Variable &v) {
    Affine other = affine(v.extent); // where the index has a value, its extent is not negative
    return !(a < other) && !(other < a);
  });
  if (is_nonnegative(a))
    add(a);
  else if (extent)
    add(a, {a});
  if (auto most = bound(a, true))
    add(plus(*most, a, -1));
  if (auto least = bound(a, false))
    add(plus(a, *least, -1));
  return out;
}

std::optional<Size> Prover::most_of(const Affine &a) const {
  Size sum(std::abs(a.constant));
  for (auto [number, factor] : a.terms) {
    const std::vector<int> &factors = atoms_[number].factors;
    Size product(std::abs(factor));
    for (int one : factors.empty() ? std::vector<int>{number} : factors) {
      if (!atoms_[one].size)
        return std::nullopt;
      product = product * *atoms_[one].size;
    }
    sum = sum + product;
  }
  return sum;
}

std::optional<Prover::Affine> Prover::product(const Affine &a, const Affine &b) {
  constexpr size_t most_terms = 64;
  if (a.terms.size() * b.terms.size() > most_terms)
    return std::nullopt;
  Affine result = multiplied(a, b);
  std::vector<Line> of_b = nonnegative_forms(b);
  for (const Line &f : nonnegative_forms(a))
    for (const Line &g : of_b) {
      Line line{multiplied(f.value, g.value), f.indices, f.extents, f.unless};
      line.unless.insert(line.unless.end(), g.unless.begin(), g.unless.end());
      line.indices.insert(g.indices.begin(), g.indices.end());
      line.extents.insert(line.extents.end(), g.extents.begin(), g.extents.end());
      for (auto [number, factor] : line.value.terms)
        if (!atoms_[number].factors.empty())
          atoms_[number].lines.push_back(line);
    }
  return result;
}

} // namespace heddle::checking
