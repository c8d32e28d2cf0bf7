// Jumps, tables of jumps, functions, ends; special registers; PTX as it is written by different compilers.
#include "tests/gpu/kernel.h"

namespace gpu_test {
namespace {

struct Control : Gpu {};

TEST_F(Control, jumps_by_table) {
  std::string body = R"(
	rem.u32 %r1, %tid0, 3;
	mov.u32 %r2, 99;
$T: .branchtargets $A, $B, $C;
	brx.idx %r1, $T;
$A:
	mov.u32 %r2, 10;
	bra $E;
$B:
	mov.u32 %r2, 20;
	bra $E;
$C:
	mov.u32 %r2, 30;
$E:
)";
  std::vector<uint32_t> got = words(body + result("%r2"), 32);
  for (uint32_t t = 0; t < 32; t++)
    EXPECT_EQ(got[t], 10 + t % 3 * 10);
}

std::string function_text() {
  return R"(
.func (.param .b32 result) twice(.param .b32 x);
.func (.param .b32 result) twice(.param .b32 x)
{
	.reg .b32 %r<4>;
	.reg .pred %p<2>;
	ld.param.b32 %r1, [x];
	setp.lt.u32 %p1, %r1, 7;
	@%p1 bra $SMALL;
	add.u32 %r2, %r1, %r1;
	st.param.b32 [result], %r2;
	ret;
$SMALL:
	mov.u32 %r3, 7;
	st.param.b32 [result], %r3;
	ret;
}
.func (.param .b32 result) twice_and_one(.param .b32 x)
{
	.reg .b32 %r<4>;
	ld.param.b32 %r1, [x];
	{
	.param .b32 argument;
	.param .b32 back;
	st.param.b32 [argument], %r1;
	call.uni (back), twice, (argument);
	ld.param.b32 %r2, [back];
	}
	add.u32 %r3, %r2, 1;
	st.param.b32 [result], %r3;
	ret;
}
)";
}

TEST_F(Control, calls_functions_that_call_functions) {
  std::string body = R"(
	{
	.param .b32 argument;
	.param .b32 back;
	st.param.b32 [argument+0], %tid0;
	call.uni (back), twice_and_one, (argument);
	ld.param.b32 %r1, [back+0];
	}
	{
	.param .b32 argument;
	.param .b32 back;
	st.param.b32 [argument+0], %r1;
	call (back), twice, (argument);
	ld.param.b32 %r2, [back+0];
	}
)";
  std::vector<uint32_t> got = words(body + result("%r2"), 64, function_text());
  auto twice = [](uint32_t x) { return x < 7 ? 7 : 2 * x; };
  for (uint32_t t = 0; t < 64; t++)
    EXPECT_EQ(got[t], twice(twice(t) + 1));
}

TEST_F(Control, faults_where_a_function_is_recursive_or_missing) {
  std::string recursive = ".func f { call.uni f; ret; }\n";
  EXPECT_NE(fault("call.uni f;", 32, recursive, 0, 715).find("recursive"), std::string::npos);
  std::string declared = ".extern .func g;\n";
  EXPECT_NE(fault("call.uni g;", 32, declared, 0, 715).find("doesn't define"), std::string::npos);
}

TEST_F(Control, ends_lanes_one_by_one) {
  std::string body = "mov.u32 %r1, 5;" + result("%r1") + "setp.gt.u32 %q1, %tid0, 20; @%q1 exit; mov.u32 %r1, 6;" +
                     result("%r1") + "setp.gt.u32 %q1, %tid0, 10; @%q1 ret; bar.warp.sync -1; mov.u32 %r1, 7;" +
                     result("%r1");
  std::vector<uint32_t> got = words(body, 32);
  for (uint32_t t = 0; t < 32; t++)
    EXPECT_EQ(got[t], t > 20 ? 5u : t > 10 ? 6u : 7u);
}

TEST_F(Control, has_fences_and_hints_that_do_nothing) {
  heddle_emulator_set("sm", 90);
  Program program(kernel(
      1,
      "membar.cta; membar.gl; fence.acq_rel.gpu; nanosleep.u32 20; prefetch.global.L2 [%p0]; prefetchu.L1 [%p0];\n"
      "applypriority.global.L2::evict_normal [%p0], 128; discard.global.L2 [%p0], 128; pmevent 3;\n"
      "griddepcontrol.wait; griddepcontrol.launch_dependents; setmaxnreg.inc.sync.aligned.u32 128; mov.u32 %r1, 3;" +
          result("%r1"),
      "", "sm_90a"));
  Buffer<uint32_t> out(128);
  EXPECT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {128, 1, 1}, 0, out.address), 0) << heddle_emulator_message();
  EXPECT_EQ(out.read()[7], 3u);
  heddle_emulator_set("sm", 80);
}

