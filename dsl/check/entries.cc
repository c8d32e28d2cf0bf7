// Entries: inputs with their shapes and ranges, the body, outputs, updates of state. Then only what outputs,
// updates and requirements need is kept.
#include "dsl/check/elaborate.h"
#include "dsl/check/mentions.h"
#include "dsl/check/prune.h"
#include "dsl/check/uses.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Formal;
using syntax::Place;

Elaborator::Elaborator(Sources &sources, const CheckOptions &options, Diagnostics &diagnostics)
    : sources_(sources), options_(options), diagnostics_(diagnostics),
      prover_(
          *program_, variables_, loops_,
          [this](const Tensor *tensor) {
            auto found = below_.find(tensor);
            return found == below_.end() ? std::nullopt : std::optional(found->second);
          },
          [this](const Expr *e) { return e->span.valid() ? text(e->span) : e->tensor->name; },
          [this](const Expr *read) { return known_of(read); }) {}

namespace {

/// Messages that something is missing: where part of the text could not be read, it may be there.
bool of_absence(Code code) {
  switch (code) {
  case Code::E036:
  case Code::E040:
  case Code::E045:
  case Code::E046:
  case Code::E047:
  case Code::E055:
  case Code::E057:
  case Code::E059:
  case Code::E065:
  case Code::E077:
    return true;
  default:
    return false;
  }
}

} // namespace

Diagnostic &Elaborator::report(Code code, Span span, std::vector<std::string> args) {
  if (left_out_.any) {
    bool of_name = code == Code::E020 || code == Code::E052 || code == Code::E064;
    std::string name = of_name ? args[0] : "";
    name.erase(0, name.find_first_not_of(".{"));
    name.erase(name.find_last_not_of('}') + 1);
    if (of_absence(code) || (of_name && (left_out_.nameless || left_out_.names.count(name))))
      return unsaid_ = {};
  }
  Diagnostic &d = diagnostics_.report(code, span, std::move(args));
  if (!calls_.empty() && span.valid() && span.file != calls_[0].file && d.label.empty()) {
    auto at = sources_.position(calls_[0].file, calls_[0].begin);
    d.label = "called in line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + " of " +
              sources_.path(calls_[0].file);
  }
  return d;
}

