// Loads, stores and atomics in all spaces and widths, generic addresses, and the parameters of a kernel.
#include "tests/gpu/kernel.h"

#include <bit>
#include <numeric>

namespace gpu_test {
namespace {

struct MemoryAccess : Gpu {};

/// Each type once: stored by one lane's own value, loaded into a register of its size, in a space of its own.
TEST_F(MemoryAccess, of_each_width_and_type) {
  for (std::string space : {"global", "shared", "local", ""})
    for (std::string type :
         {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
      unsigned bits = unsigned(atoi(type.c_str() + 1));
      std::string dot = space.empty() ? "" : "." + space;
      std::string declarations = ".shared .align 16 .b8 s[512];\n.global .align 16 .b8 g[512];\n";
      std::string body = ".local .align 16 .b8 local[16];\n";
      body += space == "local"    ? "mov.u64 %d1, local;\n"
              : space == "shared" ? "mov.u64 %d1, s; mul.wide.u32 %d2, %tid0, 8; add.u64 %d1, %d1, %d2;\n"
                                  : "mov.u64 %d1, g; mul.wide.u32 %d2, %tid0, 8; add.u64 %d1, %d1, %d2;\n";
      body += "mul.lo.u32 %r1, %tid0, 0x91a2b3c5;\nmov.b64 %d3, {%r1, %r1};\n";
      std::string value = bits == 64   ? "%d3"
                          : bits == 16 ? "%h1"
                                       : "%r1",
                  back = bits == 64   ? "%d4"
                         : bits == 16 ? "%h2"
                                      : "%r2";
      body += "cvt.u16.u32 %h1, %r1;\n";
      body += "st" + dot + "." + type + " [%d1], " + value + ";\nld" + dot + "." + type + " " + back + ", [%d1];\n";
      if (bits == 64)
        body += "mov.b64 {%r2, %r3}, %d4; sub.u32 %r3, %r3, %r1; or.b32 %r2, %r2, %r3;\n";
      if (bits == 16)
        body += "cvt." + std::string(type[0] == 's' ? "s32.s16" : "u32.u16") + " %r2, %h2;\n";
      std::vector<uint32_t> got = words(body + result("%r2"), 32, declarations);
      for (uint32_t t = 0; t < 32; t++) {
        uint32_t x = t * 0x91a2b3c5u;
        uint32_t expected = type == "s8"    ? uint32_t(int8_t(x))
                            : bits == 8     ? x & 255
                            : type == "s16" ? uint32_t(int16_t(x))
                            : bits == 16    ? x & 0xffff
                                            : x;
        ASSERT_EQ(got[t], expected) << space << " " << type << " lane " << t;
      }
    }
}

TEST_F(MemoryAccess, of_vectors) {
  std::string body = "mul.wide.u32 %d1, %tid0, 16; add.u64 %d1, %d1, %p0; ld.global.nc.L1::no_allocate.v4.b32 {%r1, "
                     "%r2, %r3, %r4}, [%d1];\n"
                     "ld.global.v2.u64 {%d2, %d3}, [%d1]; mov.b64 {%r5, %r6}, %d3; add.u32 %r6, %r6, %r1;\n"
                     "st.global.v4.b32 [%d1], {%r4, %r3, _, %r6};";
  body.replace(body.find("_, "), 3, "%r2, ");
  Program program(kernel(1, body));
  std::vector<uint32_t> values(128);
  std::iota(values.begin(), values.end(), 0);
  Buffer<uint32_t> out(values);
  ASSERT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {32, 1, 1}, 0, out.address), 0) << heddle_emulator_message();
  std::vector<uint32_t> got = out.read();
  for (uint32_t t = 0; t < 32; t++) {
    EXPECT_EQ(got[4 * t], 4 * t + 3);
    EXPECT_EQ(got[4 * t + 1], 4 * t + 2);
    EXPECT_EQ(got[4 * t + 2], 4 * t + 1);
    EXPECT_EQ(got[4 * t + 3], 8 * t + 3);
  }
}

/// Places of local memory that look like one row across the lanes are in another frame each.
TEST_F(MemoryAccess, of_local_memory_at_places_that_differ_by_lane) {
  std::string body =
      ".local .align 4 .b8 mine[128]; mov.u64 %d1, mine; mul.wide.u32 %d2, %tid0, 4; add.u64 %d2, %d1, %d2;\n"
      "st.local.u32 [%d2], %tid0; add.u32 %r1, %tid0, 100; xor.b32 %r2, %tid0, 1; mul.wide.u32 %d3, %r2, 4;\n"
      "add.u64 %d3, %d1, %d3; st.local.u32 [%d3], %r1; ld.local.u32 %r3, [%d2]; ld.local.u32 %r4, [%d3];\n"
      "mad.lo.u32 %r3, %r4, 1000, %r3;";
  std::vector<uint32_t> got = words(body + result("%r3"), 32);
  for (uint32_t t = 0; t < 32; t++)
    EXPECT_EQ(got[t], (t + 100) * 1000 + t);
}

TEST_F(MemoryAccess, by_generic_addresses) {
  std::string declarations = ".shared .align 4 .b8 s[128];\n.const .align 4 .u32 c = 7;\n";
  std::string body = R"(
	.local .align 4 .b8 mine[8];
	mov.u64 %d1, s;
	cvta.shared.u64 %d2, %d1;
	mul.wide.u32 %d3, %tid0, 4;
	add.u64 %d2, %d2, %d3;
	st.u32 [%d2], %tid0;
	mov.u64 %d4, mine;
	cvta.local.u64 %d5, %d4;
	add.u32 %r1, %tid0, 100;
	st.u32 [%d5+4], %r1;
	ld.u32 %r2, [%d2];
	ld.u32 %r3, [%d5+4];
	add.u32 %r2, %r2, %r3;
	isspacep.shared %q1, %d2;
	isspacep.local %q2, %d5;
	isspacep.global %q3, %p0;
	isspacep.shared %q4, %p0;
	isspacep.const %q6, %d2;
	isspacep.param %q7, %d2;
	and.pred %q5, %q1, %q2;
	and.pred %q5, %q5, %q3;
	not.pred %q4, %q4;
	and.pred %q5, %q5, %q4;
	@!%q5 mov.u32 %r2, 0;
	cvta.to.shared.u64 %d6, %d2;
	ld.shared.u32 %r4, [%d6];
	cvta.to.local.u64 %d7, %d5;
	ld.local.u32 %r5, [%d7+4];
	add.u32 %r2, %r2, %r4;
	add.u32 %r2, %r2, %r5;
	mov.u64 %d8, c;
	cvta.const.u64 %d9, %d8;
	ld.u32 %r6, [%d9];
	cvta.to.const.u64 %d9, %d9;
	ld.const.u32 %r7, [%d9];
	add.u32 %r2, %r2, %r6;
	add.u32 %r2, %r2, %r7;
	mov.u64 %d10, a0;
	cvta.param.u64 %d11, %d10;
	ld.u64 %d12, [%d11];
	cvta.to.param.u64 %d13, %d11;
	ld.param.u64 %d14, [%d13];
	cvta.global.u64 %d12, %d12;
	setp.ne.u64 %q1, %d12, %p0;
	@%q1 mov.u32 %r2, 1;
	setp.ne.u64 %q1, %d14, %p0;
	@%q1 mov.u32 %r2, 2;
)";
  std::vector<uint32_t> got = words(body + result("%r2"), 32, declarations);
  for (uint32_t t = 0; t < 32; t++)
    EXPECT_EQ(got[t], 4 * t + 214);
}