TEST_F(Control, traps) {
  std::string message = fault("setp.eq.u32 %q1, %tid0, 9; @%q1 trap;");
  EXPECT_NE(message.find("thread (9,0,0): trap"), std::string::npos) << message;
  fault("brkpt;");
}

TEST_F(Control, knows_special_registers) {
  auto one = [&](const std::string &name) { return words("mov.u32 %r1, " + name + ";" + result("%r1"), 64, "", 0, 3); };
  std::vector<uint32_t> lane = one("%laneid"), warp = one("%warpid"), block = one("%ctaid.x"),
                        less = one("%lanemask_lt");
  for (uint32_t i = 0; i < 192; i++) {
    EXPECT_EQ(lane[i], i % 32);
    EXPECT_EQ(warp[i], i % 64 / 32);
    EXPECT_EQ(block[i], i / 64);
    EXPECT_EQ(less[i], (1u << i % 32) - 1);
  }
  EXPECT_EQ(one("%nctaid.x")[0], 3u);
  EXPECT_EQ(one("%ntid.x")[0], 64u);
  EXPECT_EQ(one("%lanemask_ge")[5], 0xffffffe0u);
  EXPECT_EQ(words("mov.u64 %d1, %clock64; mov.u64 %d2, %clock64; setp.ge.u64 %q1, %d2, %d1; selp.u32 %r1, 1, 0, %q1;" +
                      result("%r1"),
                  32)[0],
            1u);
}

TEST_F(Control, reads_what_compilers_write) {
  std::string body = R"(
	.pragma "nounroll";
	.loc 1 7 3
	.loc 1 3 5, function_name $L__info0, inlined_at 1 7 3
	/* a comment
	   of two lines */
	mov.b32 %r1, 0xFFFFFFFF; // another
	{ .reg .b32 %r1; mov.u32 %r1, 5; }
	mov.f32 %f1, 0f3F800000;
	mov.b32 %r2, %f1;
	mov.b64 %d1, {%r1, %r2};
	mov.b64 {%r3, %r4}, %d1;
	mov.b32 {%h1, %h2}, %r4;
	cvt.u32.u16 %r5, %h2;
	add.s32 %r6, %r5, -16256;
	@!%q0 bra $L__BB0_1;
$L__BB0_1:
	add.u32 %r6, %r6, %r3;
)";
  std::string declarations = ".file 1 \"x.cu\"\n.global .align 8 .u64 address[2] = {generic(table), table+4};\n";
  declarations = ".global .align 4 .b8 table[8] = {1, 0, 0, 0, 0xff, 2, 3, 4};\n" + declarations +
                 ".const .align 4 .f32 c[2] = {0f40000000, 1.5};\n";
  std::string more = "ld.global.u64 %d2, [address+8]; ld.u8 %r7, [%d2]; add.u32 %r6, %r6, %r7; ld.const.f32 %f2, "
                     "[c+4]; cvt.rni.u32.f32 %r8, %f2; add.u32 %r6, %r6, %r8;";
  EXPECT_EQ(words("setp.eq.u32 %q0, 1, 1;" + body + more + result("%r6"), 32, declarations)[0], 255u - 1u + 2u);
}

TEST_F(Control, refuses_what_is_no_PTX) {
  auto message = [&](const std::string &body) {
    CUmodule m;
    EXPECT_EQ(cuModuleLoadData(&m, kernel(1, body).c_str()), 218) << body;
    return std::string(heddle_emulator_message());
  };
  EXPECT_NE(message("add.u32 %r1, %r2, %nothing;").find("'%nothing' is not declared"), std::string::npos);
  EXPECT_NE(message("add.u32 %r1, %r2;").find("takes 3 operands"), std::string::npos);
  EXPECT_NE(message("add.u64 %d1, %r2, 1;").find("%r2 has 32 bits per lane"), std::string::npos);
  EXPECT_NE(message("bra $NOWHERE;").find("no label '$NOWHERE'"), std::string::npos);
  EXPECT_NE(message("add.u32 %r1 %r2;").find("expected ',' or ';'"), std::string::npos);
  EXPECT_NE(message("mov.u32 %r1, 5").find("line"), std::string::npos);
}

TEST_F(Control, doesnt_mind_an_unknown_instruction_that_is_not_reached) {
  EXPECT_EQ(words("setp.eq.u32 %q1, %tid0, 99; @%q1 frobnicate.b32 %r1, %r2; mov.u32 %r1, 2;" + result("%r1"), 32)[0],
            2u);
  std::string message = fault("setp.eq.u32 %q1, %tid0, 12; @%q1 frobnicate.b32 %r1, %r2;", 32, "", 0, 715);
  EXPECT_NE(message.find("thread (12,0,0): the emulator doesn't know this instruction\n"), std::string::npos)
      << message;
  EXPECT_NE(message.find("frobnicate"), std::string::npos) << message;
}

} // namespace
} // namespace gpu_test
