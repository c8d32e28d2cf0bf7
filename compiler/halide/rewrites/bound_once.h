// For passes that read something once, before everything else, which a statement names in many places.
#pragma once

#include <Halide.h>

#include <string>

namespace heddle {

class BoundOnce : public Halide::Internal::IRMutator {
public:
  using IRMutator::mutate;
  Halide::Internal::Stmt mutate(const Halide::Internal::Stmt &s) override {
    if (inside_)
      return IRMutator::mutate(s);
    inside_ = true;
    name_ = Halide::Internal::unique_name(prefix_);
    value_ = Halide::Expr();
    Halide::Internal::Stmt all = IRMutator::mutate(s);
    inside_ = false;
    return value_.defined() ? Halide::Internal::LetStmt::make(name_, value_, all) : all;
  }

protected:
  explicit BoundOnce(std::string prefix) : prefix_(std::move(prefix)) {}
  /// What stands in the place of the value, which is the same wherever it is asked for.
  Halide::Expr bound(const Halide::Expr &value) {
    value_ = value;
    return Halide::Internal::Variable::make(value.type(), name_);
  }

private:
  std::string prefix_, name_;
  Halide::Expr value_;
  bool inside_ = false;
};

} // namespace heddle
