// Chains of carries: numbers of 128 bits in parts of 32 and of 64, against the processor's.
#include "tests/gpu/kernel.h"

#include <random>

namespace gpu_test {
namespace {

struct Carries : Gpu {};

using Wide = unsigned __int128;

/// d = a ? b for numbers of 128 bits in words of 32 or 64 bits; a and b in buffers 0 and 1, d in 2.
std::string chain(const std::string &first, const std::string &middle, const std::string &last, int words,
                  const std::string &type) {
  int bytes = 16 / words;
  std::string size = std::to_string(bytes * 8), t = "mul.wide.u32 %d0, %at, 16;\n";
  for (int i = 0; i < 3; i++)
    t += "add.u64 %p" + std::to_string(i) + ", %p" + std::to_string(i) + ", %d0;\n";
  t += ".reg .b" + size + " %a<4>, %b<4>, %s<4>;\n";
  for (int i = 0; i < words; i++)
    for (int p = 0; p < 2; p++)
      t += "ld.global.b" + size + " %" + std::string(p ? "b" : "a") + std::to_string(i) + ", [%p" + std::to_string(p) +
           "+" + std::to_string(i * bytes) + "];\n";
  for (int i = 0; i < words; i++) {
    std::string n = std::to_string(i);
    t += (i == 0 ? first : i == words - 1 ? last : middle) + "." + type + " %s" + n + ", %a" + n + ", %b" + n + ";\n";
  }
  for (int i = 0; i < words; i++)
    t += "st.global.b" + size + " [%p2+" + std::to_string(i * bytes) + "], %s" + std::to_string(i) + ";\n";
  return kernel(3, t);
}

std::vector<Wide> run(const std::string &text, const std::vector<Wide> &a, const std::vector<Wide> &b) {
  Program program(text);
  Buffer<Wide> da(a), db(b), dd(a.size());
  EXPECT_EQ(
      launch_blocks(program.kernel("k"), {1, 1, 1}, {unsigned(a.size()), 1, 1}, 0, da.address, db.address, dd.address),
      0)
      << heddle_emulator_message();
  return dd.read();
}

TEST_F(Carries, go_from_word_to_word) {
  std::mt19937_64 random(1);
  std::vector<Wide> a(256), b(256);
  for (size_t i = 0; i < a.size(); i++) {
    a[i] = Wide(random()) << 64 | random(), b[i] = Wide(random()) << 64 | random();
    if (i % 4 == 0)
      b[i] = ~a[i] + i % 3; // carries through all words
  }
  for (auto [words, type] : {std::pair{4, "u32"}, {4, "s32"}, {2, "u64"}, {2, "s64"}}) {
    std::vector<Wide> sums = run(chain("add.cc", "addc.cc", "addc", words, type), a, b);
    std::vector<Wide> all_set = run(chain("add.cc", "addc.cc", "addc.cc", words, type), a, b);
    std::vector<Wide> differences = run(chain("sub.cc", "subc.cc", "subc", words, type), a, b);
    std::vector<Wide> differences_set = run(chain("sub.cc", "subc.cc", "subc.cc", words, type), a, b);
    for (size_t i = 0; i < a.size(); i++) {
      ASSERT_TRUE(sums[i] == a[i] + b[i] && all_set[i] == sums[i]) << type << " " << i;
      ASSERT_TRUE(differences[i] == a[i] - b[i] && differences_set[i] == differences[i]) << type << " " << i;
    }
  }
}

/// (a * b) of two words each, in four words, schoolbook; every form of mad with carries takes part.
TEST_F(Carries, make_long_products) {
  for (std::string type : {"u32", "s32"}) {
    std::string t =
        "mul.wide.u32 %d0, %at, 16; add.u64 %p0, %p0, %d0; add.u64 %p1, %p1, %d0; add.u64 %p2, %p2, %d0;\n"
        ".reg .b32 %a<2>, %b<2>, %s<4>;\n"
        "ld.global.v2.u32 {%a0, %a1}, [%p0]; ld.global.v2.u32 {%b0, %b1}, [%p1];\n"
        "mul.lo.u32 %s0, %a0, %b0; mul.hi.u32 %s1, %a0, %b0; mul.lo.u32 %s2, %a1, %b1; mul.hi.u32 %s3, %a1, %b1;\n"
        "mad.lo.cc.T %s1, %a1, %b0, %s1; madc.hi.cc.U %s2, %a1, %b0, %s2; addc.T %s3, %s3, 0;\n"
        "mad.lo.cc.T %s1, %a0, %b1, %s1; madc.hi.cc.U %s2, %a0, %b1, %s2; addc.T %s3, %s3, 0;\n"
        "st.global.v4.u32 [%p2], {%s0, %s1, %s2, %s3};\n";
    for (size_t at; (at = t.find(".T ")) != t.npos;)
      t.replace(at, 3, "." + type + " ");
    for (size_t at; (at = t.find(".U ")) != t.npos;)
      t.replace(at, 3, ".u32 ");
    std::mt19937_64 random(2);
    std::vector<Wide> a(64), b(64);
    for (size_t i = 0; i < a.size(); i++)
      a[i] = i % 8 ? random() : ~0ull, b[i] = i % 5 ? random() : ~0ull;
    std::vector<Wide> products = run(kernel(3, t), a, b);
    for (size_t i = 0; i < a.size(); i++)
      ASSERT_TRUE(products[i] == a[i] * b[i]) << i;
  }
}

/// One step of each remaining form, on words of 32 and 64 bits, against what the manual says it is.
TEST_F(Carries, of_products_are_those_of_the_sum) {
  for (auto [type, bits] : {std::pair{"u32", 32}, {"s32", 32}, {"u64", 64}, {"s64", 64}})
    for (std::string half : {"lo", "hi"})
      for (std::string cc : {"", ".cc"}) {
        std::string size = std::to_string(bits), bytes = std::to_string(bits / 8), T = std::string(".") + type + " ";
        // A carry is made by -1 + 1; then the form; then what it carries.
        std::string t =
            "mul.wide.u32 %d0, %at, 16; add.u64 %p0, %p0, %d0; add.u64 %p1, %p1, %d0; add.u64 %p2, %p2, %d0;\n.reg .b" +
            size + " %x<9>;\nld.global.b" + size + " %x0, [%p0]; ld.global.b" + size + " %x1, [%p1]; ld.global.b" +
            size + " %x2, [%p0+8];\nmov.b" + size + " %x5, -1; add.cc" + T + "%x5, %x5, 1;\nmadc." + half + cc + T +
            "%x3, %x0, %x1, %x2; addc" + T + "%x4, 0, 0;\nst.global.b" + size + " [%p2], %x3; st.global.b" + size +
            " [%p2+8], %x4;\n" + "mad." + half + ".cc" + T + "%x3, %x0, %x1, %x2;\n";
        std::mt19937_64 random(3);
        std::vector<Wide> a(64), b(64);
        for (size_t i = 0; i < a.size(); i++)
          a[i] = Wide(i % 3 ? random() : ~0ull) << 64 | random(), b[i] = random();
        std::vector<Wide> got = run(kernel(3, t), a, b);
        uint64_t mask = bits == 64 ? ~0ull : 0xffffffffull;
        for (size_t i = 0; i < a.size(); i++) {
          Wide product = Wide(uint64_t(a[i]) & mask) * (uint64_t(b[i]) & mask);
          uint64_t part = uint64_t(half == "lo" ? product : product >> bits) & mask;
          if (half == "hi" && type[0] == 's') { // the high half of a product of signed numbers is another one
            auto sign = [&](uint64_t v) { return bits == 64 ? __int128(int64_t(v)) : __int128(int32_t(v)); };
            part = uint64_t(sign(uint64_t(a[i]) & mask) * sign(uint64_t(b[i]) & mask) >> bits) & mask;
          }
          Wide sum = Wide(part) + (uint64_t(a[i] >> 64) & mask) + 1;
          ASSERT_EQ(uint64_t(got[i]) & mask, uint64_t(sum) & mask) << type << half << cc << i;
          ASSERT_EQ(uint64_t(got[i] >> 64) & mask, cc.empty() ? 1u : uint64_t(sum >> bits)) << type << half << cc << i;
        }
      }
}

} // namespace
} // namespace gpu_test
