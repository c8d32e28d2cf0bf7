// Functions of single instructions that the builder and the rows refer to by name, and the special registers.
#pragma once

#include "tests/gpu/driver/device/block.h"

#include <string_view>

namespace ptx {

void execute_nothing(Warp &, const Op &, Mask);
void execute_unknown(Warp &, const Op &, Mask);        // not in the table
void execute_undefined_call(Warp &, const Op &, Mask); // of a function that the module only declares
void execute_recursion(Warp &, const Op &, Mask);
void execute_copy_local(Warp &, const Op &, Mask); // arguments and results of a call

enum Special : u8 {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_smem_size,
  total_smem_size,
  smid,
  nsmid,
  gridid,
  cluster_zero,
  cluster_one,
  clock_now,
  clock64_now,
};

/// -1 where no special register has this name.
int special_register(std::string_view name);
unsigned special_lane_bytes(int what);

} // namespace ptx
