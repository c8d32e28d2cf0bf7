// ld, ldu, st, of one element or a vector.
#include "tests/gpu/driver/device/access.h"
#include "tests/gpu/driver/isa/lanes.h"

namespace ptx {
namespace {

/// A lane of the register from memory of type T: extended by T's sign where it is wider.
template <class T, class L> void load(Warp &warp, const Op &op, Mask mask) {
  Access access;
  lane_addresses(warp, op, access.address);
  reach(warp, op, mask, sizeof(T) * op.vector, op.flag ? Purpose::atomic : Purpose::read, access);
  for (u32 i = 0; i < op.vector; i++) {
    L values[warp_size];
    if (access.consecutive && op.vector == 1) {
      T raw[warp_size];
      memcpy(raw, access.host[0], sizeof raw);
      for (int l = 0; l < warp_size; l++)
        values[l] = L(s64(raw[l]));
    } else if (access.uniform) {
      T value;
      memcpy(&value, access.host[0] + i * sizeof(T), sizeof value);
      for (L &v : values)
        v = L(s64(value));
    } else
      for (int l = 0; l < warp_size; l++) {
        T value;
        memcpy(&value, access.host[l] + i * sizeof(T), sizeof value);
        values[l] = L(s64(value));
      }
    store_lanes(warp, op.list[i], mask, values);
  }
}

/// The kernel's parameters are the same for all lanes where the address is in the text.
template <class T, class L> void load_parameter(Warp &warp, const Op &op, Mask mask) {
  const u8 *at = warp.block->parameters + warp.reg<u64>(op.a)[0] + op.offset;
  for (u32 i = 0; i < op.vector; i++) {
    T value;
    memcpy(&value, at + i * sizeof(T), sizeof value);
    L values[warp_size];
    for (L &v : values)
      v = L(s64(value));
    store_lanes(warp, op.list[i], mask, values);
  }
}

template <class T, class L> void store(Warp &warp, const Op &op, Mask mask) {
  Access access;
  lane_addresses(warp, op, access.address);
  reach(warp, op, mask, sizeof(T) * op.vector, op.flag ? Purpose::atomic : Purpose::write, access);
  if (access.consecutive && op.vector == 1) {
    const L *from = warp.reg<L>(op.list[0]);
    T raw[warp_size];
    for (int l = 0; l < warp_size; l++)
      raw[l] = T(from[l]);
    memcpy(access.host[0], raw, sizeof raw);
    return;
  }
  for (u32 i = 0; i < op.vector; i++) {
    const L *from = warp.reg<L>(op.list[i]);
    for_lanes(mask, [&](int l) {
      T value = T(from[l]);
      memcpy(access.host[l] + i * sizeof(T), &value, sizeof value);
    });
  }
  if (!warp.block->checks || access.space == Space::local || op.flag)
    return;
  // Several lanes at one address: which value stays is undefined, unless it is the same.
  for (u32 i = 0; i < op.vector; i++) {
    const L *from = warp.reg<L>(op.list[i]);
    for_lanes(mask, [&](int l) {
      T value = T(from[l]);
      if (memcmp(access.host[l] + i * sizeof(T), &value, sizeof value))
        warp.fault(op, l, Code::launch_failed,
                   "race: lanes of one warp store different values at " + hex(access.address[l]));
    });
  }
}

template <class T, class L> Execute function(bool is_store) { return is_store ? &store<T, L> : &load<T, L>; }

template <class L> Execute function_of(bool is_store, Type type) {
  bool sign = type.kind == 's';
  switch (type.bits) {
  case 8:
    return sign ? function<s8, L>(is_store) : function<u8, L>(is_store);
  case 16:
    return sign ? function<s16, L>(is_store) : function<u16, L>(is_store);
  case 32:
    return sign ? function<s32, L>(is_store) : function<u32, L>(is_store);
  default:
    return function<u64, L>(is_store);
  }
}

template <class L> Execute parameter_function_of(Type type) {
  bool sign = type.kind == 's';
  switch (type.bits) {
  case 8:
    return sign ? &load_parameter<s8, L> : &load_parameter<u8, L>;
  case 16:
    return sign ? &load_parameter<s16, L> : &load_parameter<u16, L>;
  case 32:
    return sign ? &load_parameter<s32, L> : &load_parameter<u32, L>;
  default:
    return &load_parameter<u64, L>;
  }
}

Class class_of(Space space, bool is_store) {
  switch (space) {
  case Space::shared:
    return is_store ? Class::store_shared : Class::load_shared;
  case Space::local:
    return Class::local;
  case Space::constant:
  case Space::param:
    return Class::parameter;
  default:
    return is_store ? Class::store_global : Class::load_global;
  }
}

void decode(Decoder &d, const Instruction &row) {
  bool is_store = d.statement.parts[0] == "st";
  d.op.type = type_named(d.last());
  for (std::string_view part : d.statement.parts)
    if (part.size() == 2 && part[0] == 'v')
      d.op.vector = u8(part[1] - '0');
  // Accesses that other threads may see in the middle are no races.
  d.op.flag = d.has("volatile") || d.has("relaxed") || d.has("acquire") || d.has("release");
  d.space_of_modifiers();
  d.address(is_store ? 0 : 1);
  auto elements = d.elements(is_store ? 1 : 0);
  if (elements.size() != d.op.vector)
    malformed(d.statement.line,
              std::string(d.statement.opcode) + " with " + std::to_string(elements.size()) + " registers");
  unsigned bytes = d.op.type.bits == 64 ? 8 : 4;
  for (const Operand &e : elements) // registers may be wider than what is loaded or stored
    if (d.register_type(e).bits == 64)
      bytes = 8;
  d.op.lane_bytes = u8(bytes);
  std::vector<u32> offsets;
  for (const Operand &e : elements)
    offsets.push_back(is_store ? d.source(e, bytes) : d.destination(e, bytes));
  d.list(offsets);
  d.uses_shared(d.op.type.bytes());
  d.op.count_as = class_of(d.op.space, is_store);
  const Operand &base = d.operand(is_store ? 0 : 1).items[0];
  bool fixed = d.op.space == Space::param && !is_store && !d.register_type(base).bits;
  if (fixed)
    d.op.execute = bytes == 8 ? parameter_function_of<u64>(d.op.type) : parameter_function_of<u32>(d.op.type);
  else
    d.op.execute = bytes == 8 ? function_of<u64>(is_store, d.op.type) : function_of<u32>(is_store, d.op.type);
}

/// "ld.f32": neither space nor caching nor vectors make another instruction.
std::string key(const Statement &s) { return (s.parts[0] == "st" ? "st." : "ld.") + std::string(s.parts.back()); }

} // namespace

void add_load_rows(Table &t) {
  for (const char *opcode : {"ld", "ldu", "st"})
    t.family(opcode, key);
  for (std::string opcode : {"ld.", "st."}) {
    for (std::string kind : {"b", "u", "s"})
      for (std::string bits : {"8", "16", "32", "64"})
        t.add({opcode + kind + bits, execute_nothing, decode, Class::load_global});
    t.add({opcode + "f32", execute_nothing, decode, Class::load_global});
    t.add({opcode + "f64", execute_nothing, decode, Class::load_global});
  }
}

} // namespace ptx
