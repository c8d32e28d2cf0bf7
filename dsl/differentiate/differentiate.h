// Gradients as programs: from the steps that compute a scalar, the steps that compute its derivative with respect to
// any of the tensors that it depends on, by reverse mode. What comes out are stages like any others.
//
//   loss = sum[s, o](c[s, o] * y[s, o])      y[s, o] = sum[i](x[s, i] * w[o, i])      gives for w
//   w.grad[o, i] = sum[s](c[s, o] * x[s, i])
#pragma once

#include "dsl/check/program.h"

#include <functional>

namespace heddle {

struct Gradient {
  const Tensor *of;     // a weight, an input, or the result of a stage outside of loops
  const Tensor *result; // of kind stage, with the shape and the type of `of`
};

/// Why there is none: "`t` is a product of what varies", with the place that is to blame.
struct NoGradient {
  Span span;
  std::string reason;
};

/// Appends to `steps`, in which `loss` is computed, what computes the gradients. Loops among the steps come to collect
/// what the way back reads. `unique` makes a name that no tensor of the program has. `unrelated` becomes those that the
/// loss does not depend on.
std::optional<NoGradient> differentiate(Program &program, std::vector<Step> &steps, const Tensor *loss,
                                        const std::vector<Gradient> &gradients,
                                        const std::function<std::string(const std::string &)> &unique,
                                        std::vector<const Tensor *> &unrelated);

} // namespace heddle
