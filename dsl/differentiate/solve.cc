// Which equation is solved next, and how: bare indices and single ones first; then an index beside others that count
// in steps of some g ("mixed radix": merged axes, patches, strided windows); then coprime strides, of which the largest
// range goes; then bands, (a i + b) // c == q. An equation in which data stand that are summed over is never solved:
// t[at[s] + w] solved for w would visit all of t for each s.
#include "dsl/differentiate/solve.h"

#include <algorithm>
#include <numeric>

namespace heddle::differentiating {
namespace {

struct Equation {
  Term left, right;
};

class Solver {
public:
  Solver(Terms &terms, Whole &whole, const std::vector<int> &variables, const std::vector<int> &targets)
      : terms_(terms), whole_(whole), targets_(targets) {
    solution_.variables = variables;
  }

  Solution run(const std::vector<Term> &places) {
    live();
    for (size_t k = 0; k < places.size(); ++k)
      equations_.push_back({places[k], terms_.index(targets_[k])});
    split_quotients();
    do
      for (Equation &equation : equations_)
        equation.left = whole_.simplified(equation.left);
    while (solve_best() || solve_band());
    for (const Equation &equation : equations_)
      guard(compare(Expr::equal, equation.left, equation.right));
    std::vector<Term> guards;
    live();
    for (Term one : solution_.guards)
      for (Term part : terms_.conjuncts(whole_.simplified(one)))
        if (std::find(guards.begin(), guards.end(), part) == guards.end())
          guards.push_back(part);
    solution_.guards = std::move(guards);
    return std::move(solution_);
  }

private:
  enum Way { one, radix, divided, strided }; // preferred in this order, but that `strided` comes before `divided`
  struct Candidate {
    int rank;
    std::vector<int64_t> extent; // the largest first, as far as that can be told
    size_t equation;
    int variable;
    Way way;
    Polynomial factor;
  };

  bool is_left(int variable) const {
    return std::find(solution_.variables.begin(), solution_.variables.end(), variable) != solution_.variables.end();
  }
  void live() {
    std::vector<int> all = targets_;
    all.insert(all.end(), solution_.variables.begin(), solution_.variables.end());
    whole_.live(all);
  }
  Term compare(Expr::Op op, Term a, Term b) { return terms_.make(op, Type::boolean, {a, b}); }
  void guard(Term condition) { solution_.guards.push_back(whole_.simplified(condition)); }
  void in_range(Term e, const Size &extent) {
    guard(compare(Expr::less_equal, terms_.integer(0), e));
    guard(compare(Expr::less, e, terms_.size(extent)));
  }
  void drop(int variable) { std::erase(solution_.variables, variable); }

  Term new_index(int like, const Size &extent) {
    if (extent == Size(1))
      return terms_.integer(0);
    int made = terms_.new_variable(terms_.variable(like).name, extent);
    solution_.variables.push_back(made);
    return terms_.index(made);
  }

  void bind(int variable, Term e) {
    e = whole_.simplified(e);
    std::map<int, Term> to{{variable, e}};
    for (auto &[v, value] : solution_.values)
      value = terms_.substitute(value, to);
    for (auto &[v, value] : solution_.kept)
      value = terms_.substitute(value, to);
    solution_.values[variable] = e;
    drop(variable);
    for (Term &one : solution_.guards)
      one = terms_.substitute(one, to);
    for (Equation &equation : equations_)
      equation = {terms_.substitute(equation.left, to), terms_.substitute(equation.right, to)};
    live();
    in_range(e, terms_.variable(variable).extent);
  }

  void keep(int variable, Term place) {
    // In terms of the places alone, not of other indices that are kept.
    place = terms_.substitute(place, solution_.kept);
    for (auto &[v, value] : solution_.kept)
      value = terms_.substitute(value, {{variable, place}});
    solution_.kept[variable] = place;
    drop(variable);
    in_range(place, terms_.variable(variable).extent);
  }

  /// Whether the variable alone, and it in this equation alone, reads a part of a tensor's axis.
  bool is_part(const Equation &equation, int variable) {
    auto has = [&](Term e, int v) { return terms_.variables(e).count(v) > 0; };
    for (int v : terms_.variables(equation.left))
      if (v != variable && is_left(v))
        return false;
    for (const Equation &other : equations_)
      if (has(other.left, variable) || has(other.right, variable))
        return false;
    if (equation.right->op != Expr::index)
      return false;
    const Size &all = terms_.variable(equation.right->position).extent;
    return whole_.nonnegative(whole_.of(all - terms_.variable(variable).extent - Size(1)));
  }

  /// extent / by, rounded up, where that is a size.
  std::optional<Size> quotient_up(const Size &extent, const Polynomial &by) {
    if (auto c = constant_of(by))
      return (extent + Size(*c - 1)).floor_div(*c);
    Division whole = divide(whole_.of(extent), by);
    return whole.rest.empty() ? whole_.size(whole.quotient) : std::nullopt;
  }

