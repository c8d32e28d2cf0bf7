// Scalar expressions while gradients are made of them: interned, so that equal ones are one node, and kept simple by
// the rules of adjoints. An index here is a variable with an extent of its own; stages number theirs when they are
// made.
//
// Conditions stand outside: (if c then a else 0) * b is written `if c then a * b else 0`, so that what an arm that
// isn't taken would compute never multiplies, and a condition of a whole term can be seen.
#pragma once

#include "dsl/check/program.h"

#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace heddle::differentiating {

using Term = const Expr *;

struct Variable {
  std::string name;
  Size extent;
};

class Terms {
public:
  int new_variable(const std::string &name, const Size &extent);
  const Variable &variable(int number) const { return variables_[number]; }

  Term integer(int64_t value);
  Term real(double value, Type type);
  Term boolean(bool value);
  Term index(int variable);
  Term iteration(int depth);
  Term size(const Size &size);
  Term read(const Tensor *tensor, std::vector<Term> at, bool always_inside);
  /// The node as it is, folding nothing.
  Term make(Expr::Op op, Type type, std::vector<Term> args);
  /// That node; its arguments are interned already.
  Term node(Expr e);
  /// `like` with other arguments, simplified.
  Term with_args(Term like, std::vector<Term> args);
  /// `e` with each of its indices `place` standing for `indices[place]`, interned.
  Term import(Term e, const std::vector<Term> &indices);

  Term add(Term a, Term b);
  Term sub(Term a, Term b);
  Term mul(Term a, Term b);
  Term div(Term a, Term b);
  Term negate(Term a);
  Term select(Term condition, Term yes, Term no);
  Term both(Term a, Term b);
  Term either(Term a, Term b);
  Term negation(Term a);
  Term all(const std::vector<Term> &conditions);
  Term convert(Term a, Type type);

  /// The conditions of which `e` is the conjunction.
  std::vector<Term> conjuncts(Term e);
  Term substitute(Term e, const std::map<int, Term> &variables);
  /// Every node for which `f` has an answer replaced by it, from the top.
  Term rewrite(Term e, const std::function<Term(Term)> &f);
  /// The variables of `e`, ascending.
  const std::set<int> &variables(Term e);
  /// Whether it reads any tensor.
  bool reads(Term e);

private:
  struct Hash {
    size_t operator()(Term e) const;
  };
  struct Same {
    bool operator()(Term a, Term b) const;
  };

  std::deque<Expr> nodes_;
  std::unordered_set<Term, Hash, Same> interned_;
  std::deque<Variable> variables_;
  std::unordered_map<Term, std::set<int>> variables_of_;
};

bool is_number(Term e, double value);
inline bool is_zero(Term e) { return is_number(e, 0); }
bool is_true(Term e);
bool is_false(Term e);

/// A product as its factors; `1 / x` has x below.
struct Factors {
  bool negative = false;
  std::vector<Term> above, below;
};
Factors factors(Term e);
Term product(Terms &terms, const Factors &factors, Type type);

} // namespace heddle::differentiating
