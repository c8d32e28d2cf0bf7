// Two loops of a sum as one, where both factors lie so that the outer loop goes on where the inner one ends, as with
// the channels and the columns of a filter:
//
//   for v in 0..3 { for c in 0..64 { sum += window[(x + v) * 64 + c] * filter[v * 64 + c] } }
//     → for c in 0..192 { sum += window[x * 64 + c] * filter[c] }
//
// A processor guesses wrongly where a loop of some dozens of steps ends, which costs as much as several of them. The
// order of the terms stays. Works on the lowered statement, where it can be seen how things lie.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>

namespace heddle::convolution {

/// Joins the loops over the sum of the Func of that name.
std::shared_ptr<Halide::Internal::IRMutator> join_loops(const std::string &sum);

} // namespace heddle::convolution