  /// Where `i // c` or `i % c` stand, i is c * i1 + i0.
  void split_quotients() {
    for (size_t k = 0; k < equations_.size(); ++k)
      for (Term node : nodes_of(equations_[k].left)) {
        bool divides = node->op == Expr::floor_div || node->op == Expr::mod;
        if (!divides || node->args[0]->op != Expr::index || !is_left(node->args[0]->position))
          continue;
        int i = node->args[0]->position;
        Polynomial by = whole_.of(node->args[1]);
        auto inner = whole_.size(by);
        auto outer = by.size() == 1 && by.begin()->second > 0 && inner ? quotient_up(terms_.variable(i).extent, by)
                                                                       : std::nullopt;
        if (!outer)
          continue;
        Term high = new_index(i, *outer), low = new_index(i, *inner);
        bind(i, whole_.term(plus(times(by, whole_.of(high)), whole_.of(low))));
      }
  }

  /// Run-time sizes before constants, and large ones first.
  std::vector<int64_t> extent_rank(int variable) {
    const Size &extent = terms_.variable(variable).extent;
    if (extent.is_constant())
      return {0, -extent.constant()};
    int64_t degree = 0, sum = 0;
    for (const auto &[monomial, factor] : whole_.of(extent)) {
      degree = std::max<int64_t>(degree, monomial.size());
      sum += factor;
    }
    return {-degree, -sum};
  }

  bool has_variable(Term e) {
    return std::ranges::any_of(terms_.variables(e), [&](int v) { return is_left(v); });
  }

  /// Whether the equation has an element of a tensor, at a place that is summed over.
  bool has_data(Term e) {
    for (Term node : nodes_of(e))
      if (node->op == Expr::read && has_variable(node))
        return true;
    return false;
  }

  std::optional<Candidate> candidate(size_t k, int v, const std::map<int, Polynomial> &factors, size_t count) {
    const Polynomial &factor = factors.at(v);
    auto c = constant_of(factor);
    bool hidden = factors.size() != count;
    if (c == 1 || c == -1) {
      if (count == 1)
        return Candidate{0, extent_rank(v), k, v, one, {{{}, *c}}};
      std::vector<Polynomial> others;
      for (const auto &[w, f] : factors)
        if (w != v)
          others.push_back(f);
      if (!others.empty() && !hidden && c == 1)
        if (auto g = common_step(others); !g.empty())
          return Candidate{1, extent_rank(v), k, v, radix, g};
      return Candidate{2, extent_rank(v), k, v, one, {{{}, *c}}};
    }
    if (count == 1 && factor.size() == 1 && !has_variable(equations_[k].right))
      return Candidate{0, {0, 0}, k, v, strided, factor};
    if (c && !hidden)
      return Candidate{3, extent_rank(v), k, v, divided, factor};
    return std::nullopt;
  }

  /// What all others are multiples of, if that is more than 1; else nothing.
  Polynomial common_step(const std::vector<Polynomial> &others) {
    int64_t g = 0;
    bool constants = true;
    for (const Polynomial &other : others) {
      auto c = constant_of(other);
      constants &= c.has_value();
      g = std::gcd(g, c.value_or(0));
    }
    if (constants)
      return g > 1 ? Polynomial{{{}, g}} : Polynomial{};
    auto degree = [](const Polynomial &p) {
      size_t most = 0;
      for (const auto &[monomial, factor] : p)
        most = std::max(most, monomial.size());
      return std::pair(most, p.size());
    };
    const Polynomial &least = *std::min_element(others.begin(), others.end(),
                                                [&](const auto &a, const auto &b) { return degree(a) < degree(b); });
    if (least.size() != 1 || least.begin()->second <= 0)
      return {};
    bool all = std::all_of(others.begin(), others.end(),
                           [&](const Polynomial &other) { return divide(other, least).rest.empty(); });
    return all ? least : Polynomial{};
  }

  bool solve_best() {
    std::optional<Candidate> best;
    for (size_t k = 0; k < equations_.size(); ++k) {
      Term left = equations_[k].left;
      if (has_data(left))
        continue;
      Polynomial p = whole_.of(left);
      std::map<int, Polynomial> factors; // of the variables that it is affine in
      size_t count = 0;
      for (int v : terms_.variables(left)) {
        if (!is_left(v))
          continue;
        ++count;
        auto line = whole_.linear(p, terms_.index(v));
        if (!whole_.mentions(line.rest, v) && !whole_.mentions(line.factor, v))
          factors[v] = line.factor;
      }
      for (const auto &[v, factor] : factors)
        if (auto next = candidate(k, v, factors, count);
            next && (!best || std::tie(next->rank, next->extent) < std::tie(best->rank, best->extent)))
          best = next;
    }
    return best && take(*best);
  }

