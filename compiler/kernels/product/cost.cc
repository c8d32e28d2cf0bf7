#include "compiler/kernels/product/cost.h"

#include <algorithm>

namespace heddle {

/// All of these processors begin two multiply-adds and two loads a cycle; the sum is ready after four.
static constexpr double per_cycle = 2, latency = 4;

/// Share of the FMA peak that full tiles of 1, 2, 3 and 4 vectors reach (measured on Cascade Lake, K = 768).
static constexpr double share_of_peak[] = {0.7, 0.94, 1.0, 0.98};

/// Instructions that widen a vector and that begin in the same places as multiply-adds: on Intel's cores the shift
/// does, and of 512 bits the conversion before it, too.
static double widening_instructions(const Target &target) { return target.registers < 32 ? 1 : 2; }

/// Of loading the panel from the second cache, what multiplying does not hide.
static constexpr double seen = 0.15;

double multiply_cycles(const TileShape &tile, bool unpacked, const Target &target, double instruction) {
  double accumulators = instruction * double(tile.rows * tile.vectors), vectors = double(tile.vectors);
  double share = share_of_peak[std::clamp<int64_t>(tile.vectors, 1, 4) - 1];
  double multiplying = std::max(accumulators / per_cycle / share, latency) +
                       (unpacked ? widening_instructions(target) * vectors / per_cycle : 0);
  double loads = (vectors + double(tile.rows)) / per_cycle;
  return std::max(multiplying, loads);
}

double step_cycles(const TileShape &tile, bool unpacked, const Target &target, double instruction) {
  double multiplying = multiply_cycles(tile, unpacked, target, instruction);
  double panel = double(tile.vectors * target.lanes) * 4 / target.l2_bytes_per_cycle;
  return std::max(multiplying, panel) + seen * std::min(multiplying, panel);
}

int64_t tile_height(const Target &target) { return target.registers < 32 ? 6 : 8; }

double tile_cycles(const TileShape &tile) { return 24 + double(tile.rows * tile.vectors); }

} // namespace heddle
