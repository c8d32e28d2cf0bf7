// Jumps, ends, barriers of the block, fences, hints; special registers; what an unknown instruction does.
#include "tests/gpu/driver/isa.h"
#include "tests/gpu/driver/isa/common.h"

#include <cstring>
#include <map>

namespace ptx {

void execute_nothing(Warp &, const Op &, Mask) {}

void execute_unknown(Warp &warp, const Op &op, Mask mask) {
  warp.fault(op, first_lane(mask), Code::illegal_instruction, "the emulator doesn't know this instruction");
}

void execute_undefined_call(Warp &warp, const Op &op, Mask mask) {
  warp.fault(op, first_lane(mask), Code::illegal_instruction, "call of a function that the module doesn't define");
}

void execute_recursion(Warp &warp, const Op &op, Mask mask) {
  warp.fault(op, first_lane(mask), Code::illegal_instruction, "the emulator doesn't execute recursive functions");
}

void execute_copy_local(Warp &warp, const Op &op, Mask mask) {
  u64 frame = warp.block->kernel->local_bytes;
  for_lanes(mask, [&](int l) {
    u8 *mine = warp.local + u64(l) * frame;
    memcpy(mine + op.offset, mine + op.second_offset, u64(op.immediate));
  });
}

static const std::map<std::string_view, Special> special_names = {
    {"%tid.x", tid_x},
    {"%tid.y", tid_y},
    {"%tid.z", tid_z},
    {"%ntid.x", ntid_x},
    {"%ntid.y", ntid_y},
    {"%ntid.z", ntid_z},
    {"%ctaid.x", ctaid_x},
    {"%ctaid.y", ctaid_y},
    {"%ctaid.z", ctaid_z},
    {"%nctaid.x", nctaid_x},
    {"%nctaid.y", nctaid_y},
    {"%nctaid.z", nctaid_z},
    {"%laneid", laneid},
    {"%warpid", warpid},
    {"%nwarpid", nwarpid},
    {"%lanemask_eq", lanemask_eq},
    {"%lanemask_lt", lanemask_lt},
    {"%lanemask_le", lanemask_le},
    {"%lanemask_gt", lanemask_gt},
    {"%lanemask_ge", lanemask_ge},
    {"%dynamic_smem_size", dynamic_smem_size},
    {"%total_smem_size", total_smem_size},
    {"%smid", smid},
    {"%nsmid", nsmid},
    {"%gridid", gridid},
    // A cluster of one block: there are no others.
    {"%cluster_ctaid.x", cluster_zero},
    {"%cluster_ctaid.y", cluster_zero},
    {"%cluster_ctaid.z", cluster_zero},
    {"%cluster_ctarank", cluster_zero},
    {"%cluster_nctarank", cluster_one},
    {"%cluster_nctaid.x", cluster_one},
    {"%cluster_nctaid.y", cluster_one},
    {"%cluster_nctaid.z", cluster_one},
    {"%clusterid.x", ctaid_x},
    {"%clusterid.y", ctaid_y},
    {"%clusterid.z", ctaid_z},
    {"%nclusterid.x", nctaid_x},
    {"%nclusterid.y", nctaid_y},
    {"%nclusterid.z", nctaid_z},
    {"%clock", clock_now},
    {"%clock_hi", clock_now},
    {"%clock64", clock64_now},
    {"%globaltimer", clock64_now},
    {"%globaltimer_lo", clock_now},
    {"%globaltimer_hi", clock_now},
};

int special_register(std::string_view name) {
  auto i = special_names.find(name);
  return i == special_names.end() ? -1 : int(i->second);
}

unsigned special_lane_bytes(int what) { return what == clock64_now || what == gridid ? 8 : 4; }

namespace {

void decode_jump(Decoder &d, const Instruction &) {
  d.op.flow = Flow::branch;
  d.builder.jump_to(d.operand(0).text);
}

void decode_indexed_jump(Decoder &d, const Instruction &) {
  d.op.flow = Flow::indexed;
  d.op.a = d.source(0, 4);
  d.builder.jump_by(d.operand(1).text);
}

void decode_return(Decoder &d, const Instruction &row) {
  bool leaves = row.name == "ret" && d.builder.in_function();
  d.op.flow = leaves ? Flow::leave : Flow::exit;
  if (leaves)
    d.op.a = d.builder.return_register();
}

void trap(Warp &warp, const Op &op, Mask mask) { warp.fault(op, first_lane(mask), Code::launch_failed, "trap"); }

void barrier(Warp &warp, const Op &op, Mask mask) {
  auto uniform = [&](u32 offset, const char *what) {
    const u32 *r = warp.reg<u32>(offset);
    u32 value = r[first_lane(mask)];
    for_lanes(mask, [&](int l) {
      if (r[l] != value)
        warp.fault(op, l, Code::launch_failed, std::string("the lanes of a warp give a barrier different ") + what);
    });
    return value;
  };
  u32 id = uniform(op.a, "numbers"), threads = uniform(op.b, "thread counts");
  if (op.mode) { // bar.red
    Barrier &b = warp.block->barriers[id % 16];
    Mask p = (op.flag ? ~warp.predicate(op.c) : warp.predicate(op.c)) & mask;
    b.sum += u32(std::popcount(p));
    b.all &= p == mask, b.any |= p != 0;
  }
  warp.block->arrive(warp, op, id, threads, !op.vector);
}

/// op.vector: 1 where the warp goes on (arrive). mode: 1 popc, 2 and, 3 or.
void decode_barrier(Decoder &d, const Instruction &row) {
  d.op.flow = Flow::barrier;
  size_t at = 0;
  d.op.vector = d.has("arrive");
  if (d.has("red")) {
    d.op.mode = d.has("popc") ? 1 : d.has("and") ? 2 : 3;
    d.op.d = d.destination(at++, d.op.mode == 1 ? 4 : 0);
  }
  size_t predicate_at = d.count() - 1, threads_at = at + 1;
  d.op.a = d.source(at, 4);
  bool has_threads = d.op.mode ? d.count() > threads_at + 1 : d.count() > threads_at;
  d.op.b = has_threads ? d.source(threads_at, 4) : d.builder.constant(0, 4);
  if (d.op.mode)
    d.op.c = d.predicate(d.operand(predicate_at), d.op.flag);
}

void decode_nothing(Decoder &, const Instruction &) {}

std::string barrier_key(const Statement &s) {
  std::string key = join_without(s, {"aligned", "cta"});
  if (key.rfind("barrier.", 0) == 0 && key.rfind("barrier.cluster", 0) != 0)
    key.replace(0, 7, "bar");
  return key;
}

} // namespace

void add_control_rows(Table &t) {
  auto control = [&](const char *name, Execute execute, Decode decode) {
    t.add({name, execute, decode, Class::control});
  };
  control("bra", execute_nothing, decode_jump);
  control("brx.idx", execute_nothing, decode_indexed_jump);
  control("ret", execute_nothing, decode_return);
  control("exit", execute_nothing, decode_return);
  control("trap", trap, decode_nothing);
  control("brkpt", trap, decode_nothing);
  t.family("bar", barrier_key);
  t.family("barrier", barrier_key);
  for (const char *name : {"bar.sync", "bar.arrive", "bar.red.popc.u32", "bar.red.and.pred", "bar.red.or.pred"})
    t.add({name, barrier, decode_barrier, Class::barrier});
  // Memory is in order here, so that fences have nothing to do; hints never have.
  auto first_part = [](const Statement &s) { return std::string(s.parts[0]); };
  for (const char *name : {"membar", "fence", "nanosleep", "prefetch", "prefetchu", "applypriority", "discard",
                           "pmevent", "griddepcontrol", "setmaxnreg"}) {
    t.family(name, first_part);
    control(name, execute_nothing, decode_nothing);
  }
}

} // namespace ptx
