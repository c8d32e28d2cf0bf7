// Liveness over steps, from the last to the first. Inside a loop it is repeated until nothing changes, since an
// iteration reads what the iteration before has carried over.
#include "dsl/check/prune.h"

#include <algorithm>
#include <functional>
#include <set>

namespace heddle::checking {
namespace {

using Live = std::set<const Tensor *>;

void reads_of(const Expr *e, std::set<const Expr *> &seen, const std::function<void(const Tensor *)> &found) {
  if (!seen.insert(e).second)
    return;
  if (e->op == Expr::read)
    found(e->tensor);
  for (const Expr *arg : e->args)
    reads_of(arg, seen, found);
}

bool has_effect(const std::vector<Step> &steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step &step) {
    auto *loop = std::get_if<Loop>(&step.what);
    return loop ? has_effect(loop->steps) : !std::holds_alternative<Stage>(step.what);
  });
}

void keep(std::vector<Step> &steps, Live &live) {
  std::vector<Step> kept;
  for (size_t i = steps.size(); i-- > 0;) {
    Step &step = steps[i];
    if (auto *stage = std::get_if<Stage>(&step.what)) {
      if (!live.count(stage->result))
        continue;
      std::set<const Expr *> seen;
      reads_of(stage->value, seen, [&](const Tensor *t) { live.insert(t); });
    } else if (auto *loop = std::get_if<Loop>(&step.what)) {
      std::vector<Step> body = loop->steps;
      for (size_t before = 0; before != live.size();) {
        before = live.size();
        for (const auto &c : loop->carried)
          if (live.count(c.carried))
            live.insert(c.next);
        for (const auto &c : loop->collected)
          if (live.count(c.whole))
            live.insert(c.slice);
        loop->steps = body;
        keep(loop->steps, live);
      }
      std::erase_if(loop->carried, [&](const Loop::Carried &c) { return !live.count(c.carried); });
      std::erase_if(loop->collected, [&](const Loop::Collected &c) { return !live.count(c.whole); });
      if (loop->carried.empty() && loop->collected.empty() && !has_effect(loop->steps))
        continue;
      for (const auto &c : loop->carried)
        live.insert(c.start);
    } else if (auto *update = std::get_if<Update>(&step.what)) {
      live.insert(update->value);
      std::set<const Expr *> seen;
      for (const Update::Along &along : update->place)
        reads_of(along.offset, seen, [&](const Tensor *t) { live.insert(t); });
    } else {
      live.insert(std::get<Require>(step.what).condition);
    }
    kept.push_back(std::move(step));
  }
  std::reverse(kept.begin(), kept.end());
  steps = std::move(kept);
}

} // namespace

void keep_needed(Entry &entry, const std::vector<const Tensor *> &also) {
  Live live(also.begin(), also.end());
  for (const Output &output : entry.outputs)
    live.insert(output.tensor);
  keep(entry.steps, live);
}

void list_used(Program &program, const std::map<const Tensor *, Weight> &weights, const std::vector<State> &states) {
  Live used;
  auto use = [&](const Tensor *tensor) {
    if (used.insert(tensor).second && tensor->kind == Tensor::weight)
      program.weights.push_back(weights.at(tensor));
  };
  std::function<void(const std::vector<Step> &)> visit = [&](const std::vector<Step> &steps) {
    for (const Step &step : steps) {
      if (auto *stage = std::get_if<Stage>(&step.what)) {
        std::set<const Expr *> seen;
        reads_of(stage->value, seen, use);
      } else if (auto *loop = std::get_if<Loop>(&step.what)) {
        for (const auto &c : loop->carried)
          use(c.start);
        visit(loop->steps);
        for (const auto &c : loop->carried)
          use(c.next);
      } else if (auto *update = std::get_if<Update>(&step.what)) {
        use(update->state);
        std::set<const Expr *> seen;
        for (const Update::Along &along : update->place)
          reads_of(along.offset, seen, use);
      }
    }
  };
  for (const Entry &entry : program.entries)
    visit(entry.steps);
  for (const State &state : states)
    if (used.count(state.tensor))
      program.states.push_back(state);
}

} // namespace heddle::checking
