// What is known where an expression stands: requirements that hold everywhere in the entry, the conditions around it,
// bounds of whole numbers, and conditions on all elements of a tensor. What they prove, and examples of what they
// don't.
#pragma once

#include "dsl/check/indices.h"
#include "dsl/check/messages.h"

namespace heddle::checking {

/// A condition on every element of some tensors: `all[…](…)`.
struct ForAll {
  std::vector<int> space, over;
  const Expr *condition;
};

/// The words for an index that leaves a tensor: "-3", " (when j = 0)", "its rows are 0 to M - 1", "M".
struct Miss {
  std::string row, when, rows, end;
};

class Knowledge {
public:
  Knowledge(const Program &program, Builder &build, Indices &indices, const Messages &messages);

  /// Forgets what held in the entry before.
  void begin_entry();

  // --- conditions

  /// A condition around what is evaluated, as long as this lives; none where it is null.
  class Assumption {
  public:
    Assumption(std::vector<Fact> &facts, const Expr *condition, bool holds) : facts_(condition ? &facts : nullptr) {
      if (facts_)
        facts_->push_back({condition, holds});
    }
    ~Assumption() {
      if (facts_)
        facts_->pop_back();
    }
    Assumption(const Assumption &) = delete;

  private:
    std::vector<Fact> *facts_;
  };
  [[nodiscard]] Assumption assume(const Expr *condition, bool holds) { return {facts_, condition, holds}; }
  const std::vector<Fact> &facts() const { return facts_; }

  /// From here on it holds wherever the entry computes.
  void require(const Expr *condition) { always_.push_back({condition, true}); }
  const std::vector<Fact> &required() const { return always_; }
  struct Mark {
    size_t required, learned;
    std::map<const Tensor *, std::vector<ForAll>> every;
    std::map<const Expr *, Size> bounded;
  };
  Mark mark() const { return {always_.size(), learned_, every_, bounded_}; }
  void forget_since(const Mark &mark);

  // --- elements of tensors

  void set_bound(const Tensor *tensor, const Prover::Bound &bound) { below_[tensor] = bound; }
  void set_bound(const Expr *value, const Size &below) { bounded_[value] = below; }
  /// Whether `value` is an `index(N)(…)`, which nobody needs to prove once more.
  bool is_index_of(const Expr *value, const Size &extent) const {
    auto bounded = bounded_.find(value);
    return bounded != bounded_.end() && bounded->second == extent;
  }
  std::optional<Prover::Bound> bound_of(const Tensor *tensor) const;
  /// A bound that `value` has from what it is made of: both arms of an `if`, say. Not from the conditions around, as
  /// it is the bound of a tensor, which is computed whether they hold or not. `single`: it is all of a stage.
  std::optional<Prover::Bound> bound_of(const Expr *value, bool single);
  /// Gives the result of a stage the bound of its value, if that has one.
  void bound_result(const Tensor *result, const Expr *value);

  void set_all(const Tensor *result, ForAll all) { alls_[result] = std::move(all); }
  /// Where `tensor` is the result of an `all` over all that it speaks of.
  const ForAll *all_of(const Tensor *tensor) const;
  /// Every element that `all` reads meets its condition.
  void learn(const ForAll &all);

  // --- proofs

  /// Whether `e` is never negative, under the conditions around it.
  Prover::Outcome prove(const Expr *e) { return prover_.nonnegative(e, always_, facts_); }
  bool proven(const Expr *e) { return e && prove(e).kind == Prover::Outcome::proven; }
  /// The same wherever the requirements hold, and `facts`.
  Prover::Outcome prove_always(const Expr *e, const std::vector<Fact> &facts = {}) {
    return prover_.nonnegative(e, always_, facts);
  }
  bool equal(const Size &a, const Size &b) { return prover_.equal(a, b); }
  /// Sizes that proofs rely on to fit 32 bits. None is negative in any call.
  std::set<Size> products() const;
  /// Whether `value` is within the bound, under the conditions around it, if no number in it leaves its bits.
  bool proven_below(const Expr *value, const Prover::Bound &bound) { return proven_below(value, bound, facts_); }
  /// The same of what a stage computes of it: with 64 bits where it is `exact`.
  bool stays_below(const Expr *value, const Prover::Bound &bound, bool exact) {
    return stays_below(value, bound, exact, facts_);
  }
  /// Whether what has the one bound has the other, also where the conditions around do not hold.
  bool within(const Prover::Bound &inner, const Prover::Bound &outer);
  /// Whether `e` in 32 bits may be another number than the one that proofs speak of, whatever the sizes of a call are.
  bool may_wrap(const Expr *e) const { return !fits_with(e); }
  /// Has calls checked for the sizes that make `e`, which may not wrap else, the number that proofs speak of.
  void rely_on(const Expr *e);

  // --- counterexamples

  Miss miss(const Extent &extent, const Prover::Outcome &outcome, bool below) const;
  /// " (when j = 0)": the values of the example; empty without any.
  static std::string when(const Prover::Outcome &outcome);
  /// Adds to the label from where to where `at` goes, if its indices say so.
  void label_range(Diagnostic &d, const Expr *at, const std::vector<Fact> &facts);

private:
  void forget_conditions(size_t learned, const std::map<const Tensor *, std::vector<ForAll>> &every);
  bool proven_for(const Prover::Bound &bound, const Expr *e, std::vector<Fact> facts);
  bool proven_below(const Expr *value, const Prover::Bound &bound, const std::vector<Fact> &facts);
  /// The same where `arms` counts down those that are looked at, with none of which left nothing is proven.
  bool proven_below(const Expr *value, const Prover::Bound &bound, const std::vector<Fact> &facts, int &arms);
  bool stays_below(const Expr *value, const Prover::Bound &bound, bool exact, std::vector<Fact> facts);
  /// The sizes that have to fit 32 bits for `e` to be the number that proofs speak of; nothing where none would do.
  std::optional<std::set<Size>> fits_with(const Expr *e) const;
  /// A condition on an element that may not exist: neither may what it reads there.
  const Expr *perhaps_outside(const Expr *condition);
  /// The conditions that hold for the element that is read.
  std::vector<const Expr *> conditions_on(const Expr *read);

  const Program &program_;
  Builder &build_;
  Indices &indices_;
  const Messages &messages_;
  Prover prover_;
  std::vector<Fact> always_, facts_;
  std::map<const Tensor *, Prover::Bound> below_; // of elements that are places of something
  std::map<const Expr *, Size> bounded_;          // index(N)(e)
  std::set<Size> fitting_;                        // of `rely_on`
  std::map<const Tensor *, ForAll> alls_;         // results of `all[…](…)`
  /// Of inputs and stages: `space` has one index per dimension, and the condition is on the element there.
  std::map<const Tensor *, std::vector<ForAll>> every_;
  size_t learned_ = 0; // how many of these there are
};

} // namespace heddle::checking
