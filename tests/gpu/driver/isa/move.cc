// mov, packing and unpacking of registers, and conversions of addresses between spaces.
#include "tests/gpu/driver/device/access.h"
#include "tests/gpu/driver/isa/lanes.h"

#include <chrono>

namespace ptx {
namespace {

template <class T> void copy(Warp &warp, const Op &op, Mask mask) {
  T values[warp_size];
  memcpy(values, warp.reg<T>(op.a), sizeof values);
  store_lanes(warp, op.d, mask, values);
}

void copy_predicate(Warp &warp, const Op &op, Mask mask) { warp.set_predicate(op.d, warp.predicate(op.a), mask); }

/// The elements of a vector into one register, the first one lowest.
void pack(Warp &warp, const Op &op, Mask mask) {
  u32 each = op.type.bits / op.vector;
  u64 keep = (1ull << each) - 1;
  for_lanes(mask, [&](int l) {
    u64 whole = 0;
    for (u32 i = 0; i < op.vector; i++)
      whole |= (warp.reg<u32>(op.list[i])[l] & keep) << (each * i);
    if (op.type.bits == 64)
      warp.reg<u64>(op.d)[l] = whole;
    else
      warp.reg<u32>(op.d)[l] = u32(whole);
  });
}

void unpack(Warp &warp, const Op &op, Mask mask) {
  u32 each = op.type.bits / op.vector;
  u64 keep = (1ull << each) - 1;
  for_lanes(mask, [&](int l) {
    u64 whole = op.type.bits == 64 ? warp.reg<u64>(op.a)[l] : warp.reg<u32>(op.a)[l];
    for (u32 i = 0; i < op.vector; i++)
      warp.reg<u32>(op.list[i])[l] = u32(whole >> (each * i) & keep);
  });
}

/// %clock and its like: nanoseconds of the host.
template <class T> void read_clock(Warp &warp, const Op &op, Mask mask) {
  T now = T(std::chrono::steady_clock::now().time_since_epoch().count());
  for_lanes(mask, [&](int l) { warp.reg<T>(op.d)[l] = now; });
}

void decode_move(Decoder &d, const Instruction &row) {
  Type type = type_named(split(row.name, '.')[1]);
  d.op.type = type;
  unsigned lane_bytes = type.kind == 'p' ? 0 : type.bits == 64 ? 8 : 4;
  bool to_vector = d.operand(0).kind == Operand::vector, from_vector = d.operand(1).kind == Operand::vector;
  if (to_vector || from_vector) {
    auto elements = d.elements(to_vector ? 0 : 1);
    d.op.vector = u8(elements.size());
    if (type.bits / d.op.vector > 32 || type.bits % d.op.vector)
      throw Unsupported{"elements of 64 bits"};
    std::vector<u32> offsets;
    for (const Operand &e : elements)
      offsets.push_back(to_vector ? d.destination(e, 4) : d.source(e, 4));
    d.list(offsets);
    d.op.execute = to_vector ? unpack : pack;
    if (to_vector)
      d.op.a = d.source(1, lane_bytes);
    else
      d.op.d = d.destination(0, lane_bytes);
    return;
  }
  d.op.d = d.destination(0, lane_bytes);
  int special = special_register(d.operand(1).text);
  if (special == clock_now || special == clock64_now)
    d.op.execute = lane_bytes == 8 ? read_clock<u64> : read_clock<u32>;
  d.op.a = d.source(1, lane_bytes);
}

/// cvta.space: from an address in the space to a generic one; cvta.to.space: back.
void decode_window(Decoder &d, const Instruction &row) {
  d.space_of_modifiers();
  u64 window = d.op.space == Space::shared  ? shared_window
               : d.op.space == Space::local ? local_window
               : d.op.space == Space::param ? param_window
                                            : 0;
  if (d.op.space == Space::param && d.builder.in_function())
    window = local_window;
  d.op.d = d.destination(0, 8);
  d.op.a = d.source(1, 8);
  d.op.immediate = s64(d.has("to") ? -window : window);
}

void move_window(Warp &warp, const Op &op, Mask mask) {
  const u64 *a = warp.reg<u64>(op.a);
  u64 results[warp_size];
  for (int l = 0; l < warp_size; l++)
    results[l] = a[l] + u64(op.immediate);
  store_lanes(warp, op.d, mask, results);
}

void test_space(Warp &warp, const Op &op, Mask mask) {
  const u64 *a = warp.reg<u64>(op.a);
  Mask result = 0;
  for (int l = 0; l < warp_size; l++)
    result |= Mask(space_of(a[l]) == op.space) << l;
  warp.set_predicate(op.d, result, mask);
}

} // namespace

void add_move_rows(Table &t) {
  for (std::string kind : {"b", "u", "s"}) {
    t.add({"mov." + kind + "16", copy<u32>, decode_move, Class::move});
    t.add({"mov." + kind + "32", copy<u32>, decode_move, Class::move});
    t.add({"mov." + kind + "64", copy<u64>, decode_move, Class::move});
  }
  t.add({"mov.f32", copy<u32>, decode_move, Class::move});
  t.add({"mov.f64", copy<u64>, decode_move, Class::move});
  t.add({"mov.pred", copy_predicate, decode_move, Class::predicate});
  for (std::string space : {"global", "shared", "local", "const", "param"}) {
    t.add({"cvta." + space + ".u64", move_window, decode_window});
    t.add({"cvta.to." + space + ".u64", move_window, decode_window});
    t.add({"isspacep." + space, test_space,
           [](Decoder &d, const Instruction &) {
             d.space_of_modifiers();
             d.op.d = d.destination(0, 0), d.op.a = d.source(1, 8);
           },
           Class::predicate});
  }
}

} // namespace ptx
