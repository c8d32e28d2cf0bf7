// What register tiles are expected to cost a core, in cycles: the larger of multiplying and of loading what is
// multiplied. Constants are of current x86 cores; what they are good for is to tell candidates apart.
#pragma once

#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/targets/target.h"

#include <cstdint>

namespace heddle {

/// A tile of `rows` x `vectors` accumulators.
struct TileShape {
  int64_t rows, vectors;
};

/// Cycles of multiplying at a step of the sum (a group of terms). `unpacked`: the panel's elements are widened at every
/// step. `instruction`: its cost in multiply-adds (instruction_cost).
double multiply_cycles(const TileShape &tile, bool unpacked, const Target &target, double instruction = 1);

/// Cycles of a step where the panel is read from the second cache.
double step_cycles(const TileShape &tile, bool unpacked, const Target &target, double instruction = 1);

/// Cycles that a tile takes beside its steps: setting accumulators up, and what is done with the sums.
double tile_cycles(const TileShape &tile);

/// Rows of a tile that fills the registers with panels of two vectors (of 32 registers: of three).
int64_t tile_height(const Target &target);

} // namespace heddle
