// From the addresses of 32 lanes to pointers of the host: finds the space of generic addresses, checks each address,
// keeps track of what has been written, and measures the access.
#pragma once

#include "tests/gpu/driver/device/block.h"

namespace ptx {

/// The addresses that op.a and op.offset give.
void lane_addresses(Warp &warp, const Op &op, u64 *addresses);
/// Those of op.b and op.second_offset.
void second_addresses(Warp &warp, const Op &op, u64 *addresses);

/// access.address holds the addresses; afterwards it holds them within their space, and access.host the pointers, also
/// (to some byte that may be read) for lanes that don't take part. `width`: bytes per lane, a power of two.
void reach(Warp &warp, const Op &op, Mask lanes, u32 width, Purpose purpose, Access &access);

/// Passes that it takes to write these bytes of shared memory, and the least; addresses are offsets in it.
void measure_passes(const u64 *addresses, Mask lanes, u32 width, u64 &cost, u64 &ideal);

/// The space of a generic address.
Space space_of(u64 address);

} // namespace ptx
