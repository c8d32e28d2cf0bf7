// An entry's body is run with its inputs; then only what outputs, updates and requirements need is kept.
#include "dsl/check/entries.h"
#include "dsl/check/conversions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/gradients.h"
#include "dsl/check/params.h"
#include "dsl/check/prune.h"
#include "dsl/check/requirements.h"
#include "dsl/check/signatures.h"
#include "dsl/check/statements.h"
#include "dsl/check/unread_places.h"
#include "dsl/check/updates.h"
#include "dsl/check/used_tensors.h"

namespace heddle::checking {

using syntax::Formal;
using syntax::Place;

void Entries::check_states() {
  std::map<const Tensor *, std::pair<bool, bool>> uses; // read by some entry, set by one that does not read it
  for (const Entry &entry : program_.entries)
    for (const Uses::OfState &use : uses_of(program_, entry.steps).states) {
      uses[use.state].first |= use.reads;
      uses[use.state].second |= use.updates && !use.reads;
    }
  for (const State &state : program_.states) {
    auto [read, set] = uses[state.tensor];
    if (read && !set && !state.initial && !params_.is_updated(state.tensor))
      report(Code::E074, state.tensor->span,
             {state.tensor->name,
              type_name(state.tensor->type) + (state.tensor->shape.empty() ? "" : std::string("[…]"))});
  }
}

void Entries::add(const syntax::Entry &entry, Instance &model) {
  for (const Entry &other : program_.entries)
    if (other.name == entry.name.text) {
      report(Code::E051, entry.name.span, {entry.name.text});
      return;
    }
  Entry out;
  out.name = entry.name.text;
  out.span = entry.span;
  Frame frame;
  frame.home = model.home;
  frame.self = &model;
  frame.path = declared_.entries.size() > 1 ? entry.name.text + "." : "";
  frame.scopes.resize(1);
  knowledge_.begin_entry();
  steps_.begin_entry();
  updates_.begin_entry();
  gradients_.begin_entry();
  steps_.into(&out.steps);
  bool good = true;
  for (const Formal &formal : entry.formals)
    good &= add_input(out, formal, frame);
  if (!good)
    return;
  requirements_.add_declared(entry, out, frame);
  statements_.run(entry.body, frame);
  add_outputs(out, entry, frame);
  if (out.outputs.size() != entry.results.size() && !messages_.has_errors())
    report(Code::E079, entry.name.span, {entry.name.text}); // a failure without a message must not pass
  if (messages_.has_errors())
    return;
  if (!options_.every_place) { // before gradients are made of what is left
    keep_needed(out, gradients_.tensors());
    leave_out_unread_places(program_, out, gradients_.tensors());
  }
  gradients_.expand(out);
  if (messages_.has_errors())
    return;
  keep_needed(out);
  check_callable(entry, out);
  program_.entries.push_back(std::move(out));
}

void Entries::check_callable(const syntax::Entry &entry, const Entry &out) {
  Uses uses = uses_of(program_, out.steps);
  std::vector<bool> given(program_.dims.size()), &used = uses.dims;
  std::map<int, Span> where; // the dim is spoken of
  auto mention = [&](const Size &size, Span span) {
    note_dims(size, used);
    size.for_each_dim([&](int dim) { where.try_emplace(dim, span); });
  };
  for (size_t i = 0; i < out.inputs.size(); ++i)
    for (size_t axis = 0; axis < out.inputs[i].tensor->shape.size(); ++axis) {
      const Size &extent = out.inputs[i].tensor->shape[axis];
      mention(extent, entry.formals[i].type.shape[axis].span);
      if (extent.as_dim() >= 0)
        given[extent.as_dim()] = true;
    }
  for (size_t i = 0; i < out.outputs.size(); ++i)
    for (size_t axis = 0; axis < out.outputs[i].tensor->shape.size(); ++axis)
      mention(out.outputs[i].tensor->shape[axis], entry.results[i].type.shape[axis].span);
  for (const Input &input : out.inputs)
    if (input.below)
      mention(*input.below, entry.name.span);
  for (const Uses::OfState &use : uses.states)
    for (const Size &extent : use.state->shape)
      if (use.reads)
        note_dims(extent, given);
  for (size_t dim = 0; dim < given.size(); ++dim) {
    if (!used[dim] || given[dim])
      continue;
    auto place = where.find(dim);
    report(Code::E078, place == where.end() ? entry.name.span : place->second,
           {entry.name.text, program_.dims[dim].name});
    return;
  }
}

bool Entries::add_input(Entry &out, const Formal &formal, Frame &frame) {
  std::vector<Extent> shape;
  std::vector<Size> sizes;
  for (const Place &place : formal.type.shape) {
    if (place.kind != Place::value) {
      report(Code::E069, place.span, {text(place.span)});
      return false;
    }
    auto one = expressions_.extent(*place.expr, frame);
    if (!one)
      return false;
    shape.push_back(*one);
    sizes.push_back(one->size);
  }
  Input input;
  input.name = formal.name.text;
  const Tensor *tensor =
      steps_.new_tensor(Tensor::input, frame.path + formal.name.text, type_of(formal.type), sizes, formal.name.span);
  input.tensor = tensor;
  if (formal.type.scalar == "index") {
    auto range = expressions_.size(*formal.type.range, frame, "the range of an index");
    if (!range)
      return false;
    input.below = *range;
    knowledge_.set_bound(tensor, Prover::Bound{*range});
  }
  if (formal.initial) {
    auto number = conversions_.initial(*formal.initial, tensor->type, frame);
    if (!number)
      return false;
    if (input.below && (*number < 0 || (input.below->is_constant() && *number >= input.below->constant()))) {
      report(Code::E070, formal.initial->span, {text(formal.initial->span), text(formal.type.range->span)});
      return false;
    }
    input.initial = number;
  }
  frame.scopes[0].names[formal.name.text] = entity(tensor, shape);
  note(formal.name.span, frame.scopes[0].names[formal.name.text]);
  out.inputs.push_back(input);
  return true;
}

void Entries::add_outputs(Entry &out, const syntax::Entry &entry, Frame &frame) {
  if (!frame.returned && entry.results.empty())
    return;
  if (!frame.returned) {
    if (!messages_.has_errors())
      report(Code::E057, entry.name.span, {entry.name.text});
    return;
  }
  Span place = entry.body.empty() ? entry.span : entry.body.back().span;
  const syntax::Stmt *give = nullptr;
  for (const syntax::Stmt &s : entry.body)
    if (s.kind == syntax::Stmt::give)
      give = &s;
  for (const Entity &result : frame.results)
    if (result.kind == Entity::error)
      return;
  if (frame.results.size() != entry.results.size()) {
    report(Code::E068, place,
           {entry.name.text, count_of(frame.results.size(), "value"), std::to_string(entry.results.size())});
    return;
  }
  std::set<const Tensor *> taken;
  for (size_t i = 0; i < entry.results.size(); ++i) {
    const Formal &declared = entry.results[i];
    Entity value = frame.results[i];
    Span at = give && give->exprs.size() == entry.results.size() ? give->exprs[i]->span : place;
    if (!value.tensor_like() && value.kind != Entity::scalar) {
      report(Code::E031, at, {text(at), "not made of numbers", text(declared.type.span)});
      continue;
    }
    std::vector<Extent> shape = value.kind == Entity::scalar ? std::vector<Extent>{} : value.extents(), named = shape;
    if (!signatures_.check_shape(declared.type.shape, shape, frame, false, named)) {
      Diagnostic &d = report(Code::E032, at, {entry.name.text, text(shape), text(declared.type.span)});
      d.label = "`" + declared.name.text + "`";
      continue;
    }
    auto right = conversions_.converted(value, type_of(declared.type), declared.name.text, at);
    if (!right || !signatures_.check_range(declared.type, *right, frame, at))
      continue;
    // What the caller gets is always a stage's result of its own, never an input, a weight or a state.
    const Tensor *tensor = nullptr;
    if (right->kind == Entity::tensor && right->read->kind == Tensor::stage && !taken.count(right->read)) {
      tensor = right->read;
    } else {
      if (right->kind == Entity::tensor) {
        auto copy = std::make_shared<Lazy>();
        copy->shape = right->extents();
        for (size_t axis = 0; axis < copy->shape.size(); ++axis)
          copy->variables.push_back(indices_.new_variable("i" + std::to_string(axis), copy->shape[axis]));
        copy->value = steps_.element(*right, copy->variables, at);
        right->kind = Entity::lazy;
        right->formula = copy;
      }
      // A number that was computed before stands where its formula does.
      bool computed = right->kind == Entity::scalar && right->value->span.valid();
      tensor = steps_.materialise(*right, frame.path + declared.name.text, computed ? right->value->span : at);
    }
    if (tensor)
      out.outputs.push_back({declared.name.text, tensor});
    taken.insert(tensor);
  }
}

} // namespace heddle::checking
