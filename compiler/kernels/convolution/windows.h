// The places that a factor reads, recovered from its expression: a window slides where a loop of the result and loops
// of the sum meet in one affine form, as S * i + T * u in x[S * i + T * u - P]. A factor that depends on these loops by
// their forms alone can be stored once per form instead of once per loop: a padded copy, not one copy per element of
// the window.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle::convolution {

/// A sum of variables with whole factors.
using Form = std::map<std::string, int64_t>;

/// `e` as a form in these loops, without what has none of them; nothing where it isn't affine in them.
std::optional<Form> form_of(const Halide::Expr &e, const std::vector<std::string> &loops);

/// Replaces the variables of each form by one variable of its own, where that is possible.
class Windows {
public:
  /// `value`: the factor. `places`: the result's loops that windows may slide along; `sums`: the loops of the sum;
  /// `others`: what else it may depend on.
  Windows(Halide::Expr value, const std::vector<Halide::Var> &places, const std::vector<Halide::Var> &sums,
          const std::vector<Halide::Var> &others);

  /// The factor over variables(), outermost of the read tensor last.
  const Halide::Expr &value() const { return value_; }
  const std::vector<Halide::Var> &variables() const { return variables_; }
  /// What each of variables() is in terms of the loops.
  const std::vector<Halide::Expr> &places() const { return places_; }
  /// Whether the sum's loop is part of a form with one of the result's.
  bool slides(const Halide::Var &sum) const;
  /// Whether the innermost of variables() is a place of the window, rather than, say, a channel.
  bool slides_innermost() const { return !variables_.empty() && forms_.count(variables_[0].name()); }
  /// The last place that variable number `i`, which is one of a window, has in loops of these extents.
  Halide::Expr last_place(size_t i, const std::map<std::string, Halide::Expr> &extents) const;
  /// Places of a window per place of the result: 4 where both of its axes have strides of 2.
  int64_t stride() const { return stride_; }

private:
  void replace(const Halide::Var &place, const std::vector<Halide::Var> &places, const std::vector<Halide::Var> &sums);

  Halide::Expr value_;
  std::map<std::string, Halide::Expr> forms_; // by the name of their variable
  std::vector<std::string> sliding_;
  int64_t stride_ = 1;
  std::vector<Halide::Var> variables_;
  std::vector<Halide::Expr> places_;
};

} // namespace heddle::convolution
