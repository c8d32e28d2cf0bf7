// Runs a warp (warp.h).
#include "tests/gpu/driver/device/warp.h"
#include "tests/gpu/driver/device/block.h"
#include "tests/gpu/driver/settings.h"

#include <algorithm>

namespace ptx {

void Warp::fault(const Op &op, int lane, Code code, const std::string &what) const {
  const Kernel &kernel = *block->kernel;
  const Dim3 size = block->size, at = block->position;
  u32 thread = index * warp_size + u32(std::max(lane, 0));
  char place[256];
  snprintf(place, sizeof place, "kernel %s, PTX line %u, block (%u,%u,%u), thread (%u,%u,%u)%s: ", kernel.name.c_str(),
           op.line, at.x, at.y, at.z, thread % size.x, thread / size.x % size.y, thread / size.x / size.y,
           lane < 0 ? " and its warp" : "");
  std::string line = op.line <= kernel.module->lines.size() ? kernel.module->lines[op.line - 1] : "";
  line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  throw Error(code, place + what + "\n    " + line);
}

namespace {

// Jumps between two looks at the other warps, or at the other lanes of a warp that has come apart.
constexpr s64 turn_of_whole_warp = 1 << 16, turn_of_some_lanes = 1 << 8;

/// Runs one group until it jumps apart, parks, ends, or reaches where another group is.
class Runner {
public:
  explicit Runner(Warp &warp) : warp(warp), ops(warp.block->kernel->ops.data()) {}

  void run() {
    turn = warp.groups.size() > 1 ? turn_of_some_lanes : turn_of_whole_warp;
    warp.jumps_left = turn;
    while (!warp.groups.empty()) {
      if (warp.groups.size() > 1)
        join();
      Group *group = behind_most();
      if (!group)
        group = release_gathering();
      current = size_t(group - warp.groups.data());
      pc = group->pc, lanes = group->lanes;
      limit = ~0u;
      for (const Group &g : warp.groups)
        if (&g != group && !g.parked)
          limit = std::min(limit, g.pc);
      if (!run_group())
        return;
    }
  }

private:
  Group &group() { return warp.groups[current]; }

  void join() {
    auto &groups = warp.groups;
    for (size_t i = 0; i < groups.size(); i++)
      for (size_t j = groups.size() - 1; j > i; j--)
        if (groups[i].pc == groups[j].pc) {
          groups[i].lanes |= groups[j].lanes;
          groups[i].parked = false;
          groups.erase(groups.begin() + s64(j));
        }
  }

  /// Every other turn the one that is ahead: lanes behind may be waiting for what it does (a lock that it holds).
  Group *behind_most() {
    Group *found = nullptr;
    for (Group &g : warp.groups)
      if (!g.parked && (!found || (warp.turn_was_over ? g.pc > found->pc : g.pc < found->pc)))
        found = &g;
    warp.turn_was_over = false;
    return found;
  }

  bool meets_another() const {
    for (const Group &g : warp.groups)
      if (g.pc == pc && &g != &warp.groups[current])
        return true;
    return false;
  }

  /// Nobody can come any more: those who stand at an activemask are all there are.
  Group *release_gathering() {
    for (Group &g : warp.groups)
      if (ops[g.pc].flow == Flow::gather) {
        gathered = true;
        return &g;
      }
    const Op &op = ops[warp.groups[0].pc];
    std::string what = "divergent synchronisation; the warp's lanes wait at different places:";
    for (const Group &g : warp.groups)
      what += " lanes " + hex(g.lanes) + " at line " + std::to_string(ops[g.pc].line);
    warp.fault(op, first_lane(warp.groups[0].lanes), Code::launch_failed, what);
  }

  void count(Mask m) {
    warp.counters[pc].warps++;
    warp.counters[pc].lanes += u64(std::popcount(m));
  }

  bool park() {
    group().pc = pc, group().parked = true;
    return true;
  }

  /// A jump: false where the turn is over.
  bool jumped() {
    if (--warp.jumps_left > 0)
      return true;
    warp.jumps += u64(turn);
    if (warp.jumps > settings().limit)
      warp.fault(ops[pc], first_lane(lanes), Code::launch_timeout,
                 "the warp has made " + std::to_string(warp.jumps) + " jumps here and elsewhere: it seems to hang");
    group().pc = pc;
    warp.turn_was_over = !warp.turn_was_over;
    return false;
  }

  void jump_apart(Mask m, u32 target) {
    group().pc = pc + 1, group().lanes = lanes & ~m;
    warp.groups.push_back({target, m, false});
  }

