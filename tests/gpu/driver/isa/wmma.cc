// wmma: tensor cores with fragments whose layout is nobody's business. Ours: the elements of the tile in row-major
// order, equally many in each lane, packed into its registers from the first one on.
#include "tests/gpu/driver/device/access.h"
#include "tests/gpu/driver/isa/matrix.h"

#include <algorithm>

namespace ptx {
namespace {

struct Fragment {
  int rows, columns;
  char kind; // of an element, as in matrix.h; i: s32
  constexpr int bits() const { return kind == 'F' || kind == 'B' ? 16 : kind == 's' || kind == 'u' ? 8 : 32; }
  constexpr int per_lane() const { return rows * columns / 32; }
  constexpr int registers() const { return per_lane() * bits() / 32; }
};

struct TileShape {
  int m, n, k;
};

u32 read_element(Warp &warp, const u32 *list, const Fragment &f, int e) {
  int l = e / f.per_lane(), i = e % f.per_lane(), packed = 32 / f.bits();
  u32 word = warp.reg<u32>(list[i / packed])[l];
  return f.bits() == 32 ? word : word >> (f.bits() * (i % packed)) & ((1u << f.bits()) - 1);
}

void write_element(Warp &warp, const u32 *list, const Fragment &f, int e, u32 bits) {
  int l = e / f.per_lane(), i = e % f.per_lane(), packed = 32 / f.bits();
  u32 &word = warp.reg<u32>(list[i / packed])[l];
  if (f.bits() == 32) {
    word = bits;
    return;
  }
  u32 shift = u32(f.bits() * (i % packed)), field = ((1u << f.bits()) - 1) << shift;
  word = (word & ~field) | (bits << shift & field);
}

template <Fragment f, bool is_store> void move_tile(Warp &warp, const Op &op, Mask) {
  u64 base[warp_size];
  lane_addresses(warp, op, base);
  u32 stride = warp.reg<u32>(op.b)[0];
  constexpr u32 width = f.bits() / 8;
  for (int l = 1; l < warp_size; l++)
    if (base[l] != base[0] || warp.reg<u32>(op.b)[l] != stride)
      warp.fault(op, l, Code::launch_failed, "the lanes of a warp give a tile different addresses or strides");
  for (int i = 0; i < f.per_lane(); i++) {
    Access access;
    for (int l = 0; l < warp_size; l++) {
      u32 e = u32(l * f.per_lane() + i), row = e / f.columns, column = e % f.columns;
      access.address[l] = base[0] + u64(op.flag ? column * stride + row : row * stride + column) * width;
    }
    reach(warp, op, all_lanes, width, is_store ? Purpose::write : Purpose::read, access);
    for (int l = 0; l < warp_size; l++) {
      int e = l * f.per_lane() + i;
      u32 bits = is_store ? read_element(warp, op.list, f, e) : 0;
      if constexpr (is_store)
        memcpy(access.host[l], &bits, width);
      else {
        memcpy(&bits, access.host[l], width);
        write_element(warp, op.list, f, e, bits);
      }
    }
  }
}

void convergent(Decoder &d) {
  d.op.flow = Flow::warp_sync;
  d.op.c = d.builder.constant(all_lanes, 4);
}

/// wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {…}, [p], stride; wmma.store.d … [p], {…}, stride
template <Fragment f, bool is_store> void decode_tile(Decoder &d, const Instruction &) {
  d.space_of_modifiers();
  d.address(is_store ? 0 : 1);
  d.op.flag = d.has("col");
  std::vector<u32> offsets;
  for (const Operand &e : d.elements(is_store ? 1 : 0))
    offsets.push_back(is_store ? d.source(e, 4) : d.destination(e, 4));
  if (int(offsets.size()) < f.registers()) // f16 has more than it needs
    malformed(d.statement.line,
              std::string(d.statement.opcode) + " takes " + std::to_string(f.registers()) + " registers");
  d.list(offsets);
  d.op.b = d.count() > 2 ? d.source(2, 4) : d.builder.constant(u64(d.op.flag ? f.rows : f.columns), 4);
  d.uses_shared(f.bits() / 8);
  convergent(d);
  d.op.count_as = d.op.space == Space::shared ? (is_store ? Class::store_shared : Class::load_shared)
                                              : (is_store ? Class::store_global : Class::load_global);
}

template <TileShape s, char a_kind, char c_kind, char d_kind> void multiply_tiles(Warp &warp, const Op &op, Mask) {
  constexpr Fragment fa{s.m, s.k, a_kind}, fb{s.k, s.n, a_kind}, fc{s.m, s.n, c_kind}, fd{s.m, s.n, d_kind};
  double a[s.m * s.k], b[s.k * s.n], c[s.m * s.n];
  const u32 *lists[4];
  lists[0] = op.list;
  for (int i = 1; i < 4; i++)
    lists[i] = lists[i - 1] + (op.immediate >> (8 * (i - 1)) & 255);
  for (int e = 0; e < s.m * s.k; e++)
    a[e] = element_value(a_kind, read_element(warp, lists[1], fa, e));
  for (int e = 0; e < s.k * s.n; e++)
    b[e] = element_value(a_kind, read_element(warp, lists[2], fb, e));
  for (int e = 0; e < s.m * s.n; e++) {
    u32 bits = read_element(warp, lists[3], fc, e);
    c[e] = c_kind == 'i' ? double(s32(bits)) : element_value(c_kind, bits);
  }
  multiply_add(a, b, c, s.m, s.n, s.k);
  for (int e = 0; e < s.m * s.n; e++) {
    u32 bits;
    if constexpr (d_kind == 'i')
      bits = op.flag ? u32(s32(std::clamp(c[e], -0x1p31, 0x1p31 - 1))) : u32(u64(s64(c[e])));
    else if constexpr (d_kind == 'F')
      bits = u32(round_to_format(c[e], f16_format, Rounding::nearest_even));
    else
      bits = std::bit_cast<u32>(canonical(float(c[e])));
    write_element(warp, lists[0], fd, e, bits);
  }
}

void decode_product(Decoder &d, const Instruction &) {
  std::vector<u32> offsets;
  for (size_t i = 0; i < 4; i++) {
    auto elements = d.elements(i);
    if (i < 3)
      d.op.immediate |= s64(elements.size()) << (8 * i);
    for (const Operand &e : elements)
      offsets.push_back(i ? d.source(e, 4) : d.destination(e, 4));
  }
  d.list(offsets);
  d.op.flag = d.has("satfinite");
  convergent(d);
}

template <TileShape s, char kind> void operand_rows(Table &t, const std::string &shape, const std::string &type) {
  constexpr Fragment a{s.m, s.k, kind}, b{s.k, s.n, kind};
  t.add({"wmma.load.a." + shape + "." + type, move_tile<a, false>, decode_tile<a, false>});
  t.add({"wmma.load.b." + shape + "." + type, move_tile<b, false>, decode_tile<b, false>});
}

template <TileShape s, char kind> void accumulator_rows(Table &t, const std::string &shape, const std::string &type) {
  constexpr Fragment c{s.m, s.n, kind};
  t.add({"wmma.load.c." + shape + "." + type, move_tile<c, false>, decode_tile<c, false>});
  t.add({"wmma.store.d." + shape + "." + type, move_tile<c, true>, decode_tile<c, true>});
}

template <TileShape s> void rows_of_shape(Table &t, const std::string &shape) {
  auto product = [&](const std::string &types, Execute execute) {
    t.add({"wmma.mma." + shape + "." + types, execute, decode_product, Class::matrix});
  };
  operand_rows<s, 'F'>(t, shape, "f16"), operand_rows<s, 'B'>(t, shape, "bf16");
  operand_rows<s, 's'>(t, shape, "s8"), operand_rows<s, 'u'>(t, shape, "u8");
  accumulator_rows<s, 'f'>(t, shape, "f32"), accumulator_rows<s, 'F'>(t, shape, "f16");
  accumulator_rows<s, 'i'>(t, shape, "s32");
  product("f32.f32", multiply_tiles<s, 'F', 'f', 'f'>), product("f16.f16", multiply_tiles<s, 'F', 'F', 'F'>);
  product("f32.f16", multiply_tiles<s, 'F', 'F', 'f'>), product("f16.f32", multiply_tiles<s, 'F', 'f', 'F'>);
  product("f32.bf16.bf16.f32", multiply_tiles<s, 'B', 'f', 'f'>);
  product("s32.s8.s8.s32", multiply_tiles<s, 's', 'i', 'i'>),
      product("s32.u8.u8.s32", multiply_tiles<s, 'u', 'i', 'i'>);
}

} // namespace

void add_wmma_rows(Table &t) {
  t.family("wmma", [](const Statement &s) {
    std::string key;
    for (std::string_view part : s.parts) {
      bool drop = part == "sync" || part == "aligned" || part == "row" || part == "col" || part == "satfinite" ||
                  part == "global" || part.substr(0, 6) == "shared";
      if (!drop)
        key.append(key.empty() ? "" : ".").append(part);
    }
    return key;
  });
  rows_of_shape<TileShape{16, 16, 16}>(t, "m16n16k16");
  rows_of_shape<TileShape{32, 8, 16}>(t, "m32n8k16");
  rows_of_shape<TileShape{8, 32, 16}>(t, "m8n32k16");
  constexpr TileShape tf32{16, 16, 8};
  operand_rows<tf32, 'T'>(t, "m16n16k8", "tf32");
  accumulator_rows<tf32, 'f'>(t, "m16n16k8", "f32");
  t.add({"wmma.mma.m16n16k8.f32.tf32.tf32.f32", multiply_tiles<tf32, 'T', 'f', 'f'>, decode_product, Class::matrix});
}

} // namespace ptx
