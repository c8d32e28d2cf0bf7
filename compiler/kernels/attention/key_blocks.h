// Tiles of rows x keys with lanes along the keys, a few rows and a block of keys at a time.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/kinds.h"

namespace heddle::attention {

/// Rows that can go over a block of keys together. A task that has no more of them copies the block's keys and values
/// when it comes to them; others copy all keys first.
constexpr int most_rows_at_once = 192;

struct KeyBlockSizes {
  int rows;   // that are computed at a time
  int keys;   // of a block; 0: all of them are one block
  int blocks; // of rows that a task has
};

/// Whether the kernel's statistics can be found with lanes along the keys; and whether block by block.
bool takes_key_blocks(const Match &match, bool several);

Status schedule_key_blocks(LoweredKernel &kernel, const Match &match, const KeyBlockSizes &sizes, const Target &target);

} // namespace heddle::attention