  /// The lanes that leave by different addresses.
  template <class Target> void jump_by_lane(Mask m, Target target) {
    warp.groups.erase(warp.groups.begin() + s64(current));
    while (m) {
      u32 to = target(first_lane(m));
      Mask same = 0;
      for_lanes(m, [&](int l) { same |= Mask(target(l) == to) << l; });
      warp.groups.push_back({to, same, false});
      m &= ~same;
    }
  }

  /// Executes for each set of members by itself; false where somebody has to be waited for.
  bool synchronise(const Op &op, Mask m) {
    const u32 *members = warp.reg<u32>(op.c);
    for (Mask rest = m; rest;) {
      int first = first_lane(rest);
      Mask named = members[first], needed = named & warp.alive, same = 0;
      for_lanes(rest, [&](int l) { same |= Mask(members[l] == named) << l; });
      if (!(named >> first & 1))
        warp.fault(op, first, Code::launch_failed, "this thread is not in the member mask " + hex(named));
      if (needed & lanes & ~m)
        warp.fault(op, first_lane(needed & lanes & ~m), Code::launch_failed,
                   "this thread is in the member mask " + hex(named) + " but its guard keeps it away");
      if (needed & ~same)
        return false;
      rest &= ~same;
    }
    count(m);
    for (Mask rest = m; rest;) {
      Mask named = members[first_lane(rest)], same = 0;
      for_lanes(rest, [&](int l) { same |= Mask(members[l] == named) << l; });
      rest &= ~same;
      op.execute(warp, op, same);
    }
    return true;
  }

  /// False: the warp's turn is over.
  bool run_group() {
    for (;;) {
      const Op &op = ops[pc];
      Mask m = lanes;
      if (op.guarded) {
        Mask p = warp.predicate(op.guard);
        m &= op.guard_negated ? ~p : p;
      }
      switch (op.flow) {
      case Flow::normal:
        count(m);
        if (m)
          op.execute(warp, op, m);
        pc++;
        break;
      case Flow::branch:
        count(m);
        if (m == lanes)
          pc = op.target;
        else if (!m)
          pc++;
        else {
          jump_apart(m, op.target);
          return true;
        }
        if (!jumped())
          return false;
        break;
      case Flow::call:
        count(m);
        for_lanes(m, [&](int l) { warp.reg<u32>(op.d)[l] = pc + 1; });
        pc = op.target;
        break;
      case Flow::indexed:
        count(m);
        if (m != lanes)
          warp.fault(op, first_lane(lanes), Code::launch_failed, "brx.idx under a guard that not all lanes have");
        jump_by_lane(m, [&](int l) {
          u32 i = warp.reg<u32>(op.a)[l];
          if (i >= op.immediate)
            warp.fault(op, l, Code::launch_failed,
                       "index " + std::to_string(i) + " of " + std::to_string(op.immediate));
          return op.list[i];
        });
        return true;
      case Flow::leave:
        count(m);
        if (m != lanes) {
          if (m) {
            Mask rest = lanes & ~m;
            u32 next = pc + 1;
            jump_by_lane(m, [&](int l) { return warp.reg<u32>(op.a)[l]; });
            warp.groups.push_back({next, rest, false});
            return true;
          }
          pc++;
          break;
        }
        jump_by_lane(m, [&](int l) { return warp.reg<u32>(op.a)[l]; });
        return true;
      case Flow::exit:
        count(m);
        warp.alive &= ~m;
        for (Group &g : warp.groups)
          g.parked = false; // fewer lanes are waited for
        if (m == lanes)
          warp.groups.erase(warp.groups.begin() + s64(current));
        else
          group().lanes = lanes & ~m, group().pc = pc + 1;
        return true;
      case Flow::gather:
        if (lanes != warp.alive && !gathered)
          return park();
        gathered = false;
        count(m);
        op.execute(warp, op, m);
        pc++;
        break;
      case Flow::warp_sync:
        if (m && !synchronise(op, m))
          return park();
        pc++;
        break;
      case Flow::barrier:
        if (!m) {
          pc++;
          break;
        }
        if (m != lanes || lanes != warp.alive) {
          if (lanes == warp.alive)
            warp.fault(op, first_lane(lanes & ~m), Code::launch_failed,
                       "divergent barrier: lanes " + hex(lanes & ~m) + " don't take part");
          return park();
        }
        count(m);
        group().pc = pc + 1;
        warp.barrier_op = pc;
        op.execute(warp, op, m);
        if (warp.at_barrier)
          return false;
        pc++;
        break;
      }
      if (warp.groups.size() > 1 && (pc >= limit || meets_another())) {
        group().pc = pc;
        return true;
      }
    }
  }

  Warp &warp;
  const Op *ops;
  s64 turn = 0;
  size_t current = 0;
  u32 pc = 0, limit = 0;
  Mask lanes = 0;
  bool gathered = false;
};

} // namespace

void run(Warp &warp) { Runner(warp).run(); }

} // namespace ptx
