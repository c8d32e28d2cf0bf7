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
  std::vector<int> pieces; // `n in (y in Y, x in X)`: the variables y and x, of which this one is y * X + x
  int merged = -1;         // of a piece: the variable that it is a piece of
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
    /// refuted: a looked-up number that is none there, as text, and the size that is 0.
    std::optional<std::pair<std::string, Size>> none = {};
  };

  /// Elements of a tensor are less than `below`, and not negative; `if_any` only where `below` is not 0, as the best
  /// place of no numbers is none of them.
  struct Bound {
    Size below;
    bool if_any = false;
  };

  Prover(const Program &program, const std::deque<Variable> &variables, const std::vector<LoopIndex> &loops,
         std::function<std::optional<Bound>(const Tensor *)> below, std::function<std::string(const Expr *)> text,
         std::function<std::vector<const Expr *>(const Expr *read)> known_of)
      : program_(program), variables_(variables), loops_(loops), below_(std::move(below)), text_(std::move(text)),
        known_of_(std::move(known_of)) {}

  /// `always` holds for all values that its indices have, which may be none; `around` for those at hand, so that the
  /// indices of `e` and `around` have values.
  Outcome nonnegative(const Expr *e, const std::vector<Fact> &always, const std::vector<Fact> &around = {});
  /// Whether two sizes are the same number in every call.
  bool equal(const Size &a, const Size &b);
  /// What is remembered of expressions holds as long as the conditions on elements of tensors stay as they are.
  void conditions_change();
  /// Products of run-time sizes that proofs rely on: as long as they fit 32 bits, `y * X + x` does.
  const std::set<Size> &products() const { return products_; }

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
  /// Never negative where all `indices` have values, and some index with each of the `extents`; `unless` one of these
  /// cases holds, in which a number that was looked up is none.
  struct Line {
    Affine value;
    std::set<int> indices;
    std::vector<Affine> extents;
    Cases unless;
  };
  struct Atom {
    enum Kind { dim, loop, variable, value, made, opaque } kind;
    std::string name;
    Cases cases;
    int number = -1; // of the dim or variable
    bool nonnegative = false;
    std::vector<int> factors = {}; // of a product: other atoms, ascending
    std::optional<Size> size = {}; // that it does not exceed
    std::set<int> indices = {};    // without values of which it has none: variables, and loops as -1 - id
    std::vector<Line> lines = {};  // of a product: what bounds of its factors say
    Cases outside = {};            // in which a number that is looked up, or what is made of it, is none
    std::optional<Size> some = {}; // of a number that is looked up: it is none where this is 0
    std::optional<Affine> most = {};
  };

  Affine plus(const Affine &a, const Affine &b, int64_t factor);
  Affine times(const Affine &a, int64_t factor);
  std::optional<Affine> affine(const Expr *e);
  std::optional<Affine> new_affine(const Expr *e);
  Affine affine(const Size &size);
  Affine quotient(const Affine &a, int64_t divisor);
  /// The product of two expressions, its products of atoms being atoms themselves, with what bounds say about it.
  std::optional<Affine> product(const Affine &a, const Affine &b);
  Affine multiplied(const Affine &a, const Affine &b);
  int monomial(int a, int b);
  bool is_nonnegative(const Affine &a) const;
  /// Expressions that are never negative: `a` itself, and what it lacks to its bounds.
  std::vector<Line> nonnegative_forms(const Affine &a);
  const std::set<int> &indices_of(const Expr *e);
  std::set<int> indices_of(const Affine &a) const;
  Cases outside_of(const Affine &a) const;
  std::set<int> index_set(int variable) const;
  bool has_values(const Line &line, const std::set<int> &indices);
  std::optional<Affine> bound(const Affine &a, bool upper);
  std::optional<Affine> upper_bound(int atom);
  /// A size that `a` never exceeds, in any part of its sum.
  std::optional<Size> most_of(const Affine &a) const;
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

  // --- questions.cc
  static constexpr size_t most_cases = 256; // per question; more conditions than people write around one read
  class System;
  /// The atoms that a goal names, also through divisions and products.
  std::set<int> mentioned(const Affine &goal) const;
  /// The answer, where the goal is negative at that point: a value for each of the columns.
  Outcome counterexample(const Affine &goal, const std::vector<int> &columns, const std::vector<int64_t> &point);

  const Program &program_;
  const std::deque<Variable> &variables_;
  const std::vector<LoopIndex> &loops_;
  std::function<std::optional<Bound>(const Tensor *)> below_;
  std::function<std::string(const Expr *)> text_;
  std::function<std::vector<const Expr *>(const Expr *read)> known_of_; // conditions that this element is known to meet
  std::vector<Atom> atoms_;
  std::unordered_map<std::string, int> atom_numbers_;
  std::map<std::string, Solution> solved_;
  std::unordered_map<const Expr *, std::optional<Affine>> known_;
  std::unordered_map<const Expr *, std::set<int>> indices_;
  std::set<Size> products_;
  int depth_ = 0;         // of conditions on elements within such
  bool overflow_ = false; // some coefficient left 64 bits: nothing is concluded
};

} // namespace heddle::checking
