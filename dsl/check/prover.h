// Decides whether a whole-number expression can be negative, under the ranges of its indices, the bounds of the dims
// and the conditions it stands in. Expressions become linear forms over atoms; `//`, `%`, `min`, `max` and looked-up
// values are atoms with constraints of their own; MLIR's Presburger library decides the rest. Answers are remembered by
// the constraint system, so that equal layers cost nothing.
#pragma once

#include "dsl/check/builder.h"

#include <functional>
#include <map>
#include <set>
#include <unordered_map>

namespace heddle::checking {

/// An index of a definition or reduction while its stage is being put together.
struct Variable {
  std::string name;
  Size extent;
  std::string extent_name; // as the author wrote it, where folding lost that
  int64_t first = 0;       // what it is where this variable is 0: for messages
};

struct LoopIndex {
  int id; // unique in the program
  std::string name;
  Size extent;
};

/// A condition known to hold, or not to hold.
struct Fact {
  const Expr *condition;
  bool holds;
};

class Prover {
public:
  struct Outcome {
    enum Kind { proven, refuted, unknown } kind;
    /// refuted: values of the indices, looked-up numbers and dims for which the expression is negative.
    std::vector<std::pair<std::string, int64_t>> example;
    int64_t value = 0; // of the expression there
  };

  Prover(const Program &program, const std::deque<Variable> &variables, const std::vector<LoopIndex> &loops,
         std::function<std::optional<Size>(const Tensor *)> below, std::function<std::string(const Expr *)> text,
         std::function<std::vector<const Expr *>(const Expr *read)> known_of)
      : program_(program), variables_(variables), loops_(loops), below_(std::move(below)), text_(std::move(text)),
        known_of_(std::move(known_of)) {}

  Outcome nonnegative(const Expr *e, const std::vector<Fact> &facts);
  /// The least and the greatest value of `e` as text in the dims, where its indices alone decide it: "-T" and "-1".
  std::optional<std::pair<std::string, std::string>> range(const Expr *e, const std::vector<Fact> &facts);

private:
  struct Affine {
    int64_t constant = 0;
    std::map<int, int64_t> terms; // by atom
    bool operator<(const Affine &o) const { return std::tie(constant, terms) < std::tie(o.constant, o.terms); }
  };
  using Conjunction = std::vector<Affine>; // each is >= 0
  using Cases = std::vector<Conjunction>;  // one of them holds
  struct Atom {
    enum Kind { dim, loop, variable, value, made } kind;
    std::string name;
    Cases cases;
    int number = -1; // of the dim or variable
  };

  Affine plus(const Affine &a, const Affine &b, int64_t factor);
  Affine times(const Affine &a, int64_t factor);
  std::optional<Affine> affine(const Expr *e);
  std::optional<Affine> new_affine(const Expr *e);
  Affine affine(const Size &size);
  Affine quotient(const Affine &a, int64_t divisor);
  /// The atom of that key; made by `make` when it is new.
  int atom(const std::string &key, const std::function<Atom(int)> &make);
  Cases condition(const Expr *e, bool holds);
  static Cases both(const Cases &a, const Cases &b);
  std::string key(const Affine &a) const;
  struct Solution {
    bool empty;
    std::vector<int64_t> point; // one value per atom of the system
  };
  Solution solve(const Conjunction &system, const std::vector<int> &columns);

  const Program &program_;
  const std::deque<Variable> &variables_;
  const std::vector<LoopIndex> &loops_;
  std::function<std::optional<Size>(const Tensor *)> below_;
  std::function<std::string(const Expr *)> text_;
  std::function<std::vector<const Expr *>(const Expr *read)> known_of_; // conditions that this element is known to meet
  std::vector<Atom> atoms_;
  std::unordered_map<std::string, int> atom_numbers_;
  std::map<std::string, Solution> solved_;
  std::unordered_map<const Expr *, std::optional<Affine>> known_;
  bool overflow_ = false; // some coefficient left 64 bits: nothing is concluded
};

} // namespace heddle::checking
