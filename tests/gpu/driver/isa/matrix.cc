// mma.sync, ldmatrix, stmatrix. Products are exact; a sum is made in f64 and rounded once, where a device
// rounds on the way: results agree within the error of a sum, not bit by bit.
#include "tests/gpu/driver/isa/matrix.h"
#include "tests/gpu/driver/device/access.h"

#include <algorithm>

namespace ptx {

double element_value(char kind, u32 bits) {
  switch (kind) {
  case 'F':
    return double(std::bit_cast<f16>(u16(bits)));
  case 'B':
    return float(bf16{u16(bits)});
  case 'T':
    return std::bit_cast<float>(bits & ~0x1fffu); // the low bits of a tf32 are not looked at
  case 's':
    return s8(bits);
  case 'u':
    return u8(bits);
  default:
    return std::bit_cast<float>(bits);
  }
}

void multiply_add(const double *a, const double *b, double *c, int m, int n, int k) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < k; j++) {
      double x = a[i * k + j];
      for (int l = 0; l < n; l++)
        c[i * n + l] += x * b[j * n + l];
    }
}

namespace {

/// Where elements are: lane = 4 g + t. A register holds `packed` of them, one behind the other along k.
struct Shape {
  int m, k;
  char a, b;        // kinds of elements
  char accumulator; // F f16, f f32, i s32, d f64
  bool saturate;
  constexpr int packed() const { return a == 'T' || a == 'd' ? 1 : a == 'F' || a == 'B' ? 2 : 4; }
  constexpr int bits() const { return 32 / packed(); }
};

template <Shape shape> void multiply(Warp &warp, const Op &op, Mask) {
  constexpr int m = shape.m, n = 8, k = shape.k, packed = shape.packed(), bits = shape.bits();
  constexpr int per_lane = m * n / 32;
  constexpr int accumulators = shape.accumulator == 'F' ? per_lane / 2 : per_lane;
  constexpr int a_registers = m * k / 32 / packed, b_registers = n * k / 32 / packed;
  const u32 *d = op.list, *ra = d + accumulators, *rb = ra + a_registers, *rc = rb + b_registers;
  double a[m * k], b[k * n], c[m * n];
  auto place = [&](int l, int i) { // of accumulator element i
    return (l / 4 + 8 * (i >> 1)) * n + l % 4 * 2 + (i & 1);
  };
  for (int l = 0; l < warp_size; l++) {
    int g = l / 4, t = l % 4;
    for (int r = 0; r < a_registers; r++) {
      int row = m == 16 ? g + 8 * (r & 1) : g, column = t * packed + 4 * packed * (m == 16 ? r >> 1 : r);
      for (int j = 0; j < packed; j++)
        a[row * k + column + j] = shape.a == 'd' ? warp.reg<double>(ra[r])[l]
                                                 : element_value(shape.a, warp.reg<u32>(ra[r])[l] >> (bits * j % 32));
    }
    for (int r = 0; r < b_registers; r++)
      for (int j = 0; j < packed; j++)
        b[(t * packed + j + 4 * packed * r) * n + g] =
            shape.b == 'd' ? warp.reg<double>(rb[r])[l]
                           : element_value(shape.b, warp.reg<u32>(rb[r])[l] >> (bits * j % 32));
    for (int i = 0; i < per_lane; i++) {
      double value;
      if constexpr (shape.accumulator == 'F')
        value = element_value('F', warp.reg<u32>(rc[i / 2])[l] >> (16 * (i & 1)));
      else if constexpr (shape.accumulator == 'i')
        value = warp.reg<s32>(rc[i])[l];
      else if constexpr (shape.accumulator == 'd')
        value = warp.reg<double>(rc[i])[l];
      else
        value = warp.reg<float>(rc[i])[l];
      c[place(l, i)] = value;
    }
  }
  multiply_add(a, b, c, m, n, k);
  for (int l = 0; l < warp_size; l++)
    for (int i = 0; i < per_lane; i++) {
      double value = c[place(l, i)];
      if constexpr (shape.accumulator == 'F') {
        u32 &r = warp.reg<u32>(d[i / 2])[l];
        u32 half = u16(round_to_format(value, f16_format, Rounding::nearest_even));
        r = i & 1 ? (r & 0xffff) | half << 16 : half;
      } else if constexpr (shape.accumulator == 'i')
        warp.reg<s32>(d[i])[l] =
            shape.saturate ? s32(std::clamp(value, -0x1p31, 0x1p31 - 1)) : s32(u32(u64(s64(value))));
      else if constexpr (shape.accumulator == 'd')
        warp.reg<double>(d[i])[l] = value;
      else
        warp.reg<float>(d[i])[l] = canonical(float(value));
    }
}

template <Shape shape> void decode_multiply(Decoder &d, const Instruction &) {
  if (!d.has("row") || !d.has("col"))
    throw Unsupported{"layouts other than row, col"};
  constexpr unsigned bytes = shape.a == 'd' ? 8 : 4;
  std::vector<u32> offsets;
  for (size_t i = 0; i < 4; i++)
    for (const Operand &e : d.elements(i))
      offsets.push_back(i ? d.source(e, bytes) : d.destination(e, bytes));
  constexpr size_t per_lane = shape.m * 8 / 32, accumulators = shape.accumulator == 'F' ? per_lane / 2 : per_lane;
  constexpr size_t wanted = 2 * accumulators + size_t((shape.m + 8) * shape.k / 32 / shape.packed());
  if (offsets.size() != wanted)
    malformed(d.statement.line, std::string(d.statement.opcode) + " takes " + std::to_string(wanted) + " registers");
  d.list(offsets);
  d.op.flow = Flow::warp_sync;
  d.op.c = d.builder.constant(all_lanes, 4);
}

template <Shape shape> void row(Table &t, const std::string &name) {
  t.add({"mma." + name, multiply<shape>, decode_multiply<shape>, Class::matrix});
}

template <char a, char b> void integer_rows(Table &t, const std::string &types) {
  row<Shape{16, 16, a, b, 'i', false}>(t, "m16n8k16.s32." + types + ".s32");
  row<Shape{16, 32, a, b, 'i', false}>(t, "m16n8k32.s32." + types + ".s32");
  row<Shape{8, 16, a, b, 'i', false}>(t, "m8n8k16.s32." + types + ".s32");
  row<Shape{16, 16, a, b, 'i', true}>(t, "m16n8k16.satfinite.s32." + types + ".s32");
  row<Shape{16, 32, a, b, 'i', true}>(t, "m16n8k32.satfinite.s32." + types + ".s32");
  row<Shape{8, 16, a, b, 'i', true}>(t, "m8n8k16.satfinite.s32." + types + ".s32");
}

// --- ldmatrix: lane 8 i + r has the address of row r of matrix i, 8 elements of 16 bits
void reach_rows(Warp &warp, const Op &op, Purpose purpose, Access &access) {
  lane_addresses(warp, op, access.address);
  Mask used = op.vector == 4 ? all_lanes : (1u << 8 * op.vector) - 1;
  reach(warp, op, used, 16, purpose, access);
  if (access.space != Space::shared)
    warp.fault(op, 0, Code::illegal_address, "rows of a matrix that are not in shared memory");
}

void load_matrices(Warp &warp, const Op &op, Mask) {
  Access access;
  reach_rows(warp, op, Purpose::read, access);
  for (int i = 0; i < op.vector; i++) {
    u32 values[warp_size];
    for (int l = 0; l < warp_size; l++) {
      if (!op.flag)
        memcpy(&values[l], access.host[8 * i + l / 4] + l % 4 * 4, 4);
      else { // transposed
        u16 low, high;
        memcpy(&low, access.host[8 * i + l % 4 * 2] + l / 4 * 2, 2);
        memcpy(&high, access.host[8 * i + l % 4 * 2 + 1] + l / 4 * 2, 2);
        values[l] = low | u32(high) << 16;
      }
    }
    memcpy(warp.reg<u32>(op.list[i]), values, sizeof values);
  }
}

void store_matrices(Warp &warp, const Op &op, Mask) {
  Access access;
  reach_rows(warp, op, Purpose::write, access);
  for (int i = 0; i < op.vector; i++)
    for (int l = 0; l < warp_size; l++) {
      u32 value = warp.reg<u32>(op.list[i])[l];
      u16 low = u16(value), high = u16(value >> 16);
      if (!op.flag)
        memcpy(access.host[8 * i + l / 4] + l % 4 * 4, &value, 4);
      else {
        memcpy(access.host[8 * i + l % 4 * 2] + l / 4 * 2, &low, 2);
        memcpy(access.host[8 * i + l % 4 * 2 + 1] + l / 4 * 2, &high, 2);
      }
    }
}

void decode_matrices(Decoder &d, const Instruction &row) {
  bool is_store = d.statement.parts[0] == "stmatrix";
  d.space_of_modifiers();
  d.op.flag = d.has("trans");
  d.address(is_store ? 0 : 1);
  std::vector<u32> offsets;
  for (const Operand &e : d.elements(is_store ? 1 : 0))
    offsets.push_back(is_store ? d.source(e, 4) : d.destination(e, 4));
  d.op.vector = u8(offsets.size());
  if (row.name.back() - '0' != d.op.vector)
    malformed(d.statement.line, row.name + " with " + std::to_string(offsets.size()) + " registers");
  d.list(offsets);
  d.uses_shared(16);
  d.op.flow = Flow::warp_sync;
  d.op.c = d.builder.constant(all_lanes, 4);
}

} // namespace

