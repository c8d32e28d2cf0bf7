// Which algorithm a row of the schedule names, and whether its sizes make sense for the target.
#include "compiler/kernels/attention/schedule.h"

#include "compiler/kernels/attention/key_blocks.h"
#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/attention/row_blocks.h"

namespace heddle::attention {

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  auto parameter = [&](const char *name) {
    auto found = row.params.find(name);
    return found == row.params.end() ? 0 : found->second;
  };
  int64_t rows = parameter("rows"), blocks = parameter("blocks"), keys = parameter("keys");
  Error wrong{"attention has no schedule of that form"};
  std::optional<Match> matched = match(kernel.function);
  if (!matched || rows < 1 || blocks < 0 || blocks > 1 << 20)
    return wrong;
  if (row.variant == "key_blocks") {
    int most = target.registers - target.registers / 4;
    if (rows > most || blocks < 1 || keys < 0 || keys > 1 << 20 || keys % (4 * target.lanes) != 0 ||
        !takes_key_blocks(*matched, keys > 0))
      return wrong;
    return schedule_key_blocks(kernel, *matched, {int(rows), int(keys), int(blocks)}, target);
  }
  if ((row.variant != "row_blocks" && row.variant != "copied_keys") || rows < target.lanes ||
      rows % target.lanes != 0 || rows > 8 * target.lanes || (row.variant == "copied_keys") != (blocks > 0))
    return wrong;
  return schedule_row_blocks(kernel, *matched, int(rows), int(blocks), target);
}

} // namespace heddle::attention
