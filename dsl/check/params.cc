// Params that an entry updates, and what goes over all params of a module: `for p in params(encoder) { … p <- … }` and
// `state m: params(encoder) = 0`, of which `m[p]` is that of one param.
#include "dsl/check/params.h"
#include "dsl/check/expressions.h"
#include "dsl/check/used_tensors.h"

#include <algorithm>
#include <utility>

namespace heddle::checking {

bool Params::is_params(const Tree &e, Frame &frame) {
  if (e.kind != Tree::call || e.callee->kind != Tree::name || e.callee->text != "params")
    return false;
  auto found = find("params", frame);
  return found && found->kind == Entity::builtin;
}

std::optional<std::vector<Entity>> Params::params_of(const Tree &e, Frame &frame) {
  std::map<const Tensor *, Entity> found;
  std::function<void(const Instance &)> of_module = [&](const Instance &instance) {
    for (const auto &[name, member] : instance.members)
      if (member.kind == Entity::tensor && declared_.weights.count(member.read))
        found[member.read] = member;
      else if (member.kind == Entity::instance)
        of_module(*member.module);
      else if (member.kind == Entity::array)
        for (const Instance *one : member.modules)
          of_module(*one);
  };
  for (const auto &arg : e.args) {
    bool outer = std::exchange(frame.per_element, false);
    Entity of = expressions_.eval(*arg, frame);
    frame.per_element = outer;
    if (of.kind == Entity::error)
      return std::nullopt;
    if (of.kind == Entity::tensor && declared_.weights.count(of.read))
      found[of.read] = of;
    else if (of.kind == Entity::instance)
      of_module(*of.module);
    else if (of.kind == Entity::array)
      for (const Instance *one : of.modules)
        of_module(*one);
    else {
      report(Code::E084, arg->span, {text(arg->span), of.tensor_like() ? "a tensor" : "something else"});
      return std::nullopt;
    }
  }
  if (e.args.empty() && frame.self)
    of_module(*frame.self);
  std::vector<Entity> list;
  for (const Tensor &tensor : program_.tensors) // as they are declared
    if (auto one = found.find(&tensor); one != found.end())
      list.push_back(one->second);
  return list;
}

Entity Params::state_of_params(const syntax::Member &m, Frame &frame) {
  if (!is_params(*m.type.range, frame)) {
    report(Code::E013, m.type.span,
           {"expected a type, found `" + text(m.type.span) + "`", "write `params(…)`, or a type such as `real[N]`"});
    return {};
  }
  auto params = params_of(*m.type.range, frame);
  const Expr *value = params && m.expr ? expressions_.scalar(*m.expr, frame) : nullptr;
  if (!params || (m.expr && !value))
    return {};
  if (m.expr && !constant(value)) {
    report(Code::E041, m.expr->span, {text(m.expr->span)});
    return {};
  }
  auto by_param = std::make_shared<std::map<const Tensor *, Entity>>();
  for (const Entity &param : *params) {
    const Tensor *tensor = steps_.new_tensor(Tensor::state, m.name.text + "." + param.read->name, param.read->type,
                                             param.read->shape, m.name.span);
    declared_.states.push_back({tensor, value ? constant(value) : std::nullopt});
    (*by_param)[param.read] = entity(tensor, param.shape);
  }
  Entity family;
  family.kind = Entity::family;
  family.by_param = std::move(by_param);
  return family;
}

std::optional<Entity> Params::of_param(const Entity &family, const syntax::Name &name,
                                       const std::vector<syntax::Place> &places, Span span, Frame &frame) {
  auto refuse = [&](Span at, const std::string &why) {
    report(Code::E085, at, {name.text, why});
    return std::nullopt;
  };
  if (places.size() != 1 || places[0].kind != syntax::Place::value)
    return refuse(span, "`" + text(span) + "` names none");
  const Tree &at = *places[0].expr;
  bool outer = std::exchange(frame.per_element, false);
  Entity param = expressions_.eval(at, frame);
  frame.per_element = outer;
  if (param.kind == Entity::error)
    return std::nullopt;
  auto found = param.kind == Entity::tensor ? family.by_param->find(param.read) : family.by_param->end();
  if (found == family.by_param->end())
    return refuse(at.span, "`" + text(at.span) + "` is none of them");
  return found->second;
}

bool Params::become_state(const syntax::Target &target, const Tensor *param) {
  if (target.has_places) {
    report(Code::E086, target.span, {target.name.text});
    return false;
  }
  if (updated_params_.emplace(param, declared_.weights.at(param)).second) {
    const_cast<Tensor *>(param)->kind = Tensor::state; // the program's own
    declared_.states.push_back({param, std::nullopt});
  }
  return true;
}

namespace {

/// Other tensors in the place of some, in all that a list of steps reads.
class Replacement {
public:
  Replacement(Program &program, const std::map<const Tensor *, const Tensor *> &to) : program_(program), to_(to) {}

