// What an arm of such an `if` does to names outside is seen when the arms are joined: until then each arm has its own.
#include "dsl/check/statements.h"
#include "dsl/check/definitions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/loops.h"
#include "dsl/check/requirements.h"
#include "dsl/check/updates.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Stmt;

void Statements::run(const syntax::Block &block, Frame &frame) {
  for (size_t i = 0; i < block.size() && !frame.returned; ++i) {
    run(block[i], frame);
    if (block[i].kind == Stmt::give && i + 1 < block.size())
      report(Code::E019, block[i + 1].span,
             {"nothing after `return` has an effect", "leave it out, or move it before the `return`"});
  }
}

void Statements::run(const Stmt &s, Frame &frame) {
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
    return definitions_.define(s, frame);
  }
  case Stmt::update:
    return updates_.run(s, frame);
  case Stmt::loop:
    return loops_.run(s, frame);
  case Stmt::require:
    return requirements_.run(s, frame);
  case Stmt::when: {
    const Expr *test = expressions_.condition(*s.exprs[0], frame);
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
      Entity value = expressions_.eval(*e, frame);
      if (value.kind == Entity::tuple && s.exprs.size() == 1)
        frame.results = value.items;
      else
        frame.results.push_back(value);
    }
    frame.returned = true;
    return;
  case Stmt::invalid: // what it may have defined is an error wherever it is read, also where it had a value before
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

void Statements::bind(const Stmt &s, const std::vector<syntax::Name> &names, Frame &frame) {
  auto evaluated = std::move(frame.evaluated);
  frame.evaluated.clear();
  frame.defining = names[0].text;
  Entity value = expressions_.eval(*s.exprs[0], frame);
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

static bool returns(const syntax::Block &block) {
  return std::any_of(block.begin(), block.end(),
                     [](const Stmt &s) { return s.kind == Stmt::give || returns(s.body) || returns(s.otherwise); });
}

void Statements::run_when(const Stmt &s, const Expr *test, Frame &frame) {
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
      bool both = returns(s.body) && returns(s.otherwise);
      report(Code::E077, s.exprs[0]->span,
             {"return", both ? "stands inside of an `if`" : "stands in one arm of an `if` only"})
          .help = "define the value in both arms of the `if`, which is decided at run time, and return it after";
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

std::string Statements::difference(const Entity &yes, const Entity &no) const {
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

Entity Statements::join(const std::string &name, const Expr *test, const Entity &yes, const Entity &no, Span span,
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

} // namespace heddle::checking
