// One walk over steps, stages and expressions; what is shared is looked at once.
#include "dsl/check/uses.h"

#include <unordered_set>

namespace heddle {
namespace {

class Collection {
public:
  explicit Collection(Uses &uses) : uses_(uses) {}

  void steps(std::span<const Step> steps) {
    for (const Step &step : steps)
      std::visit([this](const auto &what) { visit(what); }, step.what);
  }

private:
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
    update.place.empty() ? list(update.state) : tensor(update.state);
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

  Uses &uses_;
  std::unordered_set<const void *> seen_;
};

} // namespace

void note_dims(const Size &size, std::vector<bool> &dims) {
  for (const Size::Term &term : size.terms()) {
    if (term.atom.kind == Size::Atom::dim)
      dims[term.atom.dim_index] = true;
    else
      note_dims(*term.atom.inner, dims);
  }
}

Uses uses_of(const Program &program, std::span<const Step> steps) {
  Uses uses;
  uses.dims.resize(program.dims.size());
  Collection(uses).steps(steps);
  return uses;
}

} // namespace heddle
