// Rows for instructions that do the same in each lane. A row is a name and a function of scalars; operands, their
// sizes and the loop over the lanes, which the compiler vectorises, follow from the function's type:
//   lanes("min.s32", [](s32 a, s32 b) { return std::min(a, b); })
#pragma once

#include "tests/gpu/driver/isa.h"
#include "tests/gpu/driver/isa/common.h"

#include <bit>
#include <cfenv>
#include <cstring>
#include <type_traits>

namespace ptx {

/// A lane of a register has 4 or 8 bytes; narrower values are in its low bits.
template <class T> using Lane = std::conditional_t<sizeof(T) == 8, u64, u32>;
template <size_t bytes>
using Bits =
    std::conditional_t<bytes == 1, u8, std::conditional_t<bytes == 2, u16, std::conditional_t<bytes == 4, u32, u64>>>;

template <class T> inline T from_lane(Lane<T> lane) { return std::bit_cast<T>(Bits<sizeof(T)>(lane)); }
template <class T> inline Lane<T> to_lane(T value) { return std::bit_cast<Bits<sizeof(T)>>(value); }

/// Results into the lanes of the mask.
template <class T>
[[gnu::always_inline]] inline void store_lanes(Warp &warp, u32 offset, Mask mask, const T (&values)[warp_size]) {
  T *d = warp.reg<T>(offset);
  if (mask == all_lanes)
    memcpy(d, values, sizeof values);
  else
    for (int l = 0; l < warp_size; l++) {
      T keep = T(0) - T(mask >> l & 1); // bitwise, so that it is vectorised
      d[l] = (values[l] & keep) | (d[l] & ~keep);
    }
}

template <class F> struct LaneFunction;
template <class F, class R, class... A> struct LaneFunction<R (F::*)(A...) const> {
  static constexpr std::initializer_list<u8> operands{sizeof(Lane<R>), sizeof(Lane<A>)...};

  static void execute(Warp &warp, const Op &op, Mask mask) {
    const u32 offsets[] = {op.a, op.b, op.c};
    run(warp, op.d, mask, offsets, std::index_sequence_for<A...>());
  }

  template <size_t... i>
  [[gnu::always_inline]] static void run(Warp &warp, u32 d, Mask mask, const u32 *offsets, std::index_sequence<i...>) {
    alignas(64) Lane<R> results[warp_size];
    for (int l = 0; l < warp_size; l++)
      results[l] = to_lane<R>(F{}(from_lane<A>(warp.reg<Lane<A>>(offsets[i])[l])...));
    store_lanes(warp, d, mask, results);
  }
};

template <class F> Instruction lanes(std::string name, F, Class count_as = Class::integer) {
  using Function = LaneFunction<decltype(&F::operator())>;
  return {std::move(name), &Function::execute, decode_lanes, count_as, Function::operands};
}

/// The same with results rounded in another direction.
template <class F, int mode> struct RoundedFunction {
  static void execute(Warp &warp, const Op &op, Mask mask) {
    Execute volatile plain = &LaneFunction<decltype(&F::operator())>::execute; // not inlined across the change of mode
    fesetround(mode);
    plain(warp, op, mask);
    fesetround(FE_TONEAREST);
  }
};

template <int mode, class F> Instruction rounded_lanes(std::string name, F f, Class count_as) {
  Instruction row = lanes(std::move(name), f, count_as);
  row.execute = &RoundedFunction<F, mode>::execute;
  return row;
}

} // namespace ptx