TEST_F(MemoryAccess, to_the_dynamic_part_of_shared_memory) {
  std::string declarations = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[12];\n";
  std::string body =
      "mov.u32 %r1, dynamic; shl.b32 %r2, %tid0, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %tid0; bar.sync 0;\n"
      "mov.u32 %r3, dynamic; xor.b32 %r2, %r2, 124; add.u32 %r3, %r3, %r2; ld.shared.u32 %r4, [%r3];\n"
      "mov.u32 %r5, %dynamic_smem_size; mad.lo.u32 %r4, %r5, 1000, %r4;";
  std::vector<uint32_t> got = words(body + result("%r4"), 32, declarations, 128);
  for (uint32_t t = 0; t < 32; t++)
    EXPECT_EQ(got[t], 128000 + (t ^ 31));
}

TEST_F(MemoryAccess, takes_parameters_of_all_sizes) {
  Program program(module_text(R"(
.visible .entry k(.param .u8 a, .param .align 8 .b8 b[12], .param .u64 .ptr .global .align 16 out, .param .f32 c)
{
	.reg .b32 %r<9>; .reg .b16 %h<2>; .reg .b64 %d<4>; .reg .f32 %f<2>;
	ld.param.u8 %h1, [a];
	cvt.u32.u16 %r1, %h1;
	ld.param.u32 %r2, [b+8];
	ld.param.v2.u32 {%r3, %r4}, [b];
	ld.param.u64 %d1, [out];
	ld.param.f32 %f1, [c];
	st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4};
	st.global.f32 [%d1+16], %f1;
	ret;
})"));
  Buffer<uint32_t> out(5);
  struct {
    uint32_t x[3];
  } b{{11, 12, 13}};
  ASSERT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {1, 1, 1}, 0, uint8_t(200), b, out.address, 2.5f), 0)
      << heddle_emulator_message();
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{200, 13, 11, 12, std::bit_cast<uint32_t>(2.5f)}));
}

