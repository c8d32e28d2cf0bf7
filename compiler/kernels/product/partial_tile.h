// A tile at the end of the rows, or of few rows, need not multiply all that its registers hold. The loop over the sum
// is there once for every number of rows; which one a tile takes is asked once, before its sum:
//
//   for k { sum[0] += …; … sum[7] += … }  →  if (no second row) for k { sum[0] += … }
//                                            else if (no third row) for k { sum[0] += …; sum[1] += … } …
//                                            else for k { sum[0] += …; … sum[7] += … }
//
// Works on the lowered statement: a schedule of Halide's knows one number of rows. The others keep what they began
// with.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>

namespace heddle {

struct PartialTile {
  std::string sum; // the Func over (lane, row, others..), all of whose rows are in registers
  int rows, width; // of a tile
};

/// Rows past the end are those whose place in a factor is held back by a minimum; where they aren't nothing changes,
/// nor does where Halide has made a loop of its own for the tiles that have all rows.
std::shared_ptr<Halide::Internal::IRMutator> make_pass(const PartialTile &tile);

} // namespace heddle