std::string count_of(size_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string members_of(int64_t first, int64_t count) {
  if (count == 0)
    return "no members";
  return "members " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

std::string Elaborator::text(const Extent &extent) const {
  std::string value = text(extent.size);
  return extent.name.empty() || extent.name == value ? value : extent.name + " = " + value;
}

std::string Elaborator::text(const std::vector<Extent> &shape) const {
  std::string out = "[";
  for (const Extent &extent : shape)
    out += (out.size() > 1 ? ", " : "") + text(extent.size);
  return out + "]";
}

std::unique_ptr<Program> Elaborator::run(const syntax::File &file) {
  FileScope *own = load_with_prelude(file);
  check_settings_known();
  if (settings_refused_ || !left_out_.checkable)
    return nullptr;
  const syntax::Module *model = nullptr;
  for (const syntax::Declaration &d : file.declarations)
    if (d.kind == syntax::Declaration::module && d.module_body->is_model)
      model = d.module_body.get();
  if (!model) {
    report(Code::E059, {file.source, 0, 0});
    return nullptr;
  }
  program_->name = model->name.text;
  Instance *instance = instantiate(*model, own, {}, "", {""}, model->name.span);
  if (instance && entries_.empty()) {
    std::string choices;
    for (const std::string &c : entry_conditions_)
      choices += (choices.empty() ? "`" : " or `") + c + "`";
    report(Code::E045, model->name.span,
           {model->name.text, choices.empty() ? "add `entry NAME(…) -> … { … }`" : "one needs " + choices});
  }
  for (const syntax::Entry *entry : entries_)
    if (instance)
      add_entry(*entry, *instance);
  if (diagnostics_.has_errors())
    return nullptr;
  warn_unused(*own);
  list_used(*program_, weights_, states_);
  program_->products.assign(prover_.products().begin(), prover_.products().end());
  check_states_set();
  if (diagnostics_.has_errors())
    return nullptr;
  begin_as_weights();
  return std::move(program_);
}

void Elaborator::check_states_set() {
  std::map<const Tensor *, std::pair<bool, bool>> uses; // read by some entry, set by one that does not read it
  for (const Entry &entry : program_->entries)
    for (const Uses::OfState &use : uses_of(*program_, entry.steps).states) {
      uses[use.state].first |= use.reads;
      uses[use.state].second |= use.updates && !use.reads;
    }
  for (const State &state : program_->states) {
    auto [read, set] = uses[state.tensor];
    if (read && !set && !state.initial && !updated_params_.count(state.tensor))
      report(Code::E074, state.tensor->span,
             {state.tensor->name,
              type_name(state.tensor->type) + (state.tensor->shape.empty() ? "" : std::string("[…]"))});
  }
}

void Elaborator::add_entry(const syntax::Entry &entry, Instance &model) {
  for (const Entry &other : program_->entries)
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
  frame.path = entries_.size() > 1 ? entry.name.text + "." : "";
  frame.scopes.resize(1);
  always_.clear();
  every_.clear();
  exact_.clear();
  facts_.clear();
  written_.clear();
  derivatives_.clear();
  steps_ = &out.steps;
  bool good = true;
  for (const Formal &formal : entry.formals)
    good &= add_input(out, formal, frame);
  if (!good)
    return;
  add_requirements(entry, out, frame);
  run(entry.body, frame);
  add_outputs(out, entry, frame);
  if (out.outputs.size() != entry.results.size() && !diagnostics_.has_errors())
    report(Code::E079, entry.name.span, {entry.name.text}); // a failure without a message must not pass
  if (diagnostics_.has_errors())
    return;
  expand_gradients(out);
  if (diagnostics_.has_errors())
    return;
  keep_needed(out);
  check_callable(entry, out);
  program_->entries.push_back(std::move(out));
}

void Elaborator::check_callable(const syntax::Entry &entry, const Entry &out) {
  Uses uses = uses_of(*program_, out.steps);
  std::vector<bool> told(program_->dims.size()), &used = uses.dims;
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
        told[extent.as_dim()] = true;
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
        note_dims(extent, told);
  for (size_t dim = 0; dim < told.size(); ++dim) {
    if (!used[dim] || told[dim])
      continue;
    auto place = where.find(dim);
    report(Code::E078, place == where.end() ? entry.name.span : place->second,
           {entry.name.text, program_->dims[dim].name});
    return;
  }
}

bool Elaborator::add_input(Entry &out, const Formal &formal, Frame &frame) {
  std::vector<Extent> shape;
  std::vector<Size> sizes;
  for (const Place &place : formal.type.shape) {
    if (place.kind != Place::value) {
      report(Code::E069, place.span, {text(place.span)});
      return false;
    }
    auto one = extent(*place.expr, frame);
    if (!one)
      return false;
    shape.push_back(*one);
    sizes.push_back(one->size);
  }
  if (frame.scopes[0].names.count(formal.name.text)) {
    report(Code::E051, formal.name.span, {formal.name.text});
    return false;
  }
  Input input;
  input.name = formal.name.text;
  const Tensor *tensor =
      new_tensor(Tensor::input, frame.path + formal.name.text, *type_of(formal.type), sizes, formal.name.span);
  input.tensor = tensor;
  if (formal.type.scalar == "index") {
    auto range = size(*formal.type.range, frame, "the range of an index");
    if (!range)
      return false;
    input.below = *range;
    below_[tensor] = {*range};
  }
  if (formal.initial) {
    const Expr *value = scalar(*formal.initial, frame);
    if (!value)
      return false;
    auto number = constant(value);
    if (!number || (is_floating(value->type) && !is_floating(tensor->type)) ||
        (value->type == Type::boolean) != (tensor->type == Type::boolean)) {
      if (!number)
        report(Code::E041, formal.initial->span, {text(formal.initial->span)});
      else
        report(Code::E031, formal.initial->span,
               {text(formal.initial->span), type_name(value->type), type_name(tensor->type)});
      return false;
    }
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

void Elaborator::add_outputs(Entry &out, const syntax::Entry &entry, Frame &frame) {
  if (!frame.returned && entry.results.empty())
    return;
  if (!frame.returned) {
    if (!diagnostics_.has_errors())
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
    if (!check_shape(declared.type.shape, shape, frame, false, named)) {
      Diagnostic &d = report(Code::E032, at, {entry.name.text, text(shape), text(declared.type.span)});
      d.label = "`" + declared.name.text + "`";
      continue;
    }
    auto right = converted(value, *type_of(declared.type), declared.name.text, at);
    if (!right)
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
          copy->variables.push_back(new_variable("i" + std::to_string(axis), copy->shape[axis]));
        copy->value = element(*right, copy->variables, at);
        right->kind = Entity::lazy;
        right->formula = copy;
      }
      // A number that was computed before stands where its formula does.
      bool computed = right->kind == Entity::scalar && right->value->span.valid();
      tensor = materialise(*right, frame.path + declared.name.text, computed ? right->value->span : at);
    }
    if (tensor)
      out.outputs.push_back({declared.name.text, tensor});
    taken.insert(tensor);
  }
}

} // namespace heddle::checking

namespace heddle {

std::unique_ptr<Program> check(Sources &sources, const syntax::File &file, const CheckOptions &options,
                               Diagnostics &diagnostics) {
  return checking::Elaborator(sources, options, diagnostics).run(file);
}

bool is_floating(Type type) { return type == Type::f32 || type == Type::f16 || type == Type::bf16; }

const char *type_name(Type type) {
  switch (type) {
  case Type::f32:
    return "f32";
  case Type::f16:
    return "f16";
  case Type::bf16:
    return "bf16";
  case Type::i32:
    return "i32";
  case Type::i8:
    return "i8";
  case Type::boolean:
    return "bool";
  }
  return "";
}

std::vector<std::string> Program::dim_names() const {
  std::vector<std::string> names;
  for (const Dim &dim : dims)
    names.push_back(dim.name);
  return names;
}

} // namespace heddle