void add_matrix_rows(Table &t) {
  t.family("mma", [](const Statement &s) { return join_without(s, {"sync", "aligned", "row", "col"}); });
  row<Shape{16, 8, 'F', 'F', 'f', false}>(t, "m16n8k8.f32.f16.f16.f32");
  row<Shape{16, 16, 'F', 'F', 'f', false}>(t, "m16n8k16.f32.f16.f16.f32");
  row<Shape{16, 8, 'F', 'F', 'F', false}>(t, "m16n8k8.f16.f16.f16.f16");
  row<Shape{16, 16, 'F', 'F', 'F', false}>(t, "m16n8k16.f16.f16.f16.f16");
  row<Shape{16, 8, 'B', 'B', 'f', false}>(t, "m16n8k8.f32.bf16.bf16.f32");
  row<Shape{16, 16, 'B', 'B', 'f', false}>(t, "m16n8k16.f32.bf16.bf16.f32");
  row<Shape{16, 4, 'T', 'T', 'f', false}>(t, "m16n8k4.f32.tf32.tf32.f32");
  row<Shape{16, 8, 'T', 'T', 'f', false}>(t, "m16n8k8.f32.tf32.tf32.f32");
  row<Shape{8, 4, 'd', 'd', 'd', false}>(t, "m8n8k4.f64.f64.f64.f64");
  integer_rows<'s', 's'>(t, "s8.s8"), integer_rows<'s', 'u'>(t, "s8.u8");
  integer_rows<'u', 's'>(t, "u8.s8"), integer_rows<'u', 'u'>(t, "u8.u8");
  auto matrices = [](const Statement &s) {
    std::string count = s.has("x4") ? "x4" : s.has("x2") ? "x2" : "x1";
    return s.has("m8n8") && s.has("b16") ? std::string(s.parts[0]) + "." + count : "";
  };
  t.family("ldmatrix", matrices);
  t.family("stmatrix", matrices);
  for (std::string count : {"x1", "x2", "x4"}) {
    t.add({"ldmatrix." + count, load_matrices, decode_matrices, Class::load_shared});
    t.add({"stmatrix." + count, store_matrices, decode_matrices, Class::store_shared});
  }
}

} // namespace ptx
