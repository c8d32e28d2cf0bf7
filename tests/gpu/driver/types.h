// Words that all of the emulator uses: sizes, lanes of a warp, address spaces, and where generic addresses lie.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptx {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

inline constexpr int warp_size = 32;
inline constexpr u32 max_warps = 32; // of a block
using Mask = u32;                    // one bit per lane
inline constexpr Mask all_lanes = ~0u;

enum class Space : u8 { generic, global, shared, local, constant, param };

// Generic addresses: device memory begins above every address that a host pointer can have, so that a pinned host
// pointer is its own device pointer and a device pointer used on the host faults. The other spaces are windows above.
inline constexpr u64 device_base = 0x0000'a000'0000'0000;
inline constexpr u64 shared_window = 1ull << 56;
inline constexpr u64 local_window = 2ull << 56;
inline constexpr u64 param_window = 3ull << 56;
inline constexpr u64 window_size = 1ull << 56;

struct Dim3 {
  u32 x = 1, y = 1, z = 1;
  u64 count() const { return u64(x) * y * z; }
};

} // namespace ptx
