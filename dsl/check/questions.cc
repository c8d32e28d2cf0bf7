// A question "can e be negative?" becomes "has this system of inequalities a whole-number solution?": the system holds
// e <= -1, the constraints of every atom that e reaches, and the facts that share an atom with those. Disjunctions are
// expanded into cases, up to a budget; beyond it the answer is `unknown`.
#include "dsl/check/prover.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace heddle::checking {
namespace {

constexpr size_t most_columns = 40;
constexpr size_t most_work = 400'000; // rows times columns of all cases: well under a second

} // namespace

/// The system of one question, while what can matter for it is gathered: atoms reached from the goal through
/// constraints that share one.
class Prover::System {
public:
  System(Prover &prover, const Affine &goal, const std::set<int> &indices, const std::vector<Cases> &known)
      : prover_(prover), indices_(indices), known_(known), cases_{{prover.plus({-1, {}}, goal, -1)}} {
    for (const Cases &list : known)
      if (list.size() == 1)
        for (const Affine &line : list[0])
          if (line.terms.size() == 1 && line.terms.begin()->second == 1)
            least_[line.terms.begin()->first] = std::max(least_[line.terms.begin()->first], -line.constant);
    reach(goal);
  }

  /// False where there are too many cases.
  bool gather() {
    std::vector<bool> used(known_.size());
    for (bool grown = true; grown;) {
      grown = false;
      if (!take_atoms())
        return false;
      for (size_t i = 0; i < known_.size(); ++i)
        if (!used[i] && touches(known_[i])) {
          used[i] = grown = true;
          take(known_[i]); // without it (too many cases) we know less, which is safe
        }
    }
    return true;
  }

  const Cases &cases() const { return cases_; }
  const std::set<int> &reached() const { return reached_; }

private:
  void reach(const Affine &a) {
    for (auto [atom, factor] : a.terms)
      if (reached_.insert(atom).second)
        todo_.push_back(atom);
  }

  bool take(const Cases &more) {
    for (const Conjunction &c : more)
      for (const Affine &a : c)
        reach(a);
    if (cases_.size() * more.size() > most_cases)
      return false;
    cases_ = both(cases_, more);
    return true;
  }

  /// The constraints of all atoms that are reached.
  bool take_atoms() {
    while (!todo_.empty()) {
      int next = todo_.back();
      todo_.pop_back();
      if (!take(Cases(prover_.atoms_[next].cases)))
        return false;
      for (const Line &line : std::vector<Line>(prover_.atoms_[next].lines))
        if (prover_.has_values(line, indices_)) {
          Cases holds{{line.value}};
          holds.insert(holds.end(), line.unless.begin(), line.unless.end());
          take(holds);
        }
      take_product(next);
      for (int factor : prover_.atoms_[next].factors)
        if (reached_.insert(factor).second)
          todo_.push_back(factor);
    }
    return true;
  }

  /// Of two numbers that are at least p and q: (a - p) * (b - q) >= 0.
  void take_product(int number) {
    const std::vector<int> &factors = prover_.atoms_[number].factors;
    if (factors.size() != 2 || !prover_.atoms_[number].nonnegative ||
        (!least_.count(factors[0]) && !least_.count(factors[1])))
      return;
    auto less = [&](int atom) {
      auto found = least_.find(atom);
      return Affine{found == least_.end() ? 0 : -found->second, {{atom, 1}}};
    };
    take({{prover_.multiplied(less(factors[0]), less(factors[1]))}});
  }

  bool touches(const Cases &list) const {
    for (const Conjunction &c : list)
      for (const Affine &a : c) {
        if (a.terms.empty() && a.constant < 0)
          return true; // a condition that can't hold, such as `i - i < 0`, proves anything
        for (auto [atom, factor] : a.terms)
          if (reached_.count(atom))
            return true;
      }
    return list.empty();
  }

  Prover &prover_;
  const std::set<int> &indices_;
  const std::vector<Cases> &known_;
  Cases cases_;
  std::set<int> reached_;
  std::vector<int> todo_;
  std::map<int, int64_t> least_; // of atoms that a fact bounds from below
};

