// The walk from the last step to the first, handing adjoints on from results to what they were computed from.
#pragma once

#include "dsl/differentiate/adjoints.h"
#include "dsl/differentiate/differentiate.h"

#include <optional>

namespace heddle::differentiating {

class Backward {
public:
  Backward(Program &program, std::vector<Step> &steps, UniqueName unique)
      : program_(program), forward_(steps), adjoints_(program, terms_, whole_, std::move(unique)) {}

  std::optional<NoGradient> run(const Tensor *loss, const std::vector<Gradient> &gradients,
                                std::vector<const Tensor *> &unrelated);

private:
  // --- backward.cc
  void mark(const std::vector<Step> &steps);
  bool is_active(const Tensor *t) const { return active_.count(t) > 0; }
  void stage(const Stage &stage);
  /// A stage whose indices are variables: over `space` and `over`, the expression `value`, the element of the result,
  /// and the adjoint of that.
  struct Placed {
    const Stage &stage;
    std::vector<int> space, over;
    Term value, result = nullptr, adjoint = nullptr;
  };
  Placed placed(const Stage &stage);
  /// Whose adjoint grows by what a read of `t` is handed, at the read's places without the first `skip`; null:
  /// nobody's.
  struct Target {
    const Tensor *tensor = nullptr;
    int skip = 0;
  };
  void hand_on(const Placed &placed, const std::function<Target(const Tensor *t)> &target);
  bool take_over(const Tensor *sum, const Tensor *result);
  void finish(std::vector<Step> &steps);
  void refuse(Span span, const std::string &reason);

  // --- loops.cc
  struct Body; // of the loop at hand
  void loop(Loop &loop);
  bool touches(const Loop &loop) const;
  bool may_differentiate(const Loop &loop);
  /// `e` of the loop's body at that iteration, for use outside of it.
  Term lifted(Term e, Body &body, Term iteration);
  /// The tensor that has `t`, of the loop's body, for all iterations as its first axis.
  const Tensor *kept(const Tensor *t, Body &body);

  Program &program_;
  std::vector<Step> &forward_;
  Terms terms_;
  Whole whole_{terms_};
  Adjoints adjoints_;
  std::set<const Tensor *> active_;
  std::vector<Step> made_;
  std::map<const Tensor *, const Tensor *> renamed_; // new tensors that are results of gradients
  std::unordered_map<Term, const Expr *> finished_;
  std::optional<NoGradient> refused_;
};

} // namespace heddle::differentiating
