// `grad(loss, w)`.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;
class Params;

class Gradients : Services {
public:
  Gradients(Context &context, Expressions &expressions, Params &params)
      : Services(context), expressions_(expressions), params_(params) {}

  void begin_entry() { derivatives_.clear(); }
  /// `grad(loss, w)`: a stage that holds the place of its result.
  Entity gradient(const Tree &e, Frame &frame);
  /// The tensors that the entry's gradients are of, their losses, and what holds their places.
  std::vector<const Tensor *> tensors() const;
  /// Puts the stages that compute the gradients in the places of those, once the entry is complete.
  void expand(Entry &entry);

private:
  struct Derivative {
    const Expr *formula; // of the loss, where that is no tensor
    const Tensor *loss, *of, *result;
    std::string loss_name, of_name; // as the author wrote them; of a loop over params none
    Span span;
  };

  Expressions &expressions_;
  Params &params_;
  std::vector<Derivative> derivatives_; // asked for by the entry at hand
};

} // namespace heddle::checking