std::set<int> Prover::mentioned(const Affine &goal) const {
  std::set<int> found;
  std::function<void(const Affine &)> mention = [&](const Affine &a) {
    for (auto [atom, factor] : a.terms)
      if (found.insert(atom).second && !atoms_[atom].factors.empty())
        found.insert(atoms_[atom].factors.begin(), atoms_[atom].factors.end());
      else if (found.insert(-1 - atom).second && atoms_[atom].kind == Atom::made)
        for (const Conjunction &definition : atoms_[atom].cases)
          for (const Affine &line : definition)
            mention(line);
  };
  mention(goal);
  return found;
}

Prover::Outcome Prover::counterexample(const Affine &goal, const std::vector<int> &columns,
                                       const std::vector<int64_t> &point) {
  if (llvm::any_of(columns, [&](int column) { return atoms_[column].kind == Atom::opaque; }))
    return {Outcome::unknown, {}}; // an example of what nobody can choose says nothing
  std::map<int, int64_t> at;
  for (size_t i = 0; i < point.size(); ++i)
    at[columns[i]] = point[i];
  for (int column : columns) { // of products only bounds are known: an example may be none
    int64_t value = 1;
    for (int factor : atoms_[column].factors)
      overflow_ |= __builtin_mul_overflow(value, at.count(factor) ? at[factor] : 0, &value);
    if (!atoms_[column].factors.empty() && value != at[column])
      return {Outcome::unknown, {}};
  }
  Outcome outcome{Outcome::refuted, {}};
  std::set<int> named = mentioned(goal);
  for (int column : columns) // what is none has any value: only the size that is 0 says why
    if (const Atom &atom = atoms_[column]; atom.some && goal.terms.count(column)) {
      std::set<int> dims;
      int64_t some = 0;
      Affine size = affine(*atom.some);
      for (auto [term, factor] : size.terms) {
        some += at.count(term) ? factor * at[term] : 0;
        dims.insert(term);
      }
      if (some + size.constant <= 0) {
        outcome.none = {atom.name, *atom.some};
        named = std::move(dims);
        break;
      }
    }
  outcome.value = goal.constant;
  for (size_t i = columns.size(); i-- > 0 && !point.empty();) {
    auto term = goal.terms.find(columns[i]);
    if (term != goal.terms.end())
      outcome.value += term->second * point[i];
    if (named.count(columns[i]) && atoms_[columns[i]].kind != Atom::made) {
      const Atom &atom = atoms_[columns[i]];
      int64_t first = atom.kind == Atom::variable ? variables_[atom.number].first : 0;
      outcome.example.emplace_back(atom.name, point[i] + first);
    }
  }
  return outcome;
}

Prover::Outcome Prover::nonnegative(const Expr *e, const std::vector<Fact> &always, const std::vector<Fact> &around) {
  auto goal = affine(e);
  if (!goal)
    return {Outcome::unknown, {}};
  // An index has a value, so that its range is not empty, where it is spoken of or in an iteration of its loop.
  std::set<int> indices = indices_of(e);
  for (const LoopIndex &loop : loops_)
    indices.insert(-1 - loop.id);
  for (const Fact &fact : around)
    indices.insert(indices_of(fact.condition).begin(), indices_of(fact.condition).end());
  std::vector<Cases> known;
  for (const std::vector<Fact> *facts : {&always, &around})
    for (const Fact &fact : *facts) {
      const std::set<int> &own = indices_of(fact.condition);
      if (std::includes(indices.begin(), indices.end(), own.begin(), own.end()))
        known.push_back(condition(fact.condition, fact.holds));
    }
  System system(*this, *goal, indices, known);
  if (!system.gather())
    return {Outcome::unknown, {}};
  std::vector<int> columns(system.reached().begin(), system.reached().end());
  if (columns.size() > most_columns || overflow_)
    return {Outcome::unknown, {}};
  size_t work = 0;
  for (const Conjunction &c : system.cases())
    work += c.size() * columns.size();
  if (work > most_work)
    return {Outcome::unknown, {}};
  // Dims first: a counterexample is the least solution in this order, so its sizes are as small as can be.
  std::sort(columns.begin(), columns.end(),
            [&](int a, int b) { return std::pair(atoms_[a].kind, a) < std::pair(atoms_[b].kind, b); });
  for (const Conjunction &c : system.cases())
    if (Solution solution = solve(c, columns); !solution.empty)
      return solution.point.size() == columns.size() ? counterexample(*goal, columns, solution.point)
                                                     : Outcome{Outcome::unknown, {}};
  return {Outcome::proven, {}};
}

} // namespace heddle::checking
