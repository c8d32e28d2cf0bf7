// Comparisons and choices: setp, set, selp, slct.
#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"

namespace ptx {
namespace {

/// One bit of each of 32 bytes that are 0 or 1.
Mask packed(const u8 (&flags)[warp_size]) {
  Mask result = 0;
  for (int i = 0; i < warp_size; i += 8) {
    u64 eight;
    memcpy(&eight, flags + i, 8);
    result |= Mask(eight * 0x0102040810204080 >> 56) << i;
  }
  return result;
}

/// The mask of the lanes in which F holds.
template <class T, class F> [[gnu::noinline]] Mask compare_lanes(Warp &warp, const Op &op) {
  const Lane<T> *a = warp.reg<Lane<T>>(op.a), *b = warp.reg<Lane<T>>(op.b);
  u8 flags[warp_size];
  for (int l = 0; l < warp_size; l++)
    flags[l] = F{}(from_lane<T>(a[l]), from_lane<T>(b[l]));
  return packed(flags);
}

enum Combine : u16 { alone, with_and, with_or, with_xor };

Mask combined(Warp &warp, const Op &op, Mask result) {
  Mask p = op.mode == alone ? 0 : warp.predicate(op.c);
  if (op.flag) // !c
    p = ~p;
  switch (op.mode) {
  case with_and:
    return result & p;
  case with_or:
    return result | p;
  case with_xor:
    return result ^ p;
  default:
    return result;
  }
}

/// setp p|q, a, b, c: p is (a ? b) op c, q is !(a ? b) op c.
template <class T, class F> void set_predicates(Warp &warp, const Op &op, Mask mask) {
  Mask result = compare_lanes<T, F>(warp, op);
  Mask p = combined(warp, op, result), q = combined(warp, op, ~result);
  warp.set_predicate(op.d, p, mask);
  if (op.vector == 2)
    warp.set_predicate(op.q, q, mask);
}

/// F of one half of pairs.
template <class T, class F, bool high> struct OfHalf {
  bool operator()(Two<T> a, Two<T> b) const { return high ? F{}(a.high, b.high) : F{}(a.low, b.low); }
};
/// setp p|q, a, b, c on pairs: p is of their low halves, q of their high ones.
template <class T, class F> void set_predicates_of_halves(Warp &warp, const Op &op, Mask mask) {
  Mask p = combined(warp, op, compare_lanes<Two<T>, OfHalf<T, F, false>>(warp, op));
  Mask q = combined(warp, op, compare_lanes<Two<T>, OfHalf<T, F, true>>(warp, op));
  warp.set_predicate(op.d, p, mask);
  warp.set_predicate(op.q, q, mask);
}

/// set d, a, b: all ones, or 1.0, where it holds.
template <class T, class F> void set_value(Warp &warp, const Op &op, Mask mask) {
  Mask result = combined(warp, op, compare_lanes<T, F>(warp, op));
  u32 yes = u32(op.immediate), values[warp_size];
  for (int l = 0; l < warp_size; l++)
    values[l] = result >> l & 1 ? yes : 0;
  store_lanes(warp, op.d, mask, values);
}

void combination(Decoder &d, size_t at) {
  if (d.count() <= at)
    return;
  d.op.mode = d.has("and") ? with_and : d.has("or") ? with_or : with_xor;
  d.op.c = d.predicate(d.operand(at), d.op.flag);
}

void decode_setp(Decoder &d, const Instruction &row) {
  const Operand &destination = d.operand(0);
  d.op.d = d.destination(0, 0);
  if (!destination.second.empty()) {
    Operand q = destination;
    q.text = destination.second;
    d.op.vector = 2;
    d.op.q = d.destination(q, 0);
  }
  d.op.a = d.source(1, row.operands[1]), d.op.b = d.source(2, row.operands[1]);
  combination(d, 3);
}

void decode_setp_of_halves(Decoder &d, const Instruction &row) {
  decode_setp(d, row);
  if (d.op.vector != 2)
    throw Unsupported{"one result of two comparisons"};
}

void decode_set(Decoder &d, const Instruction &row) {
  d.op.d = d.destination(0, 4);
  d.op.a = d.source(1, row.operands[1]), d.op.b = d.source(2, row.operands[1]);
  d.op.immediate = row.name.find(".f32.") != row.name.npos ? 0x3f800000 : 0xffffffff;
  combination(d, 3);
}

/// "setp.lt.ftz.f32" without .and, .or, .xor; for set the result's type is one of u32, s32, f32.
std::string comparison_key(const Statement &s) {
  std::string key = join_without(s, {"and", "or", "xor"});
  if (size_t at = key.find(".s32."); s.parts[0] == "set" && at != key.npos) // the same bits as .u32
    key.replace(at, 5, ".u32.");
  return key;
}

template <class T> class Comparisons {
public:
  Comparisons(Table &t, std::string rest) : table(t), rest(std::move(rest)) {}

  template <class F> void add(const std::string &name, F) const {
    table.add({"setp." + name + rest, set_predicates<T, F>, decode_setp, Class::predicate, {0, sizeof(Lane<T>)}});
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      table.add({"setp." + name + rest + "x2",
                 set_predicates_of_halves<T, F>,
                 decode_setp_of_halves,
                 Class::predicate,
                 {0, sizeof(Two<T>)}});
    size_t dot = rest.rfind('.');
    for (std::string result : {".u32", ".f32"})
      if (sizeof(T) > 2 || std::is_integral_v<T> || result == ".u32")
        table.add({"set." + name + rest.substr(0, dot) + result + rest.substr(dot),
                   set_value<T, F>,
                   decode_set,
                   Class::integer,
                   {4, sizeof(Lane<T>)}});
  }

private:
  Table &table;
  std::string rest;
};

template <class T> void integers(Table &t, const std::string &type) {
  Comparisons<T> c(t, "." + type);
  using U = std::make_unsigned_t<T>;
  c.add("eq", [](T a, T b) { return a == b; });
  c.add("ne", [](T a, T b) { return a != b; });
  if (type[0] == 'b')
    return;
  c.add("lt", [](T a, T b) { return a < b; });
  c.add("le", [](T a, T b) { return a <= b; });
  c.add("gt", [](T a, T b) { return a > b; });
  c.add("ge", [](T a, T b) { return a >= b; });
  if (type[0] == 's')
    return;
  c.add("lo", [](T a, T b) { return U(a) < U(b); });
  c.add("ls", [](T a, T b) { return U(a) <= U(b); });
  c.add("hi", [](T a, T b) { return U(a) > U(b); });
  c.add("hs", [](T a, T b) { return U(a) >= U(b); });
}

/// `in` makes of an operand what is compared: flushed, or wider.
template <class T, auto in> void floats(Table &t, const std::string &rest) {
  Comparisons<T> c(t, rest);
  c.add("eq", [](T a, T b) { return in(a) == in(b); });
  c.add("ne", [](T a, T b) { return in(a) < in(b) || in(a) > in(b); });
  c.add("lt", [](T a, T b) { return in(a) < in(b); });
  c.add("le", [](T a, T b) { return in(a) <= in(b); });
  c.add("gt", [](T a, T b) { return in(a) > in(b); });
  c.add("ge", [](T a, T b) { return in(a) >= in(b); });
  c.add("equ", [](T a, T b) { return !(in(a) < in(b) || in(a) > in(b)); }); // …u: or one is NaN
  c.add("neu", [](T a, T b) { return in(a) != in(b); });
  c.add("ltu", [](T a, T b) { return !(in(a) >= in(b)); });
  c.add("leu", [](T a, T b) { return !(in(a) > in(b)); });
  c.add("gtu", [](T a, T b) { return !(in(a) <= in(b)); });
  c.add("geu", [](T a, T b) { return !(in(a) < in(b)); });
  c.add("num", [](T a, T b) { return in(a) == in(a) && in(b) == in(b); });
  c.add("nan", [](T a, T b) { return in(a) != in(a) || in(b) != in(b); });
}

template <class T> void select(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.reg<T>(op.a), *b = warp.reg<T>(op.b);
  Mask p = warp.predicate(op.c);
  T results[warp_size];
  for (int l = 0; l < warp_size; l++)
    results[l] = p >> l & 1 ? a[l] : b[l];
  store_lanes(warp, op.d, mask, results);
}

template <class T> void selections(Table &t, const std::string &type) {
  constexpr u8 bytes = sizeof(Lane<T>);
  t.add({"selp." + type, select<Lane<T>>, decode_lanes, Class::move, {bytes, bytes, bytes, 0}});
  t.add(lanes("slct." + type + ".s32", [](T a, T b, s32 c) { return c >= 0 ? a : b; }, Class::move));
  t.add(lanes("slct." + type + ".f32", [](T a, T b, float c) { return c >= 0 ? a : b; }, Class::move));
  t.add(lanes("slct.ftz." + type + ".f32", [](T a, T b, float c) { return flush(c) >= 0 ? a : b; }, Class::move));
}

} // namespace

void add_compare_rows(Table &t) {
  t.family("setp", comparison_key);
  t.family("set", comparison_key);
  integers<u16>(t, "b16"), integers<u32>(t, "b32"), integers<u64>(t, "b64");
  integers<u16>(t, "u16"), integers<u32>(t, "u32"), integers<u64>(t, "u64");
  integers<s16>(t, "s16"), integers<s32>(t, "s32"), integers<s64>(t, "s64");
  floats<float, [](float x) { return x; }>(t, ".f32");
  floats<float, [](float x) { return flush(x); }>(t, ".ftz.f32");
  floats<double, [](double x) { return x; }>(t, ".f64");
  floats<f16, [](f16 x) { return float(x); }>(t, ".f16");
  floats<bf16, [](bf16 x) { return float(x); }>(t, ".bf16");
  for (std::string kind : {"b", "u", "s"}) {
    selections<u16>(t, kind + "16"), selections<u32>(t, kind + "32"), selections<u64>(t, kind + "64");
  }
  selections<u32>(t, "f32"), selections<u64>(t, "f64");
}

} // namespace ptx
