// Runs an entry: binds the call, then takes its steps in order. Tensors are immutable once made and shared by
// pointer, so that a carried value or a state costs no copy; each is dropped after its last reader.
#include "dsl/interp/interp.h"

#include "dsl/check/round.h"
#include "dsl/interp/bind.h"
#include "dsl/interp/stage_program.h"

#include <algorithm>
#include <set>

namespace heddle {

using namespace interp;
using Shared = std::shared_ptr<const Array>;

struct Interpreter::Impl {
  const Program &program;
  WeightSource source;
  std::unordered_map<const Tensor *, Shared> weights;
  States states;
  bool keep = false, rounds = true;
  std::map<std::string, Array> kept;

  // of the call in progress
  Scope scope;
  std::unordered_map<const Tensor *, std::shared_ptr<Array>> updated;
  std::set<const Tensor *> replaced; // states whose updates make up all of the new value

  Impl(const Program &program, WeightSource source) : program(program), source(std::move(source)) {}

  Result<std::map<std::string, Array>> call(const Entry &entry, const std::map<std::string, Array> &inputs);
  Status load(const Tensor *tensor);
  Result<Array> read_weight(const Weight &weight);
  Shared fresh_state(const Tensor *tensor);
  const State &state_of(const Tensor *tensor) const {
    return *std::find_if(program.states.begin(), program.states.end(),
                         [=](const State &state) { return state.tensor == tensor; });
  }

  Status take(const std::vector<Step> &steps);
  Status take(const Stage &stage);
  Status take(const Loop &loop);
  Status take(const Update &update);
  Result<int64_t> whole_number(const Expr *value);
  Status take(const Require &require);

