// Tensor-core instructions against sums in f64; ldmatrix and stmatrix against plain loads.
#include "tests/gpu/instructions/cases.h"
#include "tests/gpu/kernel.h"

#include <cmath>
#include <random>

namespace gpu_test {
namespace {

struct Matrices : Gpu {};

struct Elements {
  std::string type; // of PTX
  unsigned bits() const {
    return type == "f64"                                      ? 64
           : type == "f32" || type == "s32" || type == "tf32" ? 32
           : type == "s8" || type == "u8"                     ? 8
                                                              : 16;
  }
  double value(uint64_t raw) const {
    if (type == "s8" || type == "u8" || type == "s32")
      return double(integer(type, raw));
    return double(real(type == "tf32" ? "f32" : type, type == "tf32" ? raw & ~0x1fffull : raw));
  }
  uint64_t raw(double v) const {
    return type[0] == 's' || type[0] == 'u' ? truncated(bits(), __int128(v))
                                            : nearest(type == "tf32" ? "f32" : type, v);
  }
};

/// A matrix in row-major order, as bytes.
struct Matrix {
  int rows, columns;
  Elements elements;
  std::vector<uint8_t> bytes;

  Matrix(int rows, int columns, std::string type, unsigned seed = 0) : rows(rows), columns(columns), elements{type} {
    unsigned each = elements.bits() / 8;
    bytes.resize(size_t(rows) * size_t(columns) * each);
    std::mt19937 random(seed);
    for (size_t i = 0; seed && i < bytes.size() / each; i++) {
      double v = type == "u8"    ? random() % 256
                 : type == "s8"  ? double(random() % 256) - 128
                 : type == "s32" ? double(random() % 2000) - 1000
                                 : (double(random() % 257) - 128) / 64;
      uint64_t raw = elements.raw(v);
      memcpy(&bytes[i * each], &raw, each);
    }
  }
  double at(int r, int c) const {
    unsigned each = elements.bits() / 8;
    uint64_t raw = 0;
    memcpy(&raw, &bytes[size_t(r * columns + c) * each], each);
    return elements.value(raw);
  }
};

void expect_product(const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d, const std::string &what) {
  double tolerance = d.elements.type == "f16" ? 2e-3 : d.elements.type == "f32" ? 1e-6 : 0;
  for (int i = 0; i < d.rows; i++)
    for (int j = 0; j < d.columns; j++) {
      double sum = c.at(i, j), size = std::fabs(sum);
      for (int k = 0; k < a.columns; k++)
        sum += a.at(i, k) * b.at(k, j), size += std::fabs(a.at(i, k) * b.at(k, j));
      ASSERT_LE(std::fabs(d.at(i, j) - sum), tolerance * size)
          << what << " at " << i << ", " << j << ": " << d.at(i, j) << " not " << sum;
    }
}

/// Runs a kernel over the four matrices in buffers 0 to 3 and gives back the last one.
Matrix run(const std::string &text, const Matrix &a, const Matrix &b, const Matrix &c, Matrix d) {
  Program program(text);
  Buffer<uint8_t> da(a.bytes), db(b.bytes), dc(c.bytes), dd(d.bytes.size());
  EXPECT_EQ(
      launch_blocks(program.kernel("k"), {1, 1, 1}, {32, 1, 1}, 0, da.address, db.address, dc.address, dd.address), 0)
      << heddle_emulator_message() << text;
  d.bytes = dd.read();
  return d;
}

// The layouts of mma.sync, written from the manual's figures: groupID = lane / 4, t = lane % 4.
std::string load_fragments(int m, int n, int k, const std::string &ab, const std::string &cd, std::string &operands) {
  Elements e{ab}, acc{cd};
  int per = std::max(1, int(32 / e.bits())); // elements of a register, along k
  std::string t = "shr.u32 %r30, %tid0, 2; and.b32 %r31, %tid0, 3;\n";
  std::string reg = e.bits() == 64 ? "%x" : "%x";
  t += ".reg .b" + std::string(e.bits() == 64 ? "64" : "32") + " %a<9>, %b<9>; .reg .b" +
       (acc.bits() == 64 ? "64" : "32") + " %c<9>, %z<9>;\n.reg .b64 %w<3>; .reg .b32 %u<6>; .reg .b16 %v<4>; \n";
  // address of element (row register, column register) of a matrix with `columns`, base %pN, into %w0
  auto address = [&](int p, const std::string &row, const std::string &column, int columns, unsigned bits) {
    return "mad.lo.u32 %u3, " + row + ", " + std::to_string(columns) + ", " + column + "; mul.wide.u32 %w0, %u3, " +
           std::to_string(bits / 8) + "; add.u64 %w0, %w0, %p" + std::to_string(p) + ";\n";
  };
  auto pack = [&](const std::string &to, int p, bool along_row,
                  int columns) { // elements (%u0, %u1 + j) or (%u0 + j, %u1)
    std::string s;
    for (int j = 0; j < per; j++) {
      s += address(p, "%u0", "%u1", columns, e.bits());
      if (e.bits() >= 32)
        s += "ld.global.b" + std::to_string(e.bits()) + " " + to + ", [%w0];\n";
      else
        s += "ld.global.u" + std::to_string(e.bits()) + " %u4, [%w0]; shl.b32 %u4, %u4, " +
             std::to_string(j * int(e.bits())) + "; " +
             (j ? "or.b32 " + to + ", " + to + ", %u4;\n" : "mov.b32 " + to + ", %u4;\n");
      s += std::string("add.u32 ") + (along_row ? "%u1, %u1" : "%u0, %u0") + ", 1;\n";
    }
    return s;
  };
  int na = m * k / 32 / per, nb = n * k / 32 / per, nc = m * n / 32;
  std::string la, lb, lc, lz;
  for (int i = 0; i < na; i++) {
    int row = m == 16 ? 8 * (i % 2) : 0, column = 4 * per * (m == 16 ? i / 2 : i);
    t += "add.u32 %u0, %r30, " + std::to_string(row) + "; mad.lo.u32 %u1, %r31, " + std::to_string(per) + ", " +
         std::to_string(column) + ";\n";
    t += pack("%a" + std::to_string(i), 0, true, k);
    la += (i ? ", %a" : "%a") + std::to_string(i);
  }
  for (int i = 0; i < nb; i++) {
    t += "mad.lo.u32 %u0, %r31, " + std::to_string(per) + ", " + std::to_string(4 * per * i) + "; mov.u32 %u1, %r30;\n";
    t += pack("%b" + std::to_string(i), 1, false, n);
    lb += (i ? ", %b" : "%b") + std::to_string(i);
  }
  int registers = cd == "f16" ? nc / 2 : nc;
  for (int i = 0; i < registers; i++) {
    int element = cd == "f16" ? 2 * i : i;
    t += "add.u32 %u0, %r30, " + std::to_string(8 * (element / 2)) + "; mad.lo.u32 %u1, %r31, 2, " +
         std::to_string(element % 2) + ";\n" + address(2, "%u0", "%u1", n, acc.bits()) + "ld.global.b" +
         (acc.bits() == 64 ? "64" : "32") + " %c" + std::to_string(i) + ", [%w0];\n";
    lc += (i ? ", %c" : "%c") + std::to_string(i);
    lz += (i ? ", %z" : "%z") + std::to_string(i);
  }
  operands = "{" + lz + "}, {" + la + "}, {" + lb + "}, {" + lc + "};\n";
  std::string store;
  for (int i = 0; i < registers; i++) {
    int element = cd == "f16" ? 2 * i : i;
    store += "add.u32 %u0, %r30, " + std::to_string(8 * (element / 2)) + "; mad.lo.u32 %u1, %r31, 2, " +
             std::to_string(element % 2) + ";\n" + address(3, "%u0", "%u1", n, acc.bits()) + "st.global.b" +
             (acc.bits() == 64 ? "64" : "32") + " [%w0], %z" + std::to_string(i) + ";\n";
  }
  operands += store;
  return t;
}

TEST_F(Matrices, multiply_by_mma) {
  struct Form {
    int m, k;
    const char *a, *b, *acc;
  };
  std::vector<Form> forms = {
      {16, 8, "f16", "f16", "f32"},   {16, 16, "f16", "f16", "f32"},  {16, 8, "f16", "f16", "f16"},
      {16, 16, "f16", "f16", "f16"},  {16, 8, "bf16", "bf16", "f32"}, {16, 16, "bf16", "bf16", "f32"},
      {16, 4, "tf32", "tf32", "f32"}, {16, 8, "tf32", "tf32", "f32"}, {8, 4, "f64", "f64", "f64"}};
  for (const char *a : {"s8", "u8"})
    for (const char *b : {"s8", "u8"})
      for (auto [m, k] : {std::pair{8, 16}, {16, 16}, {16, 32}})
        forms.push_back({m, k, a, b, "s32"});
  for (const Form &f : forms)
    for (bool saturates : {false, true}) {
      if (saturates && std::string(f.acc) != "s32")
        continue;
      std::string operands;
      std::string body = load_fragments(f.m, 8, f.k, f.a, f.acc, operands);
      std::string name = "mma.sync.aligned.m" + std::to_string(f.m) + "n8k" + std::to_string(f.k) + ".row.col" +
                         (saturates ? ".satfinite." : ".") + f.acc + "." + f.a + "." + f.b + "." + f.acc + " ";
      Matrix a(f.m, f.k, f.a, 1), b(f.k, 8, f.b, 2), c(f.m, 8, f.acc, 3);
      Matrix d = run(kernel(4, body + name + operands), a, b, c, Matrix(f.m, 8, f.acc));
      expect_product(a, b, c, d, name);
    }
}

TEST_F(Matrices, saturate_sums_where_it_is_said) {
  for (bool saturates : {false, true}) {
    std::string operands, body = load_fragments(16, 8, 32, "s8", "s32", operands);
    Matrix a(16, 32, "s8", 1), b(32, 8, "s8", 2), c(16, 8, "s32");
    int32_t most = INT32_MAX - 5;
    for (size_t i = 0; i < 128; i++)
      memcpy(&c.bytes[4 * i], &most, 4);
    std::string name =
        std::string("mma.sync.aligned.m16n8k32.row.col") + (saturates ? ".satfinite" : "") + ".s32.s8.s8.s32 ";
    Matrix d = run(kernel(4, body + name + operands), a, b, c, Matrix(16, 8, "s32"));
    for (int i = 0; i < 16; i++)
      for (int j = 0; j < 8; j++) {
        int64_t sum = most;
        for (int k = 0; k < 32; k++)
          sum += int64_t(a.at(i, k) * b.at(k, j));
        EXPECT_EQ(d.at(i, j), saturates ? double(std::min<int64_t>(sum, INT32_MAX)) : double(int32_t(uint32_t(sum))));
      }
  }
}

TEST_F(Matrices, multiply_by_wmma) {
  struct Shape {
    int m, n, k;
  };
  auto fragment = [](const std::string &name, int registers) {
    std::string list = "{";
    for (int i = 0; i < registers; i++)
      list += (i ? ", %" : "%") + name + std::to_string(i);
    return list + "}";
  };
  for (Shape s : {Shape{16, 16, 16}, {32, 8, 16}, {8, 32, 16}, {16, 16, 8}})
    for (std::string type : {"f16", "bf16", "s8", "u8", "tf32"})
      for (std::string acc : {"f32", "f16", "s32"})
        for (std::string result_type : {"f32", "f16", "s32"}) {
          bool whole = type == "s8" || type == "u8";
          if ((s.k == 8) != (type == "tf32") || whole != (acc == "s32") || whole != (result_type == "s32") ||
              (type != "f16" && acc == "f16") || (type != "f16" && result_type == "f16"))
            continue;
          for (bool column_major : {false, true}) {
            std::string shape = "m" + std::to_string(s.m) + "n" + std::to_string(s.n) + "k" + std::to_string(s.k);
            unsigned bits = Elements{type}.bits();
            int na = type == "f16" ? 8 : s.m * s.k * int(bits) / 1024,
                nb = type == "f16" ? 8 : s.k * s.n * int(bits) / 1024;
            int nc = acc == "f16" ? 4 : 8, nd = result_type == "f16" ? 4 : 8;
            std::string types =
                type == "f16" ? "." + result_type + "." + acc : "." + result_type + "." + type + "." + type + "." + acc;
            std::string b_layout = column_major ? "col" : "row", b_stride = std::to_string(column_major ? s.k : s.n);
            std::string body = ".reg .b32 %a<8>, %b<8>, %c<8>, %z<8>;\nwmma.load.a.sync.aligned.row." + shape +
                               ".global." + type + " " + fragment("a", na) + ", [%p0], " + std::to_string(s.k) +
                               ";\nwmma.load.b.sync.aligned." + b_layout + "." + shape + ".global." + type + " " +
                               fragment("b", nb) + ", [%p1], " + b_stride + ";\nwmma.load.c.sync.aligned.row." + shape +
                               ".global." + acc + " " + fragment("c", nc) + ", [%p2], " + std::to_string(s.n) +
                               ";\nwmma.mma.sync.aligned.row." + b_layout + "." + shape + types + " " +
                               fragment("z", nd) + ", " + fragment("a", na) + ", " + fragment("b", nb) + ", " +
                               fragment("c", nc) + ";\nwmma.store.d.sync.aligned.row." + shape + ".global." +
                               result_type + " [%p3], " + fragment("z", nd) + ", " + std::to_string(s.n) + ";\n";
            Matrix a(s.m, s.k, type, 1), b(s.k, s.n, type, 2), c(s.m, s.n, acc, 3);
            Matrix stored = b;
            if (column_major) {
              size_t each = bits / 8;
              for (int k = 0; k < s.k; k++)
                for (int n = 0; n < s.n; n++)
                  memcpy(&stored.bytes[size_t(n * s.k + k) * each], &b.bytes[size_t(k * s.n + n) * each], each);
            }
            Matrix d = run(kernel(4, body), a, stored, c, Matrix(s.m, s.n, result_type));
            expect_product(a, b, c, d, "wmma " + shape + types);
          }
        }
}

TEST_F(Matrices, are_loaded_and_stored_by_rows_of_eight) {
  heddle_emulator_set("sm", 90);
  for (int count : {1, 2, 4})
    for (bool transposed : {false, true}) {
      std::string x = "x" + std::to_string(count), list;
      for (int i = 0; i < count; i++)
        list += (i ? ", %r" : "%r") + std::to_string(10 + i);
      std::string trans = transposed ? ".trans" : "";
      // Shared memory holds the numbers 0, 1, … of 16 bits; each lane's results go to a buffer, then back by stmatrix.
      std::string body = "mov.u32 %r1, s; shl.b32 %r2, %tid0, 4; add.u32 %r3, %r1, %r2; shl.b32 %r4, %tid0, 3;\n";
      for (int i = 0; i < 8; i++)
        body +=
            "add.u32 %r5, %r4, " + std::to_string(i) + "; st.shared.u16 [%r3+" + std::to_string(2 * i) + "], %r5;\n";
      body += "bar.warp.sync -1;\nldmatrix.sync.aligned.m8n8." + x + trans + ".shared.b16 {" + list + "}, [%r3];\n";
      body += "add.u32 %r6, %r3, 512; stmatrix.sync.aligned.m8n8." + x + trans + ".shared.b16 [%r6], {" + list + "};\n";
      body += "bar.warp.sync -1;\nmul.wide.u32 %d1, %tid0, 32; add.u64 %d1, %d1, %p0;\n";
      for (int i = 0; i < count; i++)
        body += "st.global.b32 [%d1+" + std::to_string(4 * i) + "], %r" + std::to_string(10 + i) + ";\n";
      body += "setp.ge.u32 %q1, %tid0, " + std::to_string(8 * count) + "; @%q1 ret;\n";
      for (int i = 0; i < 4; i++)
        body += "ld.shared.b32 %r7, [%r6+" + std::to_string(4 * i) + "]; st.global.b32 [%d1+" +
                std::to_string(16 + 4 * i) + "], %r7;\n";
      Program program(kernel(1, body, ".shared .align 16 .b8 s[1024];\n", "sm_90"));
      Buffer<uint32_t> out(std::vector<uint32_t>(256));
      ASSERT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {32, 1, 1}, 0, out.address), 0)
          << heddle_emulator_message();
      std::vector<uint32_t> got = out.read();
      for (uint32_t l = 0; l < 32; l++) {
        for (uint32_t i = 0; i < uint32_t(count); i++) {
          auto element = [&](uint32_t row, uint32_t column) { return 64 * i + 8 * row + column; };
          uint32_t low = transposed ? element(l % 4 * 2, l / 4) : element(l / 4, l % 4 * 2);
          uint32_t high = transposed ? element(l % 4 * 2 + 1, l / 4) : element(l / 4, l % 4 * 2 + 1);
          EXPECT_EQ(got[8 * l + i], low | high << 16) << x << trans << " lane " << l;
        }
        for (uint32_t j = 0; j < 4 && l < 8u * unsigned(count); j++)
          EXPECT_EQ(got[8 * l + 4 + j], (8 * l + 2 * j) | (8 * l + 2 * j + 1) << 16)
              << "stmatrix " << x << trans << " row " << l;
      }
    }
  heddle_emulator_set("sm", 80);
}

} // namespace
} // namespace gpu_test
