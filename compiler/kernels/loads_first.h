// Where one loop nest writes several results, such as a weight and the means of its gradients that a training step
// updates, Halide writes an element of one after the other, and reads what they are made of again for each. With this
// pass all of an element's values are computed before the first of them is written, so that none of the reads need
// stand behind a write.
//
//   a[i] = f(m[i], g[i]);  w[i] = h(p[i], f(m[i], g[i]))   →   let x = f(m[i], g[i]);  let y = h(p[i], f(m[i], g[i]));
//                                                              a[i] = x;  w[i] = y
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

std::shared_ptr<Halide::Internal::IRMutator> loads_first();

} // namespace heddle