/// Each atomic once by all threads of several blocks on one place, and what the threads got back.
TEST_F(MemoryAccess, atomically) {
  constexpr unsigned blocks = 16, threads = 64, n = blocks * threads;
  auto run = [&](const std::string &operation, const std::string &operand, uint64_t start, bool reduce = false) {
    bool wide = operation.substr(operation.size() - 2) == "64";
    std::string r = wide ? "%d2"
                    : operation.find("b16") != operation.npos || operation.substr(operation.size() - 3) == "f16"
                        ? "%h2"
                        : "%r2";
    if (operation.substr(operation.size() - 4) == "bf16")
      r = "%h2";
    std::string body =
        "add.u32 %r1, %at, 1; cvt.u64.u32 %d1, %r1; cvt.u16.u32 %h1, %r1; mov.b16 %h3, 0x3c00; mov.b16 %h4, 0x3f80;\n"
        "mov.b32 %r3, 0x3c003c00; mov.b32 %r4, 0x3f803f80;\n";
    body += (reduce ? "red.global." : "atom.global.") + operation + " " + (reduce ? "" : r + ", ") + "[%p0], " +
            operand + ";\n";
    Program program(kernel(1, body, "", operation.find("bf16") != operation.npos ? "sm_90" : "sm_80"));
    Buffer<uint64_t> place(std::vector<uint64_t>{start});
    EXPECT_EQ(launch_blocks(program.kernel("k"), {blocks, 1, 1}, {threads, 1, 1}, 0, place.address), 0)
        << heddle_emulator_message();
    return place.read()[0];
  };
  heddle_emulator_set("sm", 90);
  uint64_t sum = n * (n + 1) / 2;
  for (bool reduce : {false, true}) {
    EXPECT_EQ(run("add.u32", "%r1", 5, reduce), sum + 5);
    EXPECT_EQ(run("add.s32", "%r1", 5, reduce), sum + 5);
    EXPECT_EQ(run("add.u64", "%d1", 1ull << 40, reduce), sum + (1ull << 40));
    EXPECT_EQ(run("min.u32", "%r1", 7000, reduce), 1u);
    EXPECT_EQ(run("max.s32", "%r1", 0xffffffff, reduce), n);
    EXPECT_EQ(run("min.s32", "%r1", 0xffffffff, reduce), 0xffffffffu);
    EXPECT_EQ(run("max.u32", "%r1", 0xffffffff, reduce), 0xffffffffu);
    EXPECT_EQ(run("min.u64", "%d1", ~0ull, reduce), 1u);
    EXPECT_EQ(run("max.u64", "%d1", 3, reduce), n);
    EXPECT_EQ(run("min.s64", "%d1", ~0ull, reduce), ~0ull);
    EXPECT_EQ(run("max.s64", "%d1", ~0ull, reduce), n);
    EXPECT_EQ(run("and.b32", "-2", 0xff, reduce), 0xfeu);
    EXPECT_EQ(run("or.b32", "%r1", 0, reduce), 2 * n - 1);
    EXPECT_EQ(run("xor.b32", "%r1", 0, reduce), n);
    EXPECT_EQ(run("and.b64", "-2", ~0ull, reduce), ~1ull);
    EXPECT_EQ(run("or.b64", "%d1", 0, reduce), 2 * n - 1);
    EXPECT_EQ(run("xor.b64", "%d1", 0, reduce), n);
    EXPECT_EQ(run("inc.u32", "99", 0, reduce), n % 100);
    EXPECT_EQ(run("dec.u32", "99", 0, reduce), (100 - n % 100) % 100);
    EXPECT_EQ(std::bit_cast<float>(uint32_t(run("add.f32", "0f3F800000", 0, reduce))), float(n));
    EXPECT_EQ(std::bit_cast<double>(run("add.f64", "0d3FF0000000000000", 0, reduce)), double(n));
    EXPECT_EQ(run("add.noftz.f16x2", "%r3", 0, reduce), 0x64006400u); // 1024, exact in f16
    EXPECT_EQ(run("add.noftz.f16", "%h3", 0, reduce), 0x6400u);
    EXPECT_EQ(run("add.noftz.bf16", "%h4", 0, reduce), 0x4380u); // stops at 256, where adding 1 is lost
    EXPECT_EQ(run("add.noftz.bf16x2", "%r4", 0, reduce), 0x43804380u);
  }
  EXPECT_LE(run("exch.b32", "%r1", 0), n);
  EXPECT_LE(run("exch.b64", "%d1", 0), n);
  EXPECT_EQ(run("cas.b32", "0, 77", 0), 77u);
  EXPECT_EQ(run("cas.b64", "0, 77", 0), 77u);
  EXPECT_EQ(run("cas.b16", "0, 77", 0x50000), 0x5004du);
  heddle_emulator_set("sm", 80);
}

TEST_F(MemoryAccess, atomically_in_shared_memory) {
  std::string body = "setp.eq.u32 %q1, %tid0, 0; @%q1 st.shared.u32 [sum], 0; bar.sync 0; atom.shared.add.u32 %r1, "
                     "[sum], %tid0; bar.sync 0; ld.shared.u32 %r2, [sum];";
  for (uint32_t v : words(body + result("%r2"), 128, ".shared .align 4 .u32 sum;\n"))
    EXPECT_EQ(v, 128u * 127 / 2);
}

} // namespace
} // namespace gpu_test
