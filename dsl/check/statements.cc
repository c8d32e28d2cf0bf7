// Statements: names are bound once, loops over constants unrolled, loops over run-time sizes kept, updates of state
// gathered until the entry ends.
#include "dsl/check/elaborate.h"

namespace heddle::checking {

using syntax::Stmt;

namespace {

constexpr int64_t most_turns = 1024; // of an unrolled loop; longer ones stay loops

} // namespace

void Elaborator::run(const syntax::Block &block, Frame &frame) {
  for (const Stmt &s : block) {
    if (frame.returned)
      return;
    run(s, frame);
  }
}

void Elaborator::run(const Stmt &s, Frame &frame) {
  switch (s.kind) {
  case Stmt::let:
    return bind(s, s.names, frame);
  case Stmt::assign: {
    bool places = false;
    for (const syntax::Target &target : s.targets)
      places |= target.has_places;
    if (!places) {
      std::vector<syntax::Name> names;
      for (const syntax::Target &target : s.targets)
        names.push_back(target.name);
      return bind(s, names, frame);
    }
    return define(s, frame);
  }
  case Stmt::update:
    return run_update(s, frame);
  case Stmt::loop:
    return run_for(s, frame);
  case Stmt::require:
    return run_require(s, frame);
  case Stmt::when: {
    const Expr *test = condition(*s.exprs[0], frame);
    if (!test) {
      scopes_.fail(s.body, frame);
      return scopes_.fail(s.otherwise, frame);
    }
    if (auto known = truth(test))
      return run(*known ? s.body : s.otherwise, frame);
    return run_when(s, test, frame);
  }
  case Stmt::give:
    for (const auto &e : s.exprs) {
      Entity value = eval(*e, frame);
      if (value.kind == Entity::tuple && s.exprs.size() == 1)
        frame.results = value.items;
      else
        frame.results.push_back(value);
    }
    frame.returned = true;
    return;
  case Stmt::slip: // what it may have defined is an error wherever it is read, also where it had a value before
    for (const syntax::Name &name : s.names) {
      bool known = false;
      for (Scope &scope : frame.scopes)
        if (auto found = scope.names.find(name.text); found != scope.names.end()) {
          found->second = {};
          known = true;
        }
      if (!known)
        frame.scopes.back().names[name.text] = {};
    }
    return;
  }
}

void Elaborator::bind(const Stmt &s, const std::vector<syntax::Name> &names, Frame &frame) {
  auto evaluated = std::move(frame.evaluated);
  frame.evaluated.clear();
  frame.defining = names[0].text;
  Entity value = eval(*s.exprs[0], frame);
  frame.defining.clear();
  frame.evaluated = std::move(evaluated);
  std::vector<Entity> values = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
  if (value.kind == Entity::error)
    values.resize(names.size());
  if (values.size() != names.size()) {
    report(Code::E033, s.span, {count_of(names.size(), "name"), count_of(values.size(), "value")});
    values.assign(names.size(), {});
  }
  for (size_t i = 0; i < names.size(); ++i) {
    Entity &v = values[i];
    if (v.kind == Entity::lazy) {
      std::vector<Extent> shape = v.extents();
      v = entity(steps_.materialise(v, frame.path + names[i].text, names[i].span), shape);
    }
    scopes_.put(names[i], v, frame, s.kind == Stmt::let);
  }
}

// --- choices at run time

/// Both arms are computed, each under its condition; what both define is chosen by it.
void Elaborator::run_when(const Stmt &s, const Expr *test, Frame &frame) {
  Names arms[2];
  bool returned = frame.returned;
  for (bool yes : {true, false}) {
    frame.scopes.emplace_back();
    frame.scopes.back().arm = true;
    {
      auto around = knowledge_.assume(test, yes);
      run(yes ? s.body : s.otherwise, frame);
    }
    arms[yes] = std::move(frame.scopes.back().names);
    frame.scopes.pop_back();
    if (frame.returned != returned) {
      report(Code::E077, s.exprs[0]->span, {"return", "stands in one arm of an `if` only"}).help =
          "define the value in both arms of the `if`, which is decided at run time, and return it after";
      frame.results.clear();
      frame.results.emplace_back();
      return;
    }
  }
  std::set<std::string> names;
  for (const Names &arm : arms)
    for (const auto &[name, value] : arm)
      names.insert(name);
  for (const std::string &name : names) {
    auto yes = arms[1].find(name), no = arms[0].find(name);
    std::optional<Entity> before;
    for (size_t i = frame.scopes.size(); i-- > 0 && !before;)
      if (auto found = frame.scopes[i].names.find(name); found != frame.scopes[i].names.end())
        before = found->second;
    if ((yes == arms[1].end() || no == arms[0].end()) && !before) {
      frame.scopes.back().halves[name] = "is defined in one arm of an `if` only";
      continue;
    }
    const Entity &a = yes == arms[1].end() ? *before : yes->second, &b = no == arms[0].end() ? *before : no->second;
    std::string differ = difference(a, b);
    if (!differ.empty() && !before)
      frame.scopes.back().halves[name] = differ; // each arm may have its own use for it
    else if (!differ.empty())
      report(Code::E077, s.exprs[0]->span, {name, differ});
    else
      scopes_.put({name, s.exprs[0]->span}, join(name, test, a, b, s.exprs[0]->span, frame), frame, false);
  }
}

namespace {

bool is_number(const Entity &e) { return e.tensor_like() || e.kind == Entity::scalar; }
std::vector<Extent> shape_in(const Entity &e) { return e.kind == Entity::scalar ? std::vector<Extent>{} : e.extents(); }
Type type_in(const Entity &e) {
  return e.kind == Entity::scalar ? e.value->type : e.kind == Entity::lazy ? e.formula->value->type : e.read->type;
}

} // namespace

/// Why two values cannot be joined; empty where they can.
std::string Elaborator::difference(const Entity &yes, const Entity &no) const {
  if (yes.kind == Entity::error || no.kind == Entity::error)
    return "";
  if (!is_number(yes) || !is_number(no))
    return "is not made of numbers";
  std::string shapes[] = {text(shape_in(yes)), text(shape_in(no))};
  if (shapes[0] != shapes[1])
    return "has shape " + shapes[0] + " in one arm and " + shapes[1] + " in the other";
  Type types[] = {type_in(yes), type_in(no)};
  if ((types[0] == Type::boolean) != (types[1] == Type::boolean))
    return std::string("is ") + type_name(types[0]) + " in one arm and " + type_name(types[1]) + " in the other";
  return "";
}

Entity Elaborator::join(const std::string &name, const Expr *test, const Entity &yes, const Entity &no, Span span,
                        Frame &frame) {
  if (yes.kind == Entity::error || no.kind == Entity::error)
    return {};
  std::vector<Extent> shape = shape_in(yes);
  std::vector<int> variables;
  for (const Extent &extent : shape)
    variables.push_back(indices_.new_variable("i" + std::to_string(variables.size()), extent));
  auto value = [&](const Entity &e) {
    return build_.convert(steps_.element(e, variables, span), common_type(type_in(yes), type_in(no)));
  };
  const Expr *chosen = build_.select(test, value(yes), value(no));
  return variables.empty() ? entity(chosen) : entity(steps_.stage(frame.path + name, variables, chosen, span), shape);
}

// --- loops

void Elaborator::run_for(const Stmt &s, Frame &frame) {
  Size first;
  std::optional<Size> extent;
  std::optional<std::vector<Entity>> params;
  bool over_params = s.exprs.size() == 1 && is_params(*s.exprs[0], frame);
  if (over_params) {
    params = params_of(*s.exprs[0], frame);
    extent = Size(params ? int64_t(params->size()) : 0);
  } else if (s.exprs.size() > 1) {
    if (auto given = range(*s.exprs[0], *s.exprs[1], frame))
      std::tie(first, extent) = *given;
  } else {
    extent = size(*s.exprs[0], frame, "the extent of a loop");
  }
  if (!extent || (over_params && !params))
    return scopes_.fail(s.body, frame);
  if (!over_params)
    hovers_.note_loop(s.names[0].span, *extent);
  for (size_t i = 1; i < s.names.size(); ++i) {
    bool known = false;
    for (const Scope &scope : frame.scopes)
      known |= scope.names.count(s.names[i].text) > 0;
    if (!known) {
      report(Code::E064, s.names[i].span, {s.names[i].text});
      return scopes_.fail(s.body, frame);
    }
    for (size_t k = frame.scopes.size(); k-- > 0;) // in an arm of an `if` at run time it is the arm's own from here
      if (frame.scopes[k].names.count(s.names[i].text))
        break;
      else if (frame.scopes[k].arm)
        frame.scopes[k].names[s.names[i].text] = *find(s.names[i].text, frame);
  }
  if (params)
    unroll(s, *params, frame);
  else if (extent->is_constant() && first.is_constant() && extent->constant() <= most_turns)
    unroll(s, turns_of(first.constant(), extent->constant()), frame);
  else
    keep_loop(s, first, *extent, frame);
}

std::optional<std::pair<Size, Size>> Elaborator::range(const Tree &first, const Tree &end, Frame &frame) {
  auto from = size(first, frame, "the first value of a range"), to = size(end, frame, "the end of a range");
  if (!from || !to)
    return std::nullopt;
  Size count = *to - *from;
  auto refuse = [&](int64_t value, const std::string &when) {
    report(Code::E056, end.span, {"the length of this range", std::to_string(value), when});
    return std::nullopt;
  };
  if (count.is_constant() && count.constant() < 0)
    return refuse(count.constant(), " for these settings");
  Prover::Outcome outcome = knowledge_.prove_always(build_.of_size(count));
  if (outcome.kind == Prover::Outcome::refuted)
    return refuse(outcome.value, Knowledge::when(outcome));
  return std::pair(*from, count);
}

std::vector<Entity> Elaborator::turns_of(int64_t first, int64_t count) {
  std::vector<Entity> turns;
  for (int64_t turn = 0; turn < count; ++turn)
    turns.push_back(entity(build_.integer(first + turn)));
  return turns;
}

void Elaborator::unroll(const Stmt &s, const std::vector<Entity> &turns, Frame &frame) {
  frame.scopes.emplace_back();
  size_t own = frame.scopes.size() - 1;
  frame.scopes[own].loop = &s;
  for (size_t i = 1; i < s.names.size(); ++i)
    frame.scopes[own].carried.insert(s.names[i].text);
  for (size_t turn = 0; turn < turns.size() && !frame.returned && budget_.spend(s.span); ++turn) {
    frame.scopes[own].names.clear();
    frame.scopes[own].names[s.names[0].text] = turns[turn];
    run(s.body, frame);
  }
  auto slices = std::move(frame.scopes[own].slices);
  Names failed = std::move(frame.scopes[own].collected);
  frame.scopes.pop_back();
  for (auto &[name, value] : failed) {
    scopes_.put({name, s.span}, {}, frame, false);
    slices.erase(name);
  }
  for (auto &[name, list] : slices) {
    // Places that the loops fix, and the rest, which every slice has alike.
    std::vector<int> variables, rest;
    for (size_t axis = 0, kept = 0; axis < list[0].places.size(); ++axis) {
      bool fixed = list[0].places[axis].has_value();
      int64_t most = 0;
      for (const auto &slice : list)
        if (fixed)
          most = std::max(most, *slice.places[axis] + 1);
      variables.push_back(
          indices_.new_variable("i" + std::to_string(axis), fixed ? Extent{Size(most), ""} : list[0].shape[kept]));
      kept += !fixed;
      if (!fixed)
        rest.push_back(variables.back());
    }
    const Expr *value = nullptr;
    bool alike = true;
    for (auto slice = list.rbegin(); slice != list.rend(); ++slice) {
      alike &= slice->tensor->shape == list[0].tensor->shape && slice->tensor->type == list[0].tensor->type;
      if (!alike)
        break;
      const Expr *own_value = steps_.element(entity(slice->tensor, slice->shape), rest, slice->tensor->span),
                 *here = nullptr;
      for (size_t axis = 0; axis < variables.size(); ++axis)
        if (slice->places[axis]) {
          const Expr *place = build_.integer(*slice->places[axis]);
          const Expr *test = build_.apply(Expr::equal, Type::boolean, {build_.index(variables[axis]), place}, {});
          here = here ? build_.apply(Expr::logical_and, Type::boolean, {here, test}, {}) : test;
        }
      value = value ? build_.select(here, own_value, value) : own_value;
    }
    int64_t places = 1;
    for (size_t axis = 0; axis < variables.size(); ++axis)
      if (list[0].places[axis])
        places *= indices_[variables[axis]].extent.constant();
    Span span = list[0].tensor->span;
    if (!alike || places != static_cast<int64_t>(list.size())) {
      report(Code::E065, span, {name});
      scopes_.put({name, span}, {}, frame, false);
      continue;
    }
    const Tensor *whole = steps_.stage(frame.path + name, variables, value, span);
    scopes_.put({name, span}, entity(whole, steps_.shape_of(whole)), frame, false);
  }
}

void Elaborator::keep_loop(const Stmt &s, const Size &first, const Size &extent, Frame &frame) {
  Knowledge::Mark mark = knowledge_.mark();
  auto scopes = frame.scopes;
  auto written = written_;
  std::vector<const Tensor *> starts;
  std::vector<std::vector<Extent>> shapes;
  std::set<std::string> names_before = steps_.names();
  for (size_t i = 1; i < s.names.size(); ++i) {
    Entity start = *find(s.names[i].text, frame);
    if (!start.tensor_like() && start.kind != Entity::scalar) {
      if (start.kind != Entity::error)
        report(Code::E031, s.names[i].span, {s.names[i].text, "not made of numbers", "a tensor or a number"});
      for (size_t k = 1; k < s.names.size(); ++k)
        scopes_.rebind(s.names[k].text, {}, frame);
      return scopes_.fail(s.body, frame);
    }
    shapes.push_back(start.kind == Entity::scalar ? std::vector<Extent>{} : start.extents());
    starts.push_back(steps_.materialise(start, frame.path + s.names[i].text + ".start", s.names[i].span));
  }
  // A carried tensor that starts as whole numbers and continues as reals (`h[b, k] = 0`) is real from the start, and
  // one that starts as places of something may leave them: each is another try.
  bool widened = false;
  std::vector<std::optional<Prover::Bound>> bounds, wider(starts.size()); // of what is carried; of what comes next
  for (const Tensor *start : starts)
    bounds.push_back(knowledge_.bound_of(start));
  for (;;) {
    Loop loop;
    loop.index = {s.names[0].text, extent};
    loop.span = s.span;
    frame.scopes.emplace_back();
    size_t own = frame.scopes.size() - 1;
    Scope &scope = frame.scopes[own];
    scope.loop = &s;
    scope.run_time = &loop;
    scope.depth = indices_.enter_loop(s.names[0].text, extent);
    scope.names[s.names[0].text] =
        entity(build_.apply(Expr::add, Type::i32, {build_.loop_index(scope.depth), build_.of_size(first)}, {}));
    for (size_t i = 1; i < s.names.size(); ++i) {
      scope.carried.insert(s.names[i].text);
      const Tensor *start = starts[i - 1];
      const Tensor *carried = steps_.new_tensor(Tensor::carried, frame.path + s.names[i].text + ".carried", start->type,
                                                start->shape, s.names[i].span);
      loop.carried.push_back({carried, start, nullptr});
      if (bounds[i - 1])
        knowledge_.set_bound(carried, *bounds[i - 1]);
      scopes_.rebind(s.names[i].text, entity(carried, shapes[i - 1]), frame);
    }
    std::vector<Step> *outer = steps_.into(&loop.steps);
    run(s.body, frame);
    bool failed = false, widen = false, leaves = false;
    for (size_t i = 1; i < s.names.size(); ++i) {
      Entity next = *find(s.names[i].text, frame);
      const Tensor *start = starts[i - 1], *value = nullptr;
      if (next.tensor_like() || next.kind == Entity::scalar)
        value = steps_.materialise(next, frame.path + s.names[i].text + ".next", s.names[i].span);
      failed |= !value;
      if (!value)
        continue;
      if (value->shape != start->shape) {
        report(Code::E066, s.names[i].span, {s.names[i].text, text(shapes[i - 1]), text(steps_.shape_of(value))});
        failed = true;
      } else if (value->type != start->type && is_floating(value->type) && is_integer(start->type) && !widened) {
        widen = true;
      } else if (value->type != start->type) {
        auto same = converted(entity(value, shapes[i - 1]), start->type, s.names[i].text, s.names[i].span);
        value = same ? steps_.materialise(*same, frame.path + s.names[i].text + ".next", s.names[i].span) : nullptr;
        failed |= !value;
      }
      loop.carried[i - 1].next = value;
      std::optional<Prover::Bound> below = value ? knowledge_.bound_of(value) : std::nullopt;
      std::optional<Prover::Bound> &bound = bounds[i - 1], &tried = wider[i - 1];
      if (!bound || (below && knowledge_.within(*below, *bound)))
        continue;
      leaves = true;
      bool wide = !tried && below && knowledge_.within(*bound, *below);
      bound = tried = wide ? below : std::nullopt;
    }
    steps_.into(outer);
    indices_.leave_loop();
    knowledge_.forget_since(mark); // it speaks of this loop's turns
    Names collected = std::move(frame.scopes[own].collected);
    frame.scopes.pop_back();
    if (failed || (leaves && messages_.has_errors())) {
      for (size_t i = 1; i < s.names.size(); ++i)
        scopes_.rebind(s.names[i].text, {}, frame);
      for (auto &[name, tensor] : collected)
        scopes_.put({name, s.span}, {}, frame, false);
      return;
    }
    if (widen || leaves) {
      widened |= widen;
      for (size_t i = 0; i < starts.size() && widen; ++i) {
        const Tensor *next = loop.carried[i].next;
        if (next && is_floating(next->type) && is_integer(starts[i]->type)) {
          auto real = converted(entity(starts[i], shapes[i]), next->type, s.names[i + 1].text, s.names[i + 1].span);
          starts[i] = steps_.materialise(*real, frame.path + s.names[i + 1].text + ".start", s.names[i + 1].span);
        }
      }
      std::set<std::string> names = names_before;
      for (const Tensor *start : starts)
        names.insert(start->name);
      steps_.set_names(std::move(names));
      frame.scopes = scopes;
      written_ = written;
      continue;
    }
    for (size_t i = 1; i < s.names.size(); ++i)
      scopes_.rebind(s.names[i].text, entity(loop.carried[i - 1].carried, shapes[i - 1]), frame);
    for (auto &[name, tensor] : collected)
      scopes_.put({name, tensor.read ? tensor.read->span : s.span}, tensor, frame, false);
    steps_.add({std::move(loop)});
    return;
  }
}

} // namespace heddle::checking
