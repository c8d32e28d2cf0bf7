// The adjoints of a program's tensors while its steps are walked backwards: what stages have contributed to each so
// far, and the stages that compute them.
#pragma once

#include "dsl/differentiate/solve.h"

namespace heddle::differentiating {

using UniqueName = std::function<std::string(const std::string &)>;

class Adjoints {
public:
  Adjoints(Program &program, Terms &terms, Whole &whole, UniqueName unique)
      : program_(program), terms_(terms), whole_(whole), unique_(std::move(unique)) {}

  bool has(const Tensor *t) const { return contributions_.count(t) > 0; }
  void forget(const Tensor *t) { contributions_.erase(t); }
  /// At each place: the sum of what has been contributed. `places` are its new indices.
  Term total(const Tensor *t, std::vector<int> &places);
  /// `value` at the indices `places` is part of the adjoint of `t`.
  void add(const Tensor *t, std::vector<int> places, Term value);
  /// For each value of `variables`, `value` is part of the adjoint of `t` at `at`. `by`: the stage that reads it there.
  void add_sum(const Tensor *t, const std::vector<Term> &at, Term value, const std::vector<int> &variables,
               const Stage &by);

  /// The tensor of that stage; one that is there already, where it computes the same.
  const Tensor *emit(const std::string &name, const std::vector<int> &space, Reducer reducer,
                     const std::vector<int> &over, Term value, const Stage &by);
  /// The adjoint of `t` as a stage of its own, into `result` where that is given.
  const Tensor *materialise(const Tensor *t, const std::string &name, const Stage &by, const Tensor *result = nullptr);
  /// The tensor that the adjoint of `t` just is, in type and shape; null where it is more than that.
  const Tensor *as_tensor(const Tensor *t);
  /// A read whose places are looked at again: whether they are proven.
  Term read(const Tensor *t, std::vector<Term> at);
  const Tensor *new_tensor(Tensor::Kind kind, const std::string &name, Type type, std::vector<Size> shape, Span span);
  std::vector<int> indices_for(const Tensor *t);
  std::vector<Term> as_terms(const std::vector<int> &variables);
  /// A stage of the program: what is made later may use it instead of computing the same.
  void know(const Stage &stage);

  /// Between the two, stages go into `steps` and see those of the loop around.
  void enter(std::vector<Step> &steps, const Size &iterations);
  void leave(std::vector<Step> &steps);
  std::vector<Step> *steps = nullptr;

private:
  struct Contribution {
    std::vector<int> places;
    Term value;
  };
  using Key = std::tuple<std::vector<Size>, Reducer, std::vector<Size>, Term>;
  struct Guarded {
    std::vector<Term> guards;
    Term value;
  };

  Guarded split(Term e);
  /// A condition that gives a summed index its value takes its place.
  bool fix_by_condition(Guarded &term, std::vector<int> &over, const std::vector<int> &places);
  /// A condition that bounds a summed index by sizes shortens its range.
  bool shorten(Guarded &term, std::vector<int> &over, const std::vector<int> &places);
  /// Whether a condition changed.
  bool use_equalities(Guarded &term, const std::vector<int> &over, const std::vector<int> &places);
  void again(Guarded &term, const std::map<int, Term> &to, const std::vector<int> &over,
             const std::vector<int> &places);
  /// With all reads' places looked at again: under conditions, a place is no longer known to exist.
  Term reproved(Term e);
  bool is_inside(const Tensor *t, const std::vector<Term> &at);
  void live(const std::vector<int> &a, const std::vector<int> &b);

  Program &program_;
  Terms &terms_;
  Whole &whole_;
  UniqueName unique_;
  std::map<const Tensor *, std::vector<Contribution>> contributions_;
  std::map<Key, const Tensor *> known_, known_in_loop_;
  bool in_loop_ = false;
};

/// "s" of "layers.3.attn.s".
std::string last_part(const std::string &name);

} // namespace heddle::differentiating