  void steps(std::vector<Step> &list) {
    for (Step &step : list)
      if (auto *stage = std::get_if<Stage>(&step.what)) {
        stage->value = of(stage->value);
      } else if (auto *loop = std::get_if<Loop>(&step.what)) {
        for (Loop::Carried &c : loop->carried) {
          c.start = of(c.start);
          c.next = of(c.next);
        }
        steps(loop->steps);
      } else if (auto *update = std::get_if<Update>(&step.what)) {
        update->value = of(update->value);
        for (Update::Along &along : update->place)
          along.offset = of(along.offset);
      }
  }

private:
  const Tensor *of(const Tensor *t) const {
    auto found = to_.find(t);
    return found == to_.end() ? t : found->second;
  }
  const Expr *of(const Expr *e) {
    if (auto known = done_.find(e); known != done_.end())
      return known->second;
    Expr copy = *e;
    bool same = true;
    if (e->op == Expr::read) {
      copy.tensor = of(e->tensor);
      same = copy.tensor == e->tensor;
    }
    for (const Expr *&arg : copy.args) {
      const Expr *own = of(arg);
      same &= own == arg;
      arg = own;
    }
    return done_[e] = same ? e : &program_.exprs.emplace_back(std::move(copy));
  }

  Program &program_;
  const std::map<const Tensor *, const Tensor *> &to_;
  std::map<const Expr *, const Expr *> done_;
};

} // namespace

/// A param that is updated is a weight, a state, and whether that has been written:
///   w.now[..i] = if w.begun != 0 then w[..i] else w.file[..i]
void Params::begin_as_weights() {
  Program &program = program_;
  auto make = [&](Expr::Op op, Type type, std::vector<const Expr *> args) {
    Expr e{};
    e.op = op;
    e.type = type;
    e.args = std::move(args);
    return &program.exprs.emplace_back(std::move(e));
  };
  auto read = [&](const Tensor *t, const std::vector<const Expr *> &at) {
    Expr *e = make(Expr::read, t->type, at);
    e->tensor = t;
    return e;
  };
  struct Param {
    const Tensor *file, *begun;
  };
  std::map<const Tensor *, Param> params;
  for (State &state : std::vector<State>(program.states)) {
    auto found = updated_params_.find(state.tensor);
    if (found == updated_params_.end())
      continue;
    const Tensor &own = *state.tensor;
    Param param{steps_.new_tensor(Tensor::weight, own.name + ".file", own.type, own.shape, own.span),
                steps_.new_tensor(Tensor::state, own.name + ".begun", Type::i32, {}, own.span)};
    Weight weight = found->second;
    weight.tensor = param.file;
    program.weights.push_back(std::move(weight));
    for (State &one : program.states)
      if (one.tensor == state.tensor)
        one.initial = 0;
    program.states.push_back({param.begun, 0});
    params[state.tensor] = param;
  }
  if (params.empty())
    return;
  for (Entry &entry : program.entries) {
    Uses uses = uses_of(program, entry.steps);
    std::map<const Tensor *, const Tensor *> now;
    std::vector<Step> before;
    for (const Uses::OfState &use : uses.states) {
      auto param = params.find(use.state);
      if (param == params.end())
        continue;
      const Tensor &own = *use.state;
      if (use.reads) {
        Stage stage{};
        std::vector<const Expr *> at;
        for (const Size &extent : own.shape) {
          Expr *index = make(Expr::index, Type::i32, {});
          index->position = int(at.size());
          at.push_back(index);
          stage.space.push_back({"i" + std::to_string(stage.space.size()), extent});
        }
        const Expr *begun =
            make(Expr::not_equal, Type::boolean, {read(param->second.begun, {}), make(Expr::integer, Type::i32, {})});
        stage.value = make(Expr::select, own.type, {begun, read(&own, at), read(param->second.file, at)});
        stage.result = now[&own] = steps_.new_tensor(Tensor::stage, own.name + ".now", own.type, own.shape, own.span);
        stage.span = own.span;
        before.push_back({std::move(stage)});
      }
      if (use.updates) {
        Stage one{};
        Expr *value = make(Expr::integer, Type::i32, {});
        value->whole = 1;
        one.value = value;
        one.result = steps_.new_tensor(Tensor::stage, own.name + ".begun.new", Type::i32, {}, own.span);
        one.span = own.span;
        entry.steps.push_back({one});
        entry.steps.push_back({Update{param->second.begun, one.result, {}, own.span}});
      }
    }
    Replacement(program, now).steps(entry.steps);
    entry.steps.insert(entry.steps.begin(), std::make_move_iterator(before.begin()),
                       std::make_move_iterator(before.end()));
  }
}

} // namespace heddle::checking
