// One walk over steps, stages and expressions; what is shared is looked at once.
#include "dsl/check/used_tensors.h"

#include <map>
#include <unordered_set>

namespace heddle {
namespace {

class Collection {
public:
  explicit Collection(Uses &uses) : uses_(uses) {}

  void run(std::span<const Step> all) {
    for (const Step &step : all)
      if (auto *update = std::get_if<Update>(&step.what))
        add_cover(*update);
    steps(all);
  }

private:
  void steps(std::span<const Step> steps) {
    for (const Step &step : steps)
      std::visit([this](const auto &what) { visit(what); }, step.what);
  }

  /// Counts the places along the one axis of which an update has a part. Updates never overlap, so that counting tells
  /// whether all of the state is written.
  void add_cover(const Update &update) {
    Cover &cover = covers_[update.state];
    int axis = -1;
    for (size_t i = 0; i < update.place.size(); ++i) {
      const Update::Along &along = update.place[i];
      bool fixed = along.offset->op == Expr::integer;
      if (fixed && along.offset->whole == 0 && along.extent == update.state->shape[i])
        continue;
      cover.other |= !fixed || axis >= 0 || !along.extent.is_constant();
      axis = i;
    }
    cover.other |= axis >= 0 && cover.axis >= 0 && axis != cover.axis;
    if (axis >= 0) {
      cover.axis = axis;
      cover.places += update.place[axis].extent.constant();
    }
    cover.all |= axis < 0;
  }
  bool is_replaced(const Tensor *state) const {
    auto found = covers_.find(state);
    if (found == covers_.end())
      return false;
    const Cover &cover = found->second;
    return cover.all || (!cover.other && cover.axis >= 0 && state->shape[cover.axis] == Size(cover.places));
  }

  void visit(const Stage &stage) {
    for (const auto *indices : {&stage.space, &stage.over})
      for (const Index &index : *indices)
        size(index.extent);
    tensor(stage.result);
    expression(stage.value);
  }
  void visit(const Loop &loop) {
    size(loop.index.extent);
    for (const Loop::Carried &carried : loop.carried)
      for (const Tensor *each : {carried.carried, carried.start, carried.next})
        tensor(each);
    for (const Loop::Collected &collected : loop.collected)
      for (const Tensor *each : {collected.whole, collected.slice})
        tensor(each);
    steps(loop.steps);
  }
  void visit(const Update &update) {
    update.place.empty() || is_replaced(update.state) ? list(update.state) : tensor(update.state);
    use(update.state).updates = true;
    for (const Update::Along &along : update.place) {
      expression(along.offset);
      size(along.extent);
    }
    tensor(update.value);
  }
  void visit(const Require &require) { tensor(require.condition); }

  Uses::OfState &use(const Tensor *state) {
    for (Uses::OfState &known : uses_.states)
      if (known.state == state)
        return known;
    return uses_.states.emplace_back(Uses::OfState{state});
  }

  /// A tensor that is read, or made.
  void tensor(const Tensor *tensor) {
    if (tensor->kind == Tensor::state)
      use(tensor).reads = true;
    list(tensor);
  }
  void list(const Tensor *tensor) {
    if (!seen_.insert(tensor).second)
      return;
    uses_.tensors.push_back(tensor);
    for (const Size &extent : tensor->shape)
      size(extent);
  }

  void expression(const Expr *node) {
    if (!seen_.insert(node).second)
      return;
    if (node->op == Expr::read)
      tensor(node->tensor);
    if (node->op == Expr::size)
      size(node->extent);
    for (const Expr *arg : node->args)
      expression(arg);
  }

  void size(const Size &size) { note_dims(size, uses_.dims); }

  /// What the updates of a state outside of loops write, all in all.
  struct Cover {
    bool all = false, other = false; // all of it; or places that are not counted
    int axis = -1;
    int64_t places = 0;
  };

  Uses &uses_;
  std::map<const Tensor *, Cover> covers_;
  std::unordered_set<const void *> seen_;
};

} // namespace

void note_dims(const Size &size, std::vector<bool> &dims) {
  size.for_each_dim([&](int dim) { dims[dim] = true; });
}

Uses uses_of(const Program &program, std::span<const Step> steps) {
  Uses uses;
  uses.dims.resize(program.dims.size());
  Collection(uses).run(steps);
  return uses;
}

} // namespace heddle
