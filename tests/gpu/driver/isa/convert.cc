// cvt: between all types, with rounding, saturation and flushing. One general function through f64 or 128-bit
// integers, and vectorised ones for the conversions that kernels are full of.
#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"

#include <algorithm>

namespace ptx {
namespace {

enum Modifier : u16 { ftz = 1, sat = 2, relu = 4, finite = 8 };
enum class ToIntegral : u8 { no, nearest, zero, down, up };

bool is_float(Type t) { return t.kind == 'f' || t.kind == 'h' || t.kind == 't' || t.kind == '4' || t.kind == '5'; }

Format format_of(Type t) {
  switch (t.kind) {
  case 'h':
    return bf16_format;
  case 't':
    return tf32_format;
  case '4':
    return e4m3_format;
  case '5':
    return e5m2_format;
  default:
    return t.bits == 16 ? f16_format : f32_format;
  }
}

double float_value(Type t, u64 bits) {
  switch (t.kind) {
  case 'h':
    return float(bf16{u16(bits)});
  case '4': {
    u32 exponent = bits >> 3 & 15, fraction = bits & 7;
    double magnitude = (bits & 127) == 127 ? NAN
                       : exponent          ? std::ldexp(8 + fraction, int(exponent) - 10)
                                           : std::ldexp(fraction, -9);
    return bits & 128 ? -magnitude : magnitude;
  }
  case '5':
    return double(std::bit_cast<f16>(u16(bits << 8)));
  default:
    return t.bits == 16   ? double(std::bit_cast<f16>(u16(bits)))
           : t.bits == 32 ? double(std::bit_cast<float>(u32(bits)))
                          : std::bit_cast<double>(bits);
  }
}

double to_integral(double x, ToIntegral how) {
  switch (how) {
  case ToIntegral::nearest:
    return std::nearbyint(x);
  case ToIntegral::zero:
    return std::trunc(x);
  case ToIntegral::down:
    return std::floor(x);
  case ToIntegral::up:
    return std::ceil(x);
  default:
    return x;
  }
}

u64 float_bits(Type t, double x, Rounding rounding, u16 modifiers) {
  if (modifiers & sat)
    x = x > 0 ? std::min(x, 1.0) : 0.0;
  if (modifiers & relu)
    x = x != x || x > 0 ? x : 0.0;
  if (t.bits == 64)
    return std::bit_cast<u64>(x);
  u64 bits = round_to_format(x, format_of(t), rounding, modifiers & finite);
  if (t.kind == 't')
    bits <<= 13; // tf32 stands in the upper bits of an f32
  if (t == Type{'f', 32} && modifiers & ftz)
    bits = std::bit_cast<u32>(flush(std::bit_cast<float>(u32(bits))));
  return bits;
}

u64 mask_of(unsigned bits) { return bits == 64 ? ~0ull : (1ull << bits) - 1; }

u64 integer_of(Type to, Type from, double x) {
  if (x != x)
    return from.bits != 64 && to.bits != 64 ? 0 : 1ull << (to.bits - 1);
  bool is_signed = to.kind == 's';
  double lowest = is_signed ? -std::ldexp(1.0, to.bits - 1) : 0, beyond = std::ldexp(1.0, to.bits - is_signed);
  if (x >= beyond)
    return mask_of(to.bits) >> is_signed;
  if (x < lowest)
    return is_signed ? 1ull << (to.bits - 1) : 0;
  return (is_signed ? u64(s64(x)) : u64(x)) & mask_of(to.bits);
}

u64 float_of_integer(Type to, __int128 value, Rounding rounding, u16 modifiers) {
  double high = double(s64(value >> 32)) * 0x1p32, low = double(u64(value) & 0xffffffff);
  if (to.bits != 64)
    return float_bits(to, sum_to_odd(high, low), rounding, modifiers);
  double nearest = high + low;
  if (rounding == Rounding::nearest_even || std::fabs(nearest) < 0x1p53)
    return std::bit_cast<u64>(nearest);
  __int128 back = __int128(nearest);
  if (back > value && (rounding == Rounding::down || (rounding == Rounding::zero && value > 0)))
    nearest = std::nextafter(nearest, -INFINITY);
  if (back < value && (rounding == Rounding::up || (rounding == Rounding::zero && value < 0)))
    nearest = std::nextafter(nearest, INFINITY);
  return std::bit_cast<u64>(nearest);
}

u64 converted(const Op &op, u64 bits) {
  Type to = op.type, from = op.source_type;
  u16 modifiers = op.mode;
  Rounding rounding = Rounding(op.immediate & 15);
  if (is_float(from)) {
    double x = float_value(from, bits);
    if (modifiers & ftz && from == Type{'f', 32})
      x = flush(float(x));
    x = to_integral(x, ToIntegral(op.immediate >> 4));
    return is_float(to) ? float_bits(to, x, rounding, modifiers) : integer_of(to, from, x);
  }
  bits &= mask_of(from.bits);
  bool negative = from.kind == 's' && bits >> (from.bits - 1);
  __int128 value = negative ? __int128(bits) - (__int128(1) << from.bits) : __int128(bits);
  if (is_float(to))
    return float_of_integer(to, value, rounding, modifiers);
  if (modifiers & sat) {
    __int128 one = 1, least = to.kind == 's' ? -(one << (to.bits - 1)) : 0;
    value = std::clamp(value, least, (one << (to.bits - (to.kind == 's'))) - 1);
  }
  return u64(value) & mask_of(to.bits);
}

/// The value in a register that is wider than the type: by its sign.
u64 widened(Type t, u64 bits) {
  return t.kind == 's' && t.bits < 64 && bits >> (t.bits - 1) & 1 ? bits | ~mask_of(t.bits) : bits;
}

u64 lane(Warp &warp, u32 offset, unsigned bytes, int l) {
  return bytes == 8 ? warp.reg<u64>(offset)[l] : warp.reg<u32>(offset)[l];
}

/// op.vector: 2 where two sources are packed, the first one above; op.flag: where one source holds two.
void convert(Warp &warp, const Op &op, Mask mask) {
  unsigned source_bytes = op.source_type.bits == 64 ? 8 : op.q; // q: of the source register
  for_lanes(mask, [&](int l) {
    u64 a = lane(warp, op.a, source_bytes, l), result;
    if (op.flag)
      result = converted(op, a & mask_of(op.source_type.bits)) |
               converted(op, a >> op.source_type.bits & mask_of(op.source_type.bits)) << op.type.bits;
    else if (op.vector == 2)
      result = converted(op, a) << op.type.bits | converted(op, warp.reg<u32>(op.b)[l]);
    else
      result = widened(op.type, converted(op, a));
    if (op.lane_bytes == 8)
      warp.reg<u64>(op.d)[l] = result;
    else
      warp.reg<u32>(op.d)[l] = u32(result);
  });
}

template <class F> Execute vectorised(F) { return &LaneFunction<decltype(&F::operator())>::execute; }

/// The same as convert() for plain conversions between registers of their own size; null where there is none.
Execute fast(const Op &op, unsigned source_register_bytes) {
  Type to = op.type, from = op.source_type;
  bool is_plain = op.mode == 0 && op.vector == 1;
  Rounding rounding = Rounding(op.immediate & 15);
  ToIntegral integral = ToIntegral(op.immediate >> 4);
  bool nearest = rounding == Rounding::nearest_even;
  if (!is_plain)
    return nullptr;
  auto integers = [&](unsigned to_bits, const char *from_kinds, unsigned from_bits) {
    return to.bits == to_bits && strchr("usb", to.kind) && strchr(from_kinds, from.kind) && from.bits == from_bits &&
           source_register_bytes == (from_bits == 64 ? 8 : 4) && op.lane_bytes == (to_bits == 64 ? 8 : 4);
  };
  if (integers(32, "usb", 64))
    return vectorised([](u64 a) { return u32(a); });
  if (integers(64, "ub", 32))
    return vectorised([](u32 a) { return u64(a); });
  if (integers(64, "s", 32))
    return vectorised([](s32 a) { return s64(a); });
  if (integers(32, "ub", 16))
    return vectorised([](u32 a) { return a & 0xffff; });
  if (integers(32, "s", 16))
    return vectorised([](u32 a) { return s32(s16(a)); });
  if (source_register_bytes != 4 || op.lane_bytes != 4)
    return nullptr;
  constexpr Type f32{'f', 32}, f16_type{'f', 16}, bf16_type{'h', 16};
  if (to == f32 && from == Type{'s', 32} && nearest)
    return vectorised([](s32 a) { return float(a); });
  if (to == f32 && from == Type{'u', 32} && nearest)
    return vectorised([](u32 a) { return float(a); });
  if (to == f32 && from == f16_type)
    return vectorised([](u32 a) { return canonical(float(std::bit_cast<f16>(u16(a)))); });
  if (to == f32 && from == bf16_type)
    return vectorised([](u32 a) { return canonical(std::bit_cast<float>(a << 16)); });
  if (to == f16_type && from == f32 && nearest && integral == ToIntegral::no)
    return vectorised([](float a) { return canonical(f16(a)); });
  if (to == bf16_type && from == f32 && nearest && integral == ToIntegral::no)
    return vectorised([](float a) { return to_bf16(a); });
  return nullptr;
}

void decode_convert(Decoder &d, const Instruction &row) {
  std::vector<std::string_view> names = split(row.name, '.');
  bool pair = names[1].size() > 2 && names[1].substr(names[1].size() - 2) == "x2";
  auto single = [](std::string_view name) -> Type {
    if (name.size() > 2 && name.substr(name.size() - 2) == "x2")
      name.remove_suffix(2);
    if (name == "e4m3")
      return {'4', 8};
    if (name == "e5m2")
      return {'5', 8};
    return type_named(name);
  };
  d.op.type = single(names[1]), d.op.source_type = single(names[2]);
  d.op.flag = names[2].substr(names[2].size() - 2) == "x2";
  d.op.mode = u16((d.has("ftz") ? ftz : 0) | (d.has("sat") ? sat : 0) | (d.has("relu") ? relu : 0) |
                  (d.has("satfinite") ? finite : 0));
  Rounding rounding = d.has("rz")    ? Rounding::zero
                      : d.has("rm")  ? Rounding::down
                      : d.has("rp")  ? Rounding::up
                      : d.has("rna") ? Rounding::nearest_away
                                     : Rounding::nearest_even;
  ToIntegral integral = d.has("rni")   ? ToIntegral::nearest
                        : d.has("rzi") ? ToIntegral::zero
                        : d.has("rmi") ? ToIntegral::down
                        : d.has("rpi") ? ToIntegral::up
                                       : ToIntegral::no;
  if (is_float(d.op.source_type) && !is_float(d.op.type) && integral == ToIntegral::no)
    malformed(d.statement.line, std::string(d.statement.opcode) + " needs .rni, .rzi, .rmi or .rpi");
  d.op.immediate = s64(rounding) | s64(integral) << 4;
  auto register_bytes = [&](size_t i, Type t) {
    Type type = d.register_type(d.operand(i));
    return type.bits ? (type.bits == 64 ? 8u : 4u) : t.bits == 64 ? 8u : 4u;
  };
  d.op.lane_bytes = u8(register_bytes(0, d.op.type));
  d.op.q = register_bytes(1, d.op.source_type);
  if (d.op.source_type.bits == 64 && d.op.q != 8)
    malformed(d.statement.line, "the source of " + std::string(d.statement.opcode) + " has less than 64 bits");
  d.op.d = d.destination(0, d.op.lane_bytes);
  d.op.a = d.source(1, d.op.q);
  if (pair && !d.op.flag) {
    d.op.vector = 2;
    d.op.b = d.source(2, 4);
  }
  if (!d.op.flag)
    if (Execute function = fast(d.op, d.op.q))
      d.op.execute = function;
}

/// The two types, which are the last parts.
std::string conversion_key(const Statement &s) {
  if (s.parts.size() < 3 || s.has("pack"))
    return join_without(s, {});
  return "cvt." + std::string(s.parts[s.parts.size() - 2]) + "." + std::string(s.parts.back());
}

/// cvt.pack.sat.convert.s32.b32 d, a, b, c: a and b saturated, below them what is shifted up of c.
template <class T> void pack(Warp &warp, const Op &op, Mask mask) {
  constexpr int bits = 8 * sizeof(T);
  const s32 *a = warp.reg<s32>(op.a), *b = warp.reg<s32>(op.b);
  const u32 *c = warp.reg<u32>(op.c);
  auto saturated = [](s32 x) {
    return u32(
        std::make_unsigned_t<T>(std::clamp<s32>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
  };
  u32 results[warp_size];
  for (int l = 0; l < warp_size; l++)
    results[l] = saturated(a[l]) << bits | saturated(b[l]) | (bits == 8 ? c[l] << 16 : 0);
  store_lanes(warp, op.d, mask, results);
}

} // namespace

void add_convert_rows(Table &t) {
  t.family("cvt", conversion_key);
  auto row = [&](const std::string &to, const std::string &from) {
    t.add({"cvt." + to + "." + from, convert, decode_convert, Class::integer});
  };
  const std::string types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"};
  for (const std::string &to : types)
    for (const std::string &from : types) {
      bool bf16 = to == "bf16" || from == "bf16", byte = to.size() == 2 || from.size() == 2;
      if (!bf16 || !byte)
        row(to, from);
    }
  row("f16x2", "f32"), row("bf16x2", "f32"), row("tf32", "f32");
  for (std::string narrow : {"e4m3x2", "e5m2x2"})
    row(narrow, "f32"), row(narrow, "f16x2"), row("f16x2", narrow);
  t.add({"cvt.pack.sat.u8.s32.b32", pack<u8>, decode_lanes, Class::integer, {4, 4, 4, 4}});
  t.add({"cvt.pack.sat.s8.s32.b32", pack<s8>, decode_lanes, Class::integer, {4, 4, 4, 4}});
  t.add({"cvt.pack.sat.u16.s32", pack<u16>, decode_lanes, Class::integer, {4, 4, 4}});
  t.add({"cvt.pack.sat.s16.s32", pack<s16>, decode_lanes, Class::integer, {4, 4, 4}});
}

} // namespace ptx
