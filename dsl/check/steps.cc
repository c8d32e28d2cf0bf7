// A reduction is made where it stands in a formula, before anybody knows what the formula defines: where it is all of
// the formula, the definition takes its stage.
#include "dsl/check/steps.h"

#include "dsl/check/exact.h"

#include <algorithm>

namespace heddle::checking {

bool Steps::remove_update(const Tensor *value) {
  auto step = std::find_if(steps_->begin(), steps_->end(), [&](const Step &s) {
    auto *update = std::get_if<Update>(&s.what);
    return update && update->value == value;
  });
  if (step == steps_->end())
    return false;
  steps_->erase(step);
  return true;
}

// --- tensors

std::string Steps::unique_name(const std::string &name) {
  std::string unique = name;
  if (tensor_names_.insert(unique).second)
    return unique;
  for (int &i = next_number_.try_emplace(name, 2).first->second; !tensor_names_.insert(unique).second; ++i)
    unique = name + "#" + std::to_string(i);
  return unique;
}

void Steps::free_name(const std::string &name) {
  tensor_names_.erase(name);
  if (size_t mark = name.rfind('#'); mark != std::string::npos) {
    int &next = next_number_.try_emplace(name.substr(0, mark), 2).first->second;
    next = std::min(next, std::stoi(name.substr(mark + 1)));
  }
}

const Tensor *Steps::new_tensor(Tensor::Kind kind, const std::string &name, Type type, std::vector<Size> shape,
                                Span span) {
  program_.tensors.push_back({kind, unique_name(name), type, std::move(shape), span});
  return &program_.tensors.back();
}

std::vector<Extent> Steps::shape_of(const Tensor *tensor) const {
  std::vector<Extent> shape;
  auto names = extent_names_.find(tensor);
  for (size_t i = 0; i < tensor->shape.size(); ++i)
    shape.push_back(
        {tensor->shape[i], names != extent_names_.end() && i < names->second.size() ? names->second[i] : ""});
  return shape;
}

// --- stages

const Expr *Steps::finished(const Expr *e, const std::map<int, int> &positions,
                            std::map<const Expr *, const Expr *> &done) {
  if (auto known = done.find(e); known != done.end())
    return known->second;
  Expr copy = *e;
  if (e->op == Expr::index)
    copy.position = positions.at(e->position);
  for (const Expr *&arg : copy.args)
    arg = finished(arg, positions, done);
  program_.exprs.push_back(std::move(copy));
  return done[e] = &program_.exprs.back();
}

const Expr *Steps::kept(const Expr *e) {
  std::map<const Expr *, const Expr *> done;
  return finished(e, {}, done);
}

const Tensor *Steps::reduction(const std::string &name, const std::vector<int> &variables, Reducer reducer,
                               const std::vector<int> &over, const Expr *value, Span span) {
  if (!steps_) { // among the declarations, where nothing is computed
    messages_.report(Code::E041, span, {messages_.text(span)});
    return nullptr;
  }
  Stage stage{};
  if (variables.empty() && over.empty() && is_whole(*value)) {
    stage.exact = true;
    keep_exact(value, name.substr(0, name.rfind('.') + 1), span);
  }
  stage.exact |= reducer == Reducer::all && variables.empty(); // what `learn` learns from
  std::vector<Size> shape;
  std::map<int, int> positions;
  for (int v : variables) {
    positions[v] = stage.space.size();
    stage.space.push_back({indices_[v].name, indices_[v].extent});
    shape.push_back(indices_[v].extent);
  }
  for (int v : over) {
    positions[v] = stage.space.size() + stage.over.size();
    stage.over.push_back({indices_[v].name, indices_[v].extent});
  }
  std::map<const Expr *, const Expr *> done;
  std::vector<int> indices = variables;
  indices.insert(indices.end(), over.begin(), over.end());
  stage.value = finished(indices_.without_pieces(value, indices), positions, done);
  stage.reducer = reducer;
  stage.span = span;
  stage.calls = messages_.calls();
  bool position = reducer == Reducer::argmax || reducer == Reducer::argmin;
  const Tensor *result = new_tensor(Tensor::stage, name, position ? Type::i32 : value->type, std::move(shape), span);
  stage.result = result;
  for (int v : variables)
    extent_names_[result].push_back(indices_[v].extent_name);
  steps_->push_back({stage});
  last_reduction_ = reducer == Reducer::none ? nullptr : result;
  return result;
}

const Tensor *Steps::stage(const std::string &name, const std::vector<int> &variables, const Expr *value, Span span) {
  for (int v : variables_of(indices_.without_pieces(value, variables)))
    if (std::find(variables.begin(), variables.end(), v) == variables.end()) {
      messages_.report(Code::E063, span, {indices_[v].name});
      return nullptr;
    }
  // `y[b, o] = sum[i](…)` needs no second stage: the reduction takes the name and the order of the indices.
  if (value->op == Expr::read && value->tensor == last_reduction_ && value->args.size() == variables.size() && steps_ &&
      !steps_->empty() && std::holds_alternative<Stage>(steps_->back().what)) {
    Stage &last = std::get<Stage>(steps_->back().what);
    std::vector<int> axis_of; // of the reduction, per variable
    for (int v : variables)
      for (size_t i = 0; i < value->args.size(); ++i)
        if (value->args[i]->op == Expr::index && value->args[i]->position == v)
          axis_of.push_back(i);
    bool in_order = axis_of.size() == variables.size();
    for (size_t i = 0; i < axis_of.size(); ++i)
      in_order &= axis_of[i] == static_cast<int>(i);
    if (last.result == last_reduction_ && in_order) {
      Tensor &tensor = const_cast<Tensor &>(*last_reduction_); // the program's own, and not yet seen by anyone
      free_name(tensor.name);
      tensor.name = unique_name(name);
      tensor.span = span;
      last.span = span;
      last_reduction_ = nullptr;
      return &tensor;
    }
  }
  const Tensor *result = reduction(name, variables, Reducer::none, {}, value, span);
  if (result)
    knowledge_.bound_result(result, value);
  return result;
}

const Tensor *Steps::materialise(const Entity &e, const std::string &name, Span span) {
  if (e.kind == Entity::tensor)
    return e.read;
  if (e.kind == Entity::lazy)
    return stage(name, e.formula->variables, e.formula->value, span);
  return e.kind == Entity::scalar ? stage(name, {}, e.value, span) : nullptr;
}

const Expr *Steps::element(const Entity &e, const std::vector<int> &variables, Span span) {
  if (e.kind == Entity::scalar)
    return e.value;
  if (e.kind == Entity::lazy) {
    std::map<int, const Expr *> to;
    for (size_t i = 0; i < variables.size() && i < e.formula->variables.size(); ++i)
      to[e.formula->variables[i]] = build_.index(variables[i]);
    return indices_.rewrite(e.formula->value, to);
  }
  std::vector<const Expr *> at;
  for (size_t i = 0; i < e.read->shape.size(); ++i)
    at.push_back(build_.index(variables[i]));
  return build_.read(e.read, at, true, span);
}

// --- requirements

void Steps::need(const Expr *test, const std::string &message, Span span, const std::string &path) {
  const Expr *implied = test;
  const std::vector<Fact> &facts = knowledge_.facts();
  for (auto fact = facts.rbegin(); fact != facts.rend(); ++fact) {
    const Expr *other =
        fact->holds ? build_.apply(Expr::logical_not, Type::boolean, {fact->condition}, span) : fact->condition;
    implied = build_.apply(Expr::logical_or, Type::boolean, {other, implied}, span);
  }
  std::set<int> indices = indices_.indices_of(implied);
  std::vector<int> over(indices.begin(), indices.end());
  keep_exact(implied, path, span);
  const Tensor *holds = over.empty() ? stage(path + "require", {}, implied, span)
                                     : reduction(path + "require", {}, Reducer::all, over, implied, span);
  if (!holds)
    return;
  for (Step &step : *steps_)
    if (auto *own = std::get_if<Stage>(&step.what); own && own->result == holds)
      own->exact = true;
  steps_->push_back({Require{holds, message, span}});
  knowledge_.require(implied);
  learn(implied, path);
}

void Steps::learn(const Expr *test, const std::string &path) {
  if (test->op == Expr::logical_and) {
    learn(test->args[0], path);
    return learn(test->args[1], path);
  }
  if (test->op != Expr::read || !test->args.empty())
    return;
  const ForAll *all = knowledge_.all_of(test->tensor);
  if (!all)
    return;
  keep_exact(all->condition, path, test->span);
  knowledge_.learn(*all);
}

} // namespace heddle::checking
