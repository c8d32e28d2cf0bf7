// Tiles of rows x keys with lanes along the keys, a few rows and a block of keys at a time.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"

namespace heddle::attention {

struct KeyBlockSizes {
  int rows;    // that are computed at a time
  int keys;    // of a block; 0: all of them are one block
  int blocks;  // of rows that a task has
  int group;   // blocks of rows that go over a block of keys before the next one comes
  int at_once; // rows of a task up to which keys and values are copied block by block
};

/// Whether the kernel's statistics can be found with lanes along the keys; and whether block by block.
bool takes_key_blocks(const Match &match, bool several);

Status schedule_key_blocks(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel,
                           const KeyBlockSizes &sizes, const Target &target);

} // namespace heddle::attention
