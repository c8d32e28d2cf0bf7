// The indices and loops that formulas speak of while stages are put together, and what is done to formulas by index.
#pragma once

#include "dsl/check/entity.h"

namespace heddle::checking {

/// The numbers of the indices that `e` contains.
std::set<int> variables_of(const Expr *e);

class Indices {
public:
  explicit Indices(Builder &build) : build_(build) {}

  int new_variable(const std::string &name, const Extent &extent);
  Variable &operator[](int number) { return variables_[number]; }
  const Variable &operator[](int number) const { return variables_[number]; }
  const std::deque<Variable> &all() const { return variables_; }

  /// The loops around that stay loops, outermost first.
  const std::vector<LoopIndex> &loops() const { return loops_; }
  /// Returns its depth.
  int enter_loop(const std::string &name, const Size &extent);
  void leave_loop() { loops_.pop_back(); }

  /// With other formulas in the place of indices.
  const Expr *rewrite(const Expr *e, const std::map<int, const Expr *> &variables);
  /// The indices of a stage of `e`: what is said by a merged index is not said again by its pieces.
  std::set<int> indices_of(const Expr *e) const;
  /// With pieces whose merged index is one of `indices` as quotients and remainders of it.
  const Expr *without_pieces(const Expr *e, const std::vector<int> &indices);

private:
  Builder &build_;
  std::deque<Variable> variables_;
  std::vector<LoopIndex> loops_;
  int loop_count_ = 0;
};

} // namespace heddle::checking
