// Shuffles, votes, matches, reductions, barriers; and lanes that come back together however the blocks are ordered.
#include "tests/gpu/kernel.h"

namespace gpu_test {
namespace {

struct Warps : Gpu {};

TEST_F(Warps, shuffle_in_four_ways) {
  struct Way {
    const char *instruction;
    int (*source)(int);
  };
  for (Way way :
       {Way{"shfl.sync.up.b32 %r1|%q1, %tid0, 3, 0, -1;", [](int l) { return l < 3 ? -1 : l - 3; }},
        Way{"shfl.sync.down.b32 %r1|%q1, %tid0, 5, 31, -1;", [](int l) { return l > 26 ? -1 : l + 5; }},
        Way{"shfl.sync.bfly.b32 %r1|%q1, %tid0, 9, 31, -1;", [](int l) { return l ^ 9; }},
        Way{"shfl.sync.idx.b32 %r1|%q1, %tid0, 18, 31, -1;", [](int) { return 18; }},
        // Groups of 8: the clamp's segment mask is 0x18.
        Way{"shfl.sync.down.b32 %r1|%q1, %tid0, 2, 0x1807, -1;", [](int l) { return l % 8 > 5 ? -1 : l + 2; }},
        Way{"shfl.sync.idx.b32 %r1|%q1, %tid0, 3, 0x1807, -1;", [](int l) { return l / 8 * 8 + 3; }}}) {
    std::vector<uint32_t> got =
        words(std::string(way.instruction) + "selp.b32 %r2, 256, 0, %q1; or.b32 %r1, %r1, %r2;" + result("%r1"), 32);
    for (int l = 0; l < 32; l++) {
      int from = way.source(l);
      EXPECT_EQ(got[size_t(l)], from < 0 ? uint32_t(l) : 256u + uint32_t(from)) << way.instruction << " lane " << l;
    }
  }
}

TEST_F(Warps, vote) {
  std::string p = "and.b32 %r1, %tid0, 5; setp.eq.u32 %q1, %r1, 5; ";
  uint32_t fives = 0;
  for (uint32_t l = 0; l < 32; l++)
    fives |= uint32_t((l & 5) == 5) << l;
  auto all = [&](const std::string &body) {
    std::vector<uint32_t> got = words(p + body + result("%r2"), 32);
    for (uint32_t v : got)
      EXPECT_EQ(v, got[0]);
    return got[0];
  };
  EXPECT_EQ(all("vote.sync.ballot.b32 %r2, %q1, -1;"), fives);
  EXPECT_EQ(all("vote.sync.ballot.b32 %r2, !%q1, -1;"), ~fives);
  EXPECT_EQ(all("vote.sync.any.pred %q2, %q1, -1; selp.b32 %r2, 1, 0, %q2;"), 1u);
  EXPECT_EQ(all("vote.sync.all.pred %q2, %q1, -1; selp.b32 %r2, 1, 0, %q2;"), 0u);
  EXPECT_EQ(all("vote.sync.uni.pred %q2, %q1, -1; selp.b32 %r2, 1, 0, %q2;"), 0u);
  EXPECT_EQ(all("setp.lt.u32 %q1, %tid0, 99; vote.sync.uni.pred %q2, %q1, -1; selp.b32 %r2, 1, 0, %q2;"), 1u);
}

TEST_F(Warps, reduce) {
  std::string v = "mul.lo.u32 %r1, %tid0, 2654435761; "; // some are negative
  uint32_t sum = 0, least = ~0u, most = 0, conjunction = ~0u, disjunction = 0, parity = 0;
  int32_t signed_least = INT32_MAX, signed_most = INT32_MIN;
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t x = l * 2654435761u;
    sum += x, least = std::min(least, x), most = std::max(most, x), conjunction &= x, disjunction |= x, parity ^= x;
    signed_least = std::min(signed_least, int32_t(x)), signed_most = std::max(signed_most, int32_t(x));
  }
  for (auto [name, expected] :
       std::initializer_list<std::pair<const char *, uint32_t>>{{"add.u32", sum},
                                                                {"add.s32", sum},
                                                                {"min.u32", least},
                                                                {"max.u32", most},
                                                                {"min.s32", uint32_t(signed_least)},
                                                                {"max.s32", uint32_t(signed_most)},
                                                                {"and.b32", conjunction},
                                                                {"or.b32", disjunction},
                                                                {"xor.b32", parity}})
    for (uint32_t got : words(v + "redux.sync." + name + " %r2, %r1, -1;" + result("%r2"), 32))
      EXPECT_EQ(got, expected) << name;
}

TEST_F(Warps, match_values) {
  std::vector<uint32_t> any = words("rem.u32 %r1, %tid0, 5; match.any.sync.b32 %r2, %r1, -1;" + result("%r2"), 32);
  std::vector<uint32_t> wide =
      words("rem.u32 %r1, %tid0, 5; cvt.u64.u32 %d1, %r1; match.any.sync.b64 %r2, %d1, -1;" + result("%r2"), 32);
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t same = 0;
    for (uint32_t j = 0; j < 32; j++)
      same |= uint32_t(j % 5 == l % 5) << j;
    EXPECT_EQ(any[l], same);
    EXPECT_EQ(wide[l], same);
  }
  EXPECT_EQ(words("match.all.sync.b32 %r2|%q1, 7, -1; @!%q1 mov.u32 %r2, 1;" + result("%r2"), 32)[3], ~0u);
  EXPECT_EQ(words("match.all.sync.b32 %r2|%q1, %tid0, -1; @!%q1 add.u32 %r2, %r2, 9;" + result("%r2"), 32)[3], 9u);
  EXPECT_EQ(words("mov.u64 %d1, 7; match.all.sync.b64 %r2, %d1, -1;" + result("%r2"), 32)[3], ~0u);
}

