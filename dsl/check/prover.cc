// What expressions and conditions say, as linear forms over atoms and their constraints; and systems of these, solved.
// questions.cc asks.
#include "dsl/check/prover.h"

#include "mlir/Analysis/Presburger/IntegerRelation.h"

#include <algorithm>

namespace heddle::checking {

/// A condition on an element may speak of another one, which has its condition, and so on: no further than that.
constexpr int most_depth = 4;

Prover::Affine Prover::plus(const Affine &a, const Affine &b, int64_t factor) {
  Affine sum = a;
  auto accumulate = [&](int64_t &to, int64_t value) {
    int64_t product = 0;
    overflow_ |= __builtin_mul_overflow(value, factor, &product) || __builtin_add_overflow(to, product, &to);
  };
  accumulate(sum.constant, b.constant);
  for (auto [atom, f] : b.terms) {
    accumulate(sum.terms[atom], f);
    if (sum.terms[atom] == 0)
      sum.terms.erase(atom);
  }
  return sum;
}

Prover::Affine Prover::times(const Affine &a, int64_t factor) { return plus({}, a, factor); }

std::string Prover::key(const Affine &a) const {
  std::string text = std::to_string(a.constant);
  for (auto [atom, factor] : a.terms)
    text += "+" + std::to_string(factor) + "a" + std::to_string(atom);
  return text;
}

int Prover::atom(const std::string &key, const std::function<Atom(int)> &make) {
  auto found = atom_numbers_.find(key);
  if (found != atom_numbers_.end())
    return found->second;
  int number = atoms_.size();
  atom_numbers_[key] = number;
  atoms_.push_back({Atom::made, key, {{}}});
  Atom made = make(number);
  atoms_[number] = std::move(made);
  return number;
}

void Prover::conditions_change() {
  known_.clear();
  atom_numbers_.clear();
  atoms_.clear();
}

Prover::Affine Prover::quotient(const Affine &a, int64_t divisor) {
  int q = atom("q" + key(a) + "/" + std::to_string(divisor), [&](int self) {
    Affine rest = plus(a, {0, {{self, 1}}}, -divisor); // 0 <= a - c * q <= c - 1
    Affine room = plus({divisor - 1, {}}, rest, -1);
    return Atom{Atom::made, "", {{rest, room}}, -1, is_nonnegative(a), {}, {}, indices_of(a), {}, outside_of(a)};
  });
  return {0, {{q, 1}}};
}

Prover::Affine Prover::affine(const Size &size) {
  Affine sum{size.constant(), {}};
  for (const auto &[a, factor] : size.terms()) {
    if (a.kind == Size::Atom::dim) {
      int number = a.dim_index;
      int d = atom("d" + std::to_string(number), [&](int self) {
        Conjunction bounds{{0, {{self, 1}}}};
        if (auto most = program_.dims[number].most)
          bounds.push_back({*most, {{self, -1}}});
        return Atom{Atom::dim, program_.dims[number].name, {bounds}, number, true, {}, Size::of_dim(number)};
      });
      sum = plus(sum, {0, {{d, 1}}}, factor);
      continue;
    }
    if (a.kind == Size::Atom::product) {
      Affine all{1, {}};
      for (const Size::Atom &one : a.factors)
        all = multiplied(all, affine(Size::of_atom(one)));
      sum = plus(sum, all, factor);
      continue;
    }
    Affine inner = affine(*a.inner), q = quotient(inner, a.divisor);
    atoms_[q.terms.begin()->first].size = Size::of_atom(a);
    sum = plus(sum, a.kind == Size::Atom::floor_div ? q : plus(inner, q, -a.divisor), factor);
  }
  return sum;
}

std::optional<Prover::Affine> Prover::affine(const Expr *e) {
  if (auto found = known_.find(e); found != known_.end())
    return found->second;
  std::optional<Affine> sum = new_affine(e);
  if (!sum && is_integer(e->type)) { // of i32(x) only what conditions say of it is known
    std::string key = "o" + std::to_string(reinterpret_cast<uintptr_t>(e));
    auto make = [&](int) { return Atom{Atom::opaque, "", {{}}, -1, false, {}, {}, indices_of(e)}; };
    sum = Affine{0, {{atom(key, make), 1}}};
  }
  return known_[e] = sum;
}

std::optional<Prover::Affine> Prover::new_affine(const Expr *e) {
  auto ranged = [&](Atom::Kind kind, const std::string &key, const std::string &name, const Size &extent, int number,
                    std::set<int> indices) {
    Affine most = plus(affine(extent), {1, {}}, -1);
    int n = atom(key, [&](int self) {
      Conjunction range{{0, {{self, 1}}}, plus(most, {0, {{self, 1}}}, -1)};
      return Atom{kind, name, {range}, number, true, {}, extent, std::move(indices)};
    });
    return Affine{0, {{n, 1}}};
  };
  switch (e->op) {
  case Expr::integer:
    return Affine{e->whole, {}};
  case Expr::size:
    return affine(e->extent);
  case Expr::index: {
    auto variable = [&](int number) {
      const Variable &v = variables_[number];
      return ranged(Atom::variable, "v" + std::to_string(number), v.name, v.extent, number, index_set(number));
    };
    std::optional<Affine> merged = Affine{};
    const std::vector<int> &pieces = variables_[e->position].pieces;
    for (int piece : pieces) {
      Affine own = variable(piece);
      merged = product(*merged, affine(variables_[piece].extent));
      if (!merged)
        return std::nullopt;
      merged = plus(*merged, own, 1);
    }
    return pieces.empty() ? variable(e->position) : merged;
  }
  case Expr::loop_index: {
    const LoopIndex &loop = loops_[e->position];
    return ranged(Atom::loop, "l" + std::to_string(loop.id), loop.name, loop.extent, -1, indices_of(e));
  }
  case Expr::read: {
    std::string name = "r" + std::to_string(reinterpret_cast<uintptr_t>(e->tensor));
    for (const Expr *arg : e->args) {
      auto a = affine(arg);
      if (!a)
        return std::nullopt;
      name += "," + key(*a);
    }
    bool asks = depth_ < most_depth;
    name += std::string(e->always_inside ? "" : "?") + (asks ? "" : "#");
    int number = atom(name, [&](int self) {
      std::vector<const Expr *> known = asks ? known_of_(e) : std::vector<const Expr *>();
      Atom value{Atom::value, text_(e), {{}}, -1, false, {}, {}, indices_of(e)};
      Affine own{0, {{self, 1}}};
      auto below = below_(e->tensor);
      if (below) {
        Affine end = affine(below->below);
        value.most = plus(end, {1, {}}, -1);
        value.cases = {{own, plus(*value.most, own, -1)}};
        value.nonnegative = true;
        if (below->if_any && !(end.terms.empty() && end.constant > 0)) {
          value.outside = {{times(end, -1)}};
          value.some = below->below;
          value.cases.push_back({times(end, -1)});
        }
      }
      known_[e] = own; // the conditions speak of this element
      ++depth_;
      for (const Expr *each : known)
        value.cases = both(value.cases, condition(each, true));
      --depth_;
      if (!e->always_inside && (below || !known.empty())) // of what lies outside nothing is known
        for (size_t axis = 0; axis < e->args.size(); ++axis) {
          Affine at = *affine(e->args[axis]), past = plus(at, affine(e->tensor->shape[axis]), -1);
          for (const Affine &miss : {plus({-1, {}}, at, -1), past}) {
            value.outside.push_back({miss});
            value.cases.push_back({miss});
          }
        }
      return value;
    });
    return Affine{0, {{number, 1}}};
  }
  case Expr::minimum:
  case Expr::maximum:
  case Expr::select: {
    bool select = e->op == Expr::select, minimum = e->op == Expr::minimum;
    auto a = affine(e->args[select ? 1 : 0]), b = affine(e->args[select ? 2 : 1]);
    if (!a || !b || !is_integer(e->type))
      return std::nullopt;
    Cases first = select ? condition(e->args[0], true) : Cases{{minimum ? plus(*b, *a, -1) : plus(*a, *b, -1)}};
    Cases second = select ? condition(e->args[0], false) : Cases{{minimum ? plus(*a, *b, -1) : plus(*b, *a, -1)}};
    std::string name = "m" + std::to_string(reinterpret_cast<uintptr_t>(e));
    int m = atom(name, [&](int self) {
      Cases cases;
      for (auto [list, value] : {std::pair(&first, &*a), std::pair(&second, &*b)})
        for (Conjunction c : *list) {
          c.push_back(plus(*value, {0, {{self, 1}}}, -1)); // self == value
          c.push_back(times(c.back(), -1));
          cases.push_back(std::move(c));
        }
      return Atom{Atom::made, "", cases, -1, false, {}, {}, indices_of(e)};
    });
    return Affine{0, {{m, 1}}};
  }
  case Expr::negate: {
    auto a = affine(e->args[0]);
    return a ? std::optional(times(*a, -1)) : std::nullopt;
  }
  case Expr::cast: // a narrow whole number widened is the same number
    return e->type == Type::i32 && e->args[0]->type == Type::i8 ? affine(e->args[0]) : std::nullopt;
  case Expr::add:
  case Expr::sub:
  case Expr::mul:
  case Expr::floor_div:
  case Expr::mod:
    break;
  default:
    return std::nullopt;
  }
  if (!is_integer(e->type))
    return std::nullopt;
  auto a = affine(e->args[0]), b = affine(e->args[1]);
  if (!a || !b)
    return std::nullopt;
  if (e->op == Expr::add || e->op == Expr::sub)
    return plus(*a, *b, e->op == Expr::add ? 1 : -1);
  if (e->op == Expr::mul) {
    if (b->terms.empty())
      return times(*a, b->constant);
    if (a->terms.empty())
      return times(*b, a->constant);
    // Whole numbers have 32 bits: of a product of what only the data tell, or of two indices, nothing is known.
    bool by_size = e->args[0]->op == Expr::size || e->args[1]->op == Expr::size;
    auto most_a = most_of(*a), most_b = most_of(*b);
    if (!by_size || !most_a || !most_b)
      return std::nullopt;
    products_.insert(*most_a * *most_b);
    return product(*a, *b);
  }
  if (!b->terms.empty() || b->constant <= 0)
    return std::nullopt;
  Affine q = quotient(*a, b->constant);
  return e->op == Expr::floor_div ? q : plus(*a, q, -b->constant);
}

Prover::Cases Prover::both(const Cases &a, const Cases &b) {
  if (a.size() * b.size() > most_cases)
    return a.size() < b.size() ? a : b; // knowing less is safe
  Cases product;
  for (const Conjunction &x : a)
    for (const Conjunction &y : b) {
      product.push_back(x);
      product.back().insert(product.back().end(), y.begin(), y.end());
    }
  return product;
}

Prover::Cases Prover::condition(const Expr *e, bool holds) {
  const Cases anything = {{}};
  auto either = [](Cases a, const Cases &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  switch (e->op) {
  case Expr::boolean:
    return (e->whole != 0) == holds ? anything : Cases{};
  case Expr::logical_not:
    return condition(e->args[0], !holds);
  case Expr::logical_and:
  case Expr::logical_or: {
    Cases a = condition(e->args[0], holds), b = condition(e->args[1], holds);
    return (e->op == Expr::logical_and) == holds ? both(a, b) : either(a, b);
  }
  case Expr::select: // (test and yes) or (not test and no)
    return either(both(condition(e->args[0], true), condition(e->args[1], holds)),
                  both(condition(e->args[0], false), condition(e->args[2], holds)));
  default:
    break;
  }
  if (!is_comparison(e->op) || !is_integer(e->args[0]->type))
    return anything;
  auto a = affine(e->args[0]), b = affine(e->args[1]);
  if (!a || !b)
    return anything;
  Affine up = plus(*b, *a, -1), down = times(up, -1), above = plus(up, {1, {}}, -1), below = plus(down, {1, {}}, -1);
  switch (e->op) { // up: a <= b; above: a < b; down: a >= b; below: a > b
  case Expr::less:
    return {{holds ? above : down}};
  case Expr::less_equal:
    return {{holds ? up : below}};
  case Expr::greater:
    return {{holds ? below : up}};
  case Expr::greater_equal:
    return {{holds ? down : above}};
  default:
    return (e->op == Expr::equal) == holds ? Cases{{up, down}} : Cases{{above}, {below}};
  }
}

constexpr size_t most_columns = 12; // the models of this repository need 7

Prover::Solution Prover::solve(const Conjunction &system, const std::vector<int> &columns) {
  using namespace mlir::presburger;
  std::map<int, int> column_of;
  for (size_t i = 0; i < columns.size(); ++i)
    column_of[columns[i]] = i;
  std::set<std::vector<int64_t>> rows;
  std::string name = std::to_string(columns.size()) + ":";
  for (const Affine &a : system) {
    std::vector<int64_t> row(columns.size() + 1);
    for (auto [atom, factor] : a.terms)
      row[column_of.at(atom)] = factor;
    row.back() = a.constant;
    rows.insert(std::move(row));
  }
  for (const auto &row : rows)
    for (int64_t value : row)
      name += std::to_string(value) + ",";
  auto found = solved_.find(name);
  if (found != solved_.end())
    return found->second;
  IntegerPolyhedron set(PresburgerSpace::getSetSpace(columns.size()));
  for (const auto &row : rows)
    set.addInequality(row);
  // The time to decide on whole numbers grows without measure with their count: of more, what holds for reals will do.
  bool few = columns.size() <= most_columns;
  Solution solution{few ? set.isIntegerEmpty() : set.isEmpty(), {}};
  if (!solution.empty && few) {
    auto least = set.findIntegerLexMin();
    auto sample = least.isBounded() ? std::optional(*least) : set.findIntegerSample();
    if (sample)
      for (const auto &value : *sample)
        solution.point.push_back(static_cast<int64_t>(value));
  }
  return solved_[name] = solution;
}

std::set<int> Prover::index_set(int variable) const {
  std::set<int> out;
  const std::vector<int> &pieces = variables_[variable].pieces;
  for (int one : pieces.empty() ? std::vector<int>{variable} : pieces)
    if (const Size &extent = variables_[one].extent; !extent.is_constant() || extent.constant() <= 0)
      out.insert(one); // others have values wherever they stand
  return out;
}

const std::set<int> &Prover::indices_of(const Expr *e) {
  if (auto found = indices_.find(e); found != indices_.end())
    return found->second;
  std::set<int> out;
  if (e->op == Expr::index)
    out = index_set(e->position);
  if (e->op == Expr::loop_index)
    out = {-1 - loops_[e->position].id};
  for (const Expr *arg : e->args) {
    const std::set<int> &inner = indices_of(arg);
    out.insert(inner.begin(), inner.end());
  }
  return indices_[e] = std::move(out);
}

std::set<int> Prover::indices_of(const Affine &a) const {
  std::set<int> out;
  for (auto [atom, factor] : a.terms)
    out.insert(atoms_[atom].indices.begin(), atoms_[atom].indices.end());
  return out;
}

Prover::Cases Prover::outside_of(const Affine &a) const {
  Cases out;
  for (auto [atom, factor] : a.terms)
    out.insert(out.end(), atoms_[atom].outside.begin(), atoms_[atom].outside.end());
  return out;
}

bool Prover::has_values(const Line &line, const std::set<int> &indices) {
  auto is_extent = [&](const Affine &extent) {
    return std::any_of(indices.begin(), indices.end(), [&](int index) {
      if (index < 0)
        return false;
      Affine own = affine(variables_[index].extent);
      return !(own < extent) && !(extent < own);
    });
  };
  return std::includes(indices.begin(), indices.end(), line.indices.begin(), line.indices.end()) &&
         std::all_of(line.extents.begin(), line.extents.end(), is_extent);
}

bool Prover::equal(const Size &a, const Size &b) {
  auto never_below = [&](const Size &difference) {
    Expr size{};
    size.op = difference.is_constant() ? Expr::integer : Expr::size;
    size.type = Type::i32;
    size.whole = difference.constant();
    size.extent = difference;
    bool proven = nonnegative(&size, {}).kind == Outcome::proven;
    known_.erase(&size);
    indices_.erase(&size);
    return proven;
  };
  return a == b || (never_below(a - b) && never_below(b - a));
}

std::optional<std::pair<std::string, std::string>> Prover::range(const Expr *e, const std::vector<Fact> &facts) {
  auto a = affine(e);
  if (!a)
    return std::nullopt;
  std::string ends[2];
  for (int end = 0; end < 2; ++end) {
    Size sum(a->constant);
    for (auto [number, factor] : a->terms) {
      const Atom &atom = atoms_[number];
      if (atom.kind == Atom::dim) {
        sum = sum + Size::of_dim(atom.number) * factor;
        continue;
      }
      if (atom.kind != Atom::variable)
        return std::nullopt;
      bool upper = (factor > 0) == (end == 1);
      std::optional<Size> limit = upper ? variables_[atom.number].extent - Size(1) : Size(0);
      // A fact that bounds this index by dims alone replaces its range; the innermost one is given.
      for (const Fact &fact : facts) {
        Cases cases = condition(fact.condition, fact.holds);
        if (cases.size() == 1) // of several, none is known to be the one that holds
          for (const Affine &line : cases[0]) {
            auto own = line.terms.find(number);
            if (own == line.terms.end() || own->second != (upper ? -1 : 1))
              continue;
            Size other(line.constant);
            bool dims = true;
            for (auto [n, f] : line.terms)
              if (n != number) {
                dims &= atoms_[n].kind == Atom::dim;
                if (dims)
                  other = other + Size::of_dim(atoms_[n].number) * f;
              }
            if (dims)
              limit = upper ? other : other * -1;
          }
      }
      sum = sum + *limit * factor;
    }
    ends[end] = sum.text(program_.dim_names());
  }
  return std::pair(ends[0], ends[1]);
}

} // namespace heddle::checking
