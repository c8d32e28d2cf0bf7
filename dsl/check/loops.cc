// Slices that the iterations of an unrolled loop define are put together after it; a loop that stays one collects them.
#include "dsl/check/loops.h"
#include "dsl/check/conversions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/params.h"
#include "dsl/check/ranges.h"
#include "dsl/check/statements.h"
#include "dsl/check/updates.h"

namespace heddle::checking {

using syntax::Stmt;

namespace {

constexpr int64_t most_unrolled = 1024; // iterations; longer loops stay loops

} // namespace

void Loops::run(const Stmt &s, Frame &frame) {
  Size first;
  std::optional<Size> extent;
  std::optional<std::vector<Entity>> params;
  bool over_params = s.exprs.size() == 1 && params_.is_params(*s.exprs[0], frame);
  if (over_params) {
    params = params_.params_of(*s.exprs[0], frame);
    extent = Size(params ? int64_t(params->size()) : 0);
  } else if (s.exprs.size() > 1) {
    if (auto given = ranges_.range(*s.exprs[0], *s.exprs[1], frame))
      std::tie(first, extent) = *given;
  } else {
    extent = expressions_.size(*s.exprs[0], frame, "the extent of a loop");
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
  else if (extent->is_constant() && first.is_constant() && extent->constant() <= most_unrolled)
    unroll(s, iterations(first.constant(), extent->constant()), frame);
  else
    keep_loop(s, first, *extent, frame);
}

std::vector<Entity> Loops::iterations(int64_t first, int64_t count) {
  std::vector<Entity> iterations;
  for (int64_t iteration = 0; iteration < count; ++iteration)
    iterations.push_back(entity(build_.integer(first + iteration)));
  return iterations;
}

void Loops::unroll(const Stmt &s, const std::vector<Entity> &iterations, Frame &frame) {
  frame.scopes.emplace_back();
  size_t own = frame.scopes.size() - 1;
  frame.scopes[own].loop = &s;
  for (size_t i = 1; i < s.names.size(); ++i)
    frame.scopes[own].carried.insert(s.names[i].text);
  for (size_t iteration = 0; iteration < iterations.size() && !frame.returned && budget_.spend(s.span); ++iteration) {
    frame.scopes[own].names.clear();
    frame.scopes[own].names[s.names[0].text] = iterations[iteration];
    statements_.run(s.body, frame);
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

void Loops::keep_loop(const Stmt &s, const Size &first, const Size &extent, Frame &frame) {
  Knowledge::Mark mark = knowledge_.mark();
  auto scopes = frame.scopes;
  Updates::Mark written = updates_.mark();
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
  std::vector<std::optional<Prover::Bound>> bounds; // of what is carried
  std::vector<bool> tried(starts.size());           // whether a wider bound was tried
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
    statements_.run(s.body, frame);
    bool failed = false, widen = false;
    std::vector<std::pair<size_t, std::optional<Prover::Bound>>> left; // bounds that do not hold, and what comes next
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
        auto same = conversions_.converted(entity(value, shapes[i - 1]), start->type, s.names[i].text, s.names[i].span);
        value = same ? steps_.materialise(*same, frame.path + s.names[i].text + ".next", s.names[i].span) : nullptr;
        failed |= !value;
      }
      loop.carried[i - 1].next = value;
      std::optional<Prover::Bound> below = value ? knowledge_.bound_of(value) : std::nullopt;
      if (bounds[i - 1] && !(below && knowledge_.within(*below, *bounds[i - 1])))
        left.emplace_back(i - 1, below);
    }
    steps_.into(outer);
    indices_.leave_loop();
    knowledge_.forget_since(mark);  // it speaks of this loop's iterations
    for (auto &[i, below] : left) { // where there are none, the start is what is read after the loop
      bool wide = !tried[i] && below && knowledge_.within(*bounds[i], *below);
      bounds[i] = wide ? below : std::nullopt;
      tried[i] = wide;
    }
    Names collected = std::move(frame.scopes[own].collected);
    frame.scopes.pop_back();
    if (failed || (!left.empty() && messages_.has_errors())) {
      for (size_t i = 1; i < s.names.size(); ++i)
        scopes_.rebind(s.names[i].text, {}, frame);
      for (auto &[name, tensor] : collected)
        scopes_.put({name, s.span}, {}, frame, false);
      return;
    }
    if (widen || !left.empty()) {
      widened |= widen;
      for (size_t i = 0; i < starts.size() && widen; ++i) {
        const Tensor *next = loop.carried[i].next;
        if (next && is_floating(next->type) && is_integer(starts[i]->type)) {
          auto real = conversions_.converted(entity(starts[i], shapes[i]), next->type, s.names[i + 1].text,
                                             s.names[i + 1].span);
          starts[i] = steps_.materialise(*real, frame.path + s.names[i + 1].text + ".start", s.names[i + 1].span);
        }
      }
      std::set<std::string> names = names_before;
      for (const Tensor *start : starts)
        names.insert(start->name);
      steps_.set_names(std::move(names));
      frame.scopes = scopes;
      updates_.forget_since(written);
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