TEST_F(Warps, know_who_is_there) {
  std::vector<uint32_t> got =
      words("setp.lt.u32 %q1, %tid0, 11; mov.u32 %r1, 0; @!%q1 bra $E; activemask.b32 %r1;\n$E:" + result("%r1"), 32);
  EXPECT_EQ(got[0], 0x7ffu);
  EXPECT_EQ(got[11], 0u);
  heddle_emulator_set("sm", 90);
  Program program(kernel(1, "elect.sync %r1|%q1, -1; selp.u32 %r2, 100, 0, %q1; add.u32 %r1, %r1, %r2;" + result("%r1"),
                         "", "sm_90"));
  Buffer<uint32_t> out(32);
  ASSERT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {32, 1, 1}, 0, out.address), 0) << heddle_emulator_message();
  EXPECT_EQ(out.read()[0], 100u);
  EXPECT_EQ(out.read()[1], 0u);
  heddle_emulator_set("sm", 80);
}

/// Lanes of different member masks at one instruction form sets of their own.
TEST_F(Warps, synchronise_by_member_mask) {
  std::vector<uint32_t> got = words("setp.lt.u32 %q1, %tid0, 16; selp.b32 %r1, 0xffff, 0xffff0000, %q1;\n"
                                    "bar.warp.sync %r1; redux.sync.add.u32 %r2, %tid0, %r1;" +
                                        result("%r2"),
                                    32);
  EXPECT_EQ(got[0], 120u);
  EXPECT_EQ(got[31], 376u);
}

