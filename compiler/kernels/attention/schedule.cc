// Which algorithm a row of the schedule names, and whether its sizes make sense for the target.
#include "compiler/kernels/attention/schedule.h"

#include "compiler/kernels/attention/key_blocks.h"
#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/attention/row_blocks.h"
#include "compiler/kernels/product/matrix_tile.h"

namespace heddle::attention {

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  auto parameter = [&](const char *name) { return int(row.params.at(name)); };
  std::optional<Match> matched = match(kernel.function);
  if (!matched)
    return Error{"attention's schedule needs a product over keys behind its result"};
  int rows = parameter("rows");
  const MicroKernel &micro_kernel = *find_micro_kernel(row.micro_kernel);
  if (row.variant == "key_blocks") {
    KeyBlockSizes sizes{rows, parameter("keys"), parameter("blocks"), parameter("group"), parameter("at_once")};
    int most = micro_kernel.takes_tiles() ? MatrixTile::width : target.registers - target.registers / 4;
    if (rows > most || sizes.keys % (4 * target.lanes) != 0 || !takes_key_blocks(*matched, sizes.keys > 0))
      return Error{"blocks of " + std::to_string(sizes.keys) + " keys and " + std::to_string(rows) +
                   " rows don't suit this kernel on this target"};
    return schedule_key_blocks(kernel, *matched, micro_kernel, sizes, target);
  }
  if (rows % target.lanes != 0 || rows > 8 * target.lanes)
    return Error{"blocks of " + std::to_string(rows) + " rows are no whole vectors of " + std::to_string(target.lanes)};
  return schedule_row_blocks(kernel, *matched, micro_kernel, rows,
                             row.variant == "copied_keys" ? parameter("blocks") : 0, target);
}

} // namespace heddle::attention
