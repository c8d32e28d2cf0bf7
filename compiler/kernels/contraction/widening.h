// Panels of narrow numbers are widened once for a block of rows: the first tile widens each step of the sum as it
// multiplies it, and writes it out for the tiles that follow. Multiplying hides nearly all of that, and would not hide
// a pass over the panel before the first tile. Works on the lowered statement, since in Halide's schedules whoever
// computes a Func is not one of its consumers.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>

namespace heddle::contraction {

struct Widening {
  std::string copy;      // the widened panel
  std::string copy_loop; // over its terms: the end of its name
  std::string sum_loop;  // over the same terms in a tile's sum, by its whole name
  std::string tile_loop; // around it: the end of its name
};

std::shared_ptr<Halide::Internal::IRMutator> make_pass(const Widening &widening);

} // namespace heddle::contraction