  void set(const Tensor *tensor, Shared value) {
    if (keep)
      kept[tensor->name] = *value;
    scope.tensors[tensor] = std::move(value);
  }
  /// Per step of an entry, the tensors that no later step reads.
  std::vector<std::vector<const Tensor *>> last_uses(const Entry &entry) const;
};

Interpreter::Interpreter(const Program &program, WeightSource weight)
    : impl_(std::make_unique<Impl>(program, std::move(weight))) {}
Interpreter::~Interpreter() = default;

void Interpreter::reset() { impl_->states.clear(); }
void Interpreter::round(bool rounds) { impl_->rounds = rounds; }
void Interpreter::keep_all(bool keep) { impl_->keep = keep; }
const std::map<std::string, Array> &Interpreter::kept() const { return impl_->kept; }

Result<std::map<std::string, Array>> Interpreter::run(const std::string &name,
                                                      const std::map<std::string, Array> &inputs) {
  std::string known;
  for (const Entry &entry : impl_->program.entries) {
    if (entry.name == name)
      return impl_->call(entry, inputs);
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  return Error{"model '" + impl_->program.name + "' has no entry '" + name + "'; it has: " + known};
}

Result<std::map<std::string, Array>> Interpreter::Impl::call(const Entry &entry,
                                                             const std::map<std::string, Array> &inputs) {
  Result<Bound> bound = bind_call(program, entry, inputs, states);
  if (!bound)
    return bound.error();
  kept.clear();
  updated.clear();
  scope = {};
  scope.dims = bound->dims;
  scope.rounds = rounds;
  for (auto &[tensor, array] : bound->inputs)
    set(tensor, array);
  for (const Output &output : entry.outputs)
    if (Status status = load(output.tensor); !status)
      return status.error();
  Uses uses = uses_of(program, entry.steps);
  for (const Tensor *tensor : uses.tensors)
    if (Status status = load(tensor); !status)
      return status.error();
  replaced.clear();
  for (const Uses::OfState &use : uses.states)
    if (use.updates && !use.reads)
      replaced.insert(use.state);

  auto last = last_uses(entry);
  for (size_t i = 0; i < entry.steps.size(); ++i) {
    if (Status status = std::visit([this](const auto &what) { return take(what); }, entry.steps[i].what); !status)
      return Error{"entry '" + entry.name + "': " + status.error().message};
    for (const Tensor *tensor : last[i])
      scope.tensors.erase(tensor);
  }
  std::map<std::string, Array> results;
  for (const Output &output : entry.outputs)
    results[output.name] = *scope.tensors.at(output.tensor);
  for (auto &[tensor, value] : updated) {
    std::vector<bool> own(scope.dims.size());
    for (const Size &extent : tensor->shape)
      note_dims(extent, own);
    Held held{value, scope.dims, entry.name};
    for (size_t dim = 0; dim < own.size(); ++dim)
      held.dims[dim] = own[dim] ? held.dims[dim] : -1;
    states[tensor] = std::move(held);
  }
  scope = {};
  return results;
}

/// Weights and states come into the scope before the first step.
Status Interpreter::Impl::load(const Tensor *tensor) {
  if (tensor->kind == Tensor::state) {
    auto found = states.find(tensor);
    const Tensor *begins = state_of(tensor).begins;
    if (found != states.end()) {
      scope.tensors[tensor] = found->second.value;
    } else if (begins) {
      if (Status status = load(begins); !status)
        return status;
      scope.tensors[tensor] = scope.tensors.at(begins);
    } else {
      scope.tensors[tensor] = fresh_state(tensor);
    }
  }
  if (tensor->kind == Tensor::weight) {
    Shared &cached = weights[tensor];
    if (!cached) {
      auto weight = std::find_if(program.weights.begin(), program.weights.end(),
                                 [=](const Weight &weight) { return weight.tensor == tensor; });
      Result<Array> array = read_weight(*weight);
      if (!array)
        return array.error();
      cached = std::make_shared<Array>(std::move(*array));
    }
    scope.tensors[tensor] = cached;
  }
  return Done{};
}

Result<Array> Interpreter::Impl::read_weight(const Weight &weight) {
  std::string tried;
  for (const std::string &name : weight.names) {
    Result<Array> array = source(name);
    if (!array) {
      tried += (tried.empty() ? "`" : " nor `") + name + "`";
      continue;
    }
    if (array->shape != weight.stored)
      return Error{"tensor `" + name + "` of the weights has shape " + shape_text(array->shape) + "; the model wants " +
                   shape_text(weight.stored)};
    array->shape.clear();
    for (const Size &extent : weight.tensor->shape)
      array->shape.push_back(extent.constant());
    array->type = weight.tensor->type;
    for (double &value : array->data)
      value = rounds || !is_floating(array->type) ? round_to(array->type, value) : value;
    return array;
  }
  return Error{"the weights have no tensor " + tried};
}

Shared Interpreter::Impl::fresh_state(const Tensor *tensor) {
  Array array;
  array.type = tensor->type;
  int64_t count = 1;
  for (const Size &extent : tensor->shape) {
    array.shape.push_back(extent.evaluate(scope.dims));
    count *= array.shape.back();
  }
  // Without an initial value all is updated before it is read.
  array.data.assign(count, round_to(tensor->type, state_of(tensor).initial.value_or(0)));
  return std::make_shared<Array>(std::move(array));
}

std::vector<std::vector<const Tensor *>> Interpreter::Impl::last_uses(const Entry &entry) const {
  std::unordered_map<const Tensor *, size_t> last;
  std::vector<std::vector<const Tensor *>> dead(entry.steps.size());
  for (size_t i = 0; i < entry.steps.size(); ++i)
    for (const Tensor *tensor : uses_of(program, std::span(&entry.steps[i], 1)).tensors)
      last[tensor] = i;
  for (const Output &output : entry.outputs)
    last.erase(output.tensor);
  for (auto [tensor, step] : last)
    dead[step].push_back(tensor);
  return dead;
}

// ------------------------------------------------------------------------------ steps

Status Interpreter::Impl::take(const std::vector<Step> &steps) {
  for (const Step &step : steps)
    if (Status status = std::visit([this](const auto &what) { return take(what); }, step.what); !status)
      return status;
  return Done{};
}

Status Interpreter::Impl::take(const Stage &stage) {
  Result<StageProgram> ready = prepare(stage, scope);
  if (!ready)
    return ready.error();
  Result<Array> value = evaluate(*ready);
  if (!value)
    return value.error();
  set(stage.result, std::make_shared<Array>(std::move(*value)));
  return Done{};
}

Status Interpreter::Impl::take(const Loop &loop) {
  int64_t iterations = loop.index.extent.evaluate(scope.dims);
  for (const Loop::Carried &carried : loop.carried)
    set(carried.carried, scope.tensors.at(carried.start));
  std::vector<std::shared_ptr<Array>> wholes;
  for (const Loop::Collected &collected : loop.collected) {
    auto whole = std::make_shared<Array>();
    whole->type = collected.whole->type;
    int64_t count = 1;
    for (const Size &extent : collected.whole->shape) {
      whole->shape.push_back(extent.evaluate(scope.dims));
      count *= whole->shape.back();
    }
    whole->data.resize(count);
    scope.tensors[collected.whole] = whole; // readable while it grows: slices of earlier iterations are there
    wholes.push_back(std::move(whole));
  }
  scope.loops.push_back(0);
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    scope.loops.back() = iteration;
    if (Status status = take(loop.steps); !status)
      return status;
    for (size_t c = 0; c < loop.collected.size(); ++c) {
      const Array &slice = *scope.tensors.at(loop.collected[c].slice);
      Array &whole = *wholes[c];
      int axis = loop.collected[c].axis;
      int64_t inner = 1;
      for (size_t d = axis + 1; d < whole.shape.size(); ++d)
        inner *= whole.shape[d];
      for (size_t i = 0; i < slice.data.size(); ++i)
        whole.data[(int64_t(i) / inner * whole.shape[axis] + iteration) * inner + int64_t(i) % inner] = slice.data[i];
    }
    std::vector<Shared> next;
    for (const Loop::Carried &carried : loop.carried)
      next.push_back(scope.tensors.at(carried.next));
    for (size_t c = 0; c < loop.carried.size(); ++c)
      set(loop.carried[c].carried, next[c]);
  }
  scope.loops.pop_back();
  if (keep)
    for (const Loop::Collected &collected : loop.collected)
      kept[collected.whole->name] = *scope.tensors.at(collected.whole);
  return Done{};
}

Status Interpreter::Impl::take(const Update &update) {
  const Array &value = *scope.tensors.at(update.value);
  std::shared_ptr<Array> &next = updated[update.state];
  if (update.place.empty()) {
    next = std::make_shared<Array>(value);
    return Done{};
  }
  if (!next)
    next = std::make_shared<Array>(replaced.count(update.state) ? *fresh_state(update.state)
                                                                : *scope.tensors.at(update.state));
  size_t rank = update.place.size();
  std::vector<int64_t> first(rank), extents(rank), strides(rank, 1);
  for (size_t d = rank; d-- > 0;) {
    Result<int64_t> offset = whole_number(update.place[d].offset);
    if (!offset)
      return offset.error();
    first[d] = *offset;
    extents[d] = update.place[d].extent.evaluate(scope.dims);
    if (d + 1 < rank)
      strides[d] = strides[d + 1] * next->shape[d + 1];
  }
  std::vector<int64_t> at(rank);
  for (size_t i = 0; i < value.data.size(); ++i) {
    int64_t flat = 0, rest = int64_t(i);
    for (size_t d = rank; d-- > 0; rest /= extents[d]) {
      int64_t place = first[d] + rest % extents[d];
      if (place < 0 || place >= next->shape[d])
        return Error{"internal error, please report it: state `" + update.state->name +
                     "` is updated outside its shape, which the checker had excluded"};
      flat += place * strides[d];
    }
    next->data[flat] = value.data[i];
  }
  return Done{};
}

/// An expression without indices.
Result<int64_t> Interpreter::Impl::whole_number(const Expr *value) {
  Tensor number{Tensor::stage, "offset", Type::i32, {}, {}};
  Stage stage{};
  stage.result = &number;
  stage.value = value;
  Result<StageProgram> ready = prepare(stage, scope);
  if (!ready)
    return ready.error();
  Result<Array> result = evaluate(*ready);
  if (!result)
    return result.error();
  return int64_t(result->data[0]);
}

Status Interpreter::Impl::take(const Require &require) {
  if (scope.tensors.at(require.condition)->data[0] != 0)
    return Done{};
  return Error{require.message};
}

} // namespace heddle
