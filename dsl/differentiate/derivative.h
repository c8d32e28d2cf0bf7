// Reverse mode on one scalar expression.
#pragma once

#include "dsl/differentiate/terms.h"

namespace heddle::differentiating {

/// Whether `e` varies with an element of a tensor that is `active`, where nothing is stopped.
bool depends(Term e, const std::function<bool(const Tensor *)> &active);

/// For every distinct read of an active tensor in `value`, the adjoint of what it reads, where `seed` is the adjoint of
/// `value`; in the order in which they are met.
std::vector<std::pair<Term, Term>> derivative(Terms &terms, Term value, Term seed,
                                              const std::function<bool(const Tensor *)> &active);

} // namespace heddle::differentiating
