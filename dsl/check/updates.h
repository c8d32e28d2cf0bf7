// `k[l, h, seen + t] <- new[h, t]`: updates of state, each proven to be inside, no two at one place.
#pragma once

#include "dsl/check/ranges.h"

namespace heddle::checking {

class Conversions;
class Expressions;
class Params;

class Updates : Services {
  struct Written {
    Update update;
    std::vector<LoopIndex> loops; // around it
    /// What is written under which conditions, of which no two hold at once: the arms of an `if` may update one place.
    struct Arm {
      std::vector<Fact> when;
      const Expr *value;
      std::vector<int> variables;
    };
    std::vector<Arm> arms = {};
  };

public:
  Updates(Context &context, Conversions &conversions, Expressions &expressions, Params &params, Ranges &ranges)
      : Services(context), conversions_(conversions), expressions_(expressions), params_(params), ranges_(ranges) {}

  void begin_entry() { written_.clear(); }
  void run(const syntax::Stmt &s, Frame &frame);

  /// For a loop that is tried again.
  using Mark = std::vector<Written>;
  Mark mark() const { return written_; }
  void forget_since(const Mark &mark) { written_ = mark; }

private:
  /// Where the target stands in the state, and its indices; false after a report.
  bool place_of(const syntax::Target &target, const Entity &state, const Tree &right, Frame &frame,
                std::vector<Update::Along> &place, std::vector<Binder> &binders);
  /// Whether a place is proven inside the state; reports where not.
  bool inside(const syntax::Place &place, const Entity &state, size_t axis, const Expr *at, const std::string &index);
  /// Adds the update; false after a report that another one writes there.
  bool write(const syntax::Target &target, Written own);
  /// Takes back the update of the same places that another arm of an `if` has made, and returns what it writes.
  std::vector<Written::Arm> other_arms(const Tensor *state, const std::vector<Update::Along> &place,
                                       const std::vector<int> &variables);
  /// The arm whose conditions hold, or `old`: the first `known` conditions of all arms are the same, and hold.
  const Expr *chosen(const std::vector<Written::Arm> &arms, size_t known, const std::function<const Expr *()> &old);
  /// Whether the new value of an `index(N)` state is one; reports where not.
  bool check_range(const Entity &value, const Tensor *state, Span span);
  /// Whether no iteration of `a` writes what an iteration of `b` does; for one update with itself, what another
  /// iteration of it does.
  bool disjoint(const Written &a, const Written &b);
  /// `e` with other formulas in the place of loop indices.
  const Expr *with_loops(const Expr *e, const std::vector<const Expr *> &iterations);

  Conversions &conversions_;
  Expressions &expressions_;
  Params &params_;
  Ranges &ranges_;
  std::vector<Written> written_; // of the entry at hand, so far
};

} // namespace heddle::checking