/// The join with the barrier stands before the blocks that lead to it, as LLVM orders them at times: who jumps
/// forward first must not pass it alone.
TEST_F(Warps, meet_at_a_barrier_that_stands_before_its_predecessors) {
  std::string shared = ".shared .align 4 .b8 s[256];\n";
  std::string body = R"(
	and.b32 %r1, %tid0, 1;
	setp.eq.u32 %q1, %r1, 0;
	shl.b32 %r2, %tid0, 2;
	mov.u32 %r3, s;
	add.u32 %r4, %r3, %r2;
	@%q1 bra $EVEN;
	bra.uni $ODD;
$JOIN:
	bar.sync 0;
	xor.b32 %r5, %r2, 252;
	add.u32 %r5, %r3, %r5;
	ld.shared.u32 %r6, [%r5];
	shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1;
	bra.uni $END;
$ODD:
	add.u32 %r8, %tid0, 1000;
	st.shared.u32 [%r4], %r8;
	bra.uni $JOIN;
$EVEN:
	st.shared.u32 [%r4], %tid0;
	bra.uni $JOIN;
$END:
)";
  std::vector<uint32_t> got = words(body + result("%r7"), 64, shared);
  for (uint32_t t = 0; t < 64; t++) {
    uint32_t from = (t ^ 1) ^ 63;
    EXPECT_EQ(got[t], from % 2 ? from + 1000 : from) << t;
  }
}

TEST_F(Warps, run_loops_of_different_lengths) {
  std::string body = "mov.u32 %r1, 0; mov.u32 %r2, 0;\n$L: add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1; setp.le.u32 "
                     "%q1, %r1, %tid0; @%q1 bra $L;\n";
  std::vector<uint32_t> got = words(body + result("%r2"), 70);
  for (uint32_t t = 0; t < 70; t++)
    EXPECT_EQ(got[t], t * (t + 1) / 2);
}

/// A lock that one lane holds while the others of its warp spin.
TEST_F(Warps, let_a_lane_release_what_the_others_wait_for) {
  std::string global = ".global .align 4 .u32 lock = 0; .global .align 4 .u32 sum = 0;\n";
  std::string body = R"(
$TRY:
	atom.global.cas.b32 %r1, [lock], 0, 1;
	setp.ne.u32 %q1, %r1, 0;
	@%q1 bra $TRY;
	ld.volatile.global.u32 %r2, [sum];
	add.u32 %r2, %r2, 1;
	st.volatile.global.u32 [sum], %r2;
	atom.global.exch.b32 %r1, [lock], 0;
)";
  std::vector<uint32_t> got = words(body + result("%r2"), 32, global);
  std::sort(got.begin(), got.end());
  for (uint32_t l = 0; l < 32; l++)
    EXPECT_EQ(got[l], l + 1);
}

TEST_F(Warps, count_at_barriers) {
  std::string body =
      "setp.lt.u32 %q1, %tid0, 40; bar.red.popc.u32 %r1, 0, %q1; bar.red.and.pred %q2, 0, %q1; bar.red.or.pred %q3, 0, "
      "%q1;\n"
      "selp.u32 %r2, 1000, 0, %q2; selp.u32 %r3, 100000, 0, %q3; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;";
  for (uint32_t v : words(body + result("%r1"), 96))
    EXPECT_EQ(v, 100040u);
}

/// Two warps write, arrive and go on; the third one waits for both.
TEST_F(Warps, arrive_without_waiting) {
  std::string shared = ".shared .align 4 .b8 s[256];\n";
  std::string body = R"(
	mov.u32 %r3, s;
	shl.b32 %r2, %tid0, 2;
	add.u32 %r4, %r3, %r2;
	mov.u32 %r7, 0;
	setp.ge.u32 %q1, %tid0, 64;
	@%q1 bra $CONSUMER;
	st.shared.u32 [%r4], %tid0;
	barrier.cta.arrive 3, 96;
	bra.uni $END;
$CONSUMER:
	barrier.cta.sync 3, 96;
	ld.shared.u32 %r5, [%r4+-256];
	ld.shared.u32 %r6, [%r4+-128];
	add.u32 %r7, %r5, %r6;
$END:
)";
  std::vector<uint32_t> got = words(body + result("%r7"), 96, shared);
  for (uint32_t t = 64; t < 96; t++)
    EXPECT_EQ(got[t], 2 * t - 96);
}

} // namespace
} // namespace gpu_test