  bool take(const Candidate &chosen) {
    Equation equation = equations_[chosen.equation];
    int v = chosen.variable;
    auto line = whole_.linear(whole_.of(equation.left), terms_.index(v));
    Polynomial distance = plus(whole_.of(equation.right), line.rest, -1); // factor * v
    std::optional<Size> iterations;
    if (chosen.way == radix && !(iterations = quotient_up(terms_.variable(v).extent, chosen.factor)))
      return false;
    equations_.erase(equations_.begin() + chosen.equation);
    switch (chosen.way) {
    case one: {
      Term place = whole_.term(times(distance, constant_of(chosen.factor).value()));
      is_part(equation, v) ? keep(v, place) : bind(v, place);
      return true;
    }
    case divided: {
      int64_t c = constant_of(chosen.factor).value();
      Term d = whole_.term(c > 0 ? distance : times(distance, -1)), by = terms_.integer(std::abs(c));
      guard(compare(Expr::equal, terms_.make(Expr::mod, Type::i32, {d, by}), terms_.integer(0)));
      bind(v, terms_.make(Expr::floor_div, Type::i32, {d, by}));
      return true;
    }
    case strided: {
      bool negative = chosen.factor.begin()->second < 0;
      Term d = whole_.term(negative ? times(distance, -1) : distance);
      Term by = whole_.term(negative ? times(chosen.factor, -1) : chosen.factor);
      guard(compare(Expr::equal, terms_.make(Expr::mod, Type::i32, {d, by}), terms_.integer(0)));
      keep(v, terms_.make(Expr::floor_div, Type::i32, {d, by}));
      return true;
    }
    case radix:
      break;
    }
    // v + g (...) + k == q with 0 <= v < R: v = (q - k) % g + g w, w < R / g rounded up; and (...) == (q - k) // g - w.
    const Polynomial &g = chosen.factor;
    Polynomial inner, rest = line.rest;
    for (int w : std::set<int>(terms_.variables(equation.left)))
      if (w != v && is_left(w)) {
        auto own = whole_.linear(rest, terms_.index(w));
        inner = plus(inner, times(divide(own.factor, g).quotient, whole_.of(terms_.index(w))));
        rest = own.rest;
      }
    Term d = whole_.term(plus(whole_.of(equation.right), rest, -1)), step = whole_.term(g);
    Term w = new_index(v, *iterations);
    Polynomial low = whole_.of(terms_.make(Expr::mod, Type::i32, {d, step}));
    bind(v, whole_.term(plus(low, times(g, whole_.of(w)))));
    Polynomial high = whole_.of(terms_.make(Expr::floor_div, Type::i32, {d, step}));
    equations_.push_back({whole_.term(inner), whole_.term(plus(high, whole_.of(w), -1))});
    return true;
  }

  /// (a v + b) // c + rest == q: v lies in a band of c / |a| places, rounded up.
  bool solve_band() {
    for (size_t k = 0; k < equations_.size(); ++k) {
      if (has_data(equations_[k].left))
        continue;
      Polynomial p = whole_.of(equations_[k].left);
      for (const auto &[monomial, factor] : p) {
        if (monomial.size() != 1 || (factor != 1 && factor != -1))
          continue;
        Term quotient = whole_.atom(monomial[0]);
        if (quotient->op != Expr::floor_div)
          continue;
        auto c = constant_of(whole_.of(quotient->args[1]));
        if (!c || *c <= 0)
          continue;
        Polynomial inside = whole_.of(quotient->args[0]), rest = plus(p, {{monomial, factor}}, -1);
        std::vector<int> choices;
        for (int v : terms_.variables(quotient))
          if (is_left(v))
            choices.push_back(v);
        std::sort(choices.begin(), choices.end(),
                  [&](int a, int b) { return std::pair(extent_rank(a), a) < std::pair(extent_rank(b), b); });
        for (int v : choices) {
          auto line = whole_.linear(inside, terms_.index(v));
          auto a = constant_of(line.factor);
          if (!a || *a == 0 || whole_.mentions(line.rest, v) || whole_.mentions(rest, v))
            continue;
          Polynomial target = times(plus(whole_.of(equations_[k].right), rest, -1), factor);
          equations_.erase(equations_.begin() + k);
          Term w = new_index(v, Size((*c + std::abs(*a) - 1) / std::abs(*a)));
          Polynomial low = plus(times(target, *c), line.rest, -1); // low <= a v < low + c
          Term first =
              *a > 0 ? terms_.make(Expr::floor_div, Type::i32,
                                   {whole_.term(plus(low, {{{}, *a - 1}})), terms_.integer(*a)})
                     : terms_.make(Expr::floor_div, Type::i32, {whole_.term(times(low, -1)), terms_.integer(-*a)});
          Term e = whole_.term(plus(whole_.of(first), whole_.of(w), *a > 0 ? 1 : -1));
          Term back = terms_.make(Expr::floor_div, Type::i32,
                                  {whole_.term(plus(times(line.factor, whole_.of(e)), line.rest)), terms_.integer(*c)});
          solution_.guards.push_back(compare(Expr::equal, back, whole_.term(target)));
          bind(v, e);
          return true;
        }
      }
    }
    return false;
  }

  Terms &terms_;
  Whole &whole_;
  std::vector<int> targets_;
  std::vector<Equation> equations_;
  Solution solution_;
};

} // namespace

Solution solve(Terms &terms, Whole &whole, const std::vector<Term> &places, const std::vector<int> &variables,
               const std::vector<int> &targets) {
  return Solver(terms, whole, variables, targets).run(places);
}

} // namespace heddle::differentiating
