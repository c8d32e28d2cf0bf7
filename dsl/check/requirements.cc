// `require`: in entries and functions it is a step that the call may fail in, under the conditions around it and for
// every index in sight; what holds after it helps proofs. What a test of all elements says (`all[s](0 < n[s])`) is
// known of each element.
#include "dsl/check/elaborate.h"
#include "dsl/check/mentions.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Stmt;

void Elaborator::run_require(const Stmt &s, Frame &frame) {
  const Expr *test = condition(*s.exprs[0], frame);
  if (!test)
    return;
  std::string message = s.message.empty() ? "`" + text(s.exprs[0]->span) + "` does not hold" : s.message;
  if (auto known = truth(test); known && (*known || facts_.empty())) {
    if (!*known)
      report(Code::E044, s.exprs[0]->span, {message});
    return;
  }
  need(test, message, s.exprs[0]->span, frame.path);
}

void Elaborator::need(const Expr *test, const std::string &message, Span span, const std::string &path) {
  const Expr *implied = test;
  for (size_t i = facts_.size(); i-- > 0;) {
    const Expr *other = facts_[i].holds ? build_.apply(Expr::logical_not, Type::boolean, {facts_[i].condition}, span)
                                        : facts_[i].condition;
    implied = build_.apply(Expr::logical_or, Type::boolean, {other, implied}, span);
  }
  std::set<int> indices = indices_of(implied);
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
  always_.push_back({implied, true});
  learn(implied, path);
}

namespace {

/// The reads in `e` of whole tensors: at indices alone, each of `over` once.
std::set<const Expr *> elements_in(const Expr *e, const std::set<int> &over) {
  std::set<const Expr *> seen, found;
  std::vector<const Expr *> todo{e};
  while (!todo.empty()) {
    const Expr *next = todo.back();
    todo.pop_back();
    if (!seen.insert(next).second)
      continue;
    todo.insert(todo.end(), next->args.begin(), next->args.end());
    std::set<int> own;
    for (const Expr *arg : next->args)
      if (next->op == Expr::read && arg->op == Expr::index && over.count(arg->position))
        own.insert(arg->position);
    if (!own.empty() && own.size() == next->args.size() && own.size() == over.size())
      found.insert(next);
  }
  return found;
}

} // namespace

void Elaborator::learn(const Expr *test, const std::string &path) {
  if (test->op == Expr::logical_and) {
    learn(test->args[0], path);
    return learn(test->args[1], path);
  }
  if (test->op != Expr::read || !test->args.empty())
    return;
  auto all = alls_.find(test->tensor);
  if (all == alls_.end() || !all->second.space.empty())
    return;
  keep_exact(all->second.condition, path, test->span);
  for (const Expr *read : elements_in(all->second.condition, {all->second.over.begin(), all->second.over.end()})) {
    // States and weights outlive this entry, in which alone the requirement is tested.
    if (read->tensor->kind == Tensor::state || read->tensor->kind == Tensor::weight)
      continue;
    Every every{{}, all->second.condition};
    bool whole = true; // every element is tested
    for (const Expr *arg : read->args) {
      whole &= variables_[arg->position].extent == read->tensor->shape[every.variables.size()];
      every.variables.push_back(arg->position);
    }
    if (whole)
      every_[read->tensor].push_back(every);
  }
}

std::vector<const Expr *> Elaborator::known_of(const Expr *read) {
  std::vector<const Expr *> known;
  auto found = every_.find(read->tensor);
  if (found == every_.end())
    return known;
  for (const Every &every : found->second) {
    std::map<int, const Expr *> at;
    for (size_t i = 0; i < every.variables.size(); ++i)
      at[every.variables[i]] = read->args[i];
    known.push_back(rewrite(every.condition, at));
  }
  return known;
}

// --- among declarations and members

bool Elaborator::add_requirement(const Tree &e, const std::string &message, Span span, Frame &frame) {
  const Expr *test = condition(e, frame);
  if (!test)
    return true; // it is not the settings that are wrong
  std::string words = message.empty() ? "`" + text(e.span) + "` does not hold" : message;
  if (auto known = truth(test)) {
    if (!*known)
      report(Code::E044, e.span, {words});
    return *known;
  }
  std::set<int> dims;
  bool sizes_only = true;
  std::function<void(const Expr *)> visit = [&](const Expr *node) {
    sizes_only &= node->op != Expr::read;
    if (node->op == Expr::size)
      node->extent.for_each_dim([&](int dim) { dims.insert(dim); });
    for (const Expr *arg : node->args)
      visit(arg);
  };
  visit(test);
  if (!sizes_only) {
    report(Code::E041, e.span, {text(e.span)}).help =
        "outside of entries, `require` speaks of settings and dims: move it into the entry";
    return true;
  }
  requirements_.push_back({test, words, dims, span});
  return true;
}

/// An entry tests those requirements all of whose dims its inputs or states tell; about others it knows nothing.
void Elaborator::add_requirements(const syntax::Entry &entry, const Entry &out, Frame &frame) {
  std::set<int> told;
  auto tell_all = [&](const Tensor *tensor) {
    for (const Size &size : tensor->shape)
      size.for_each_dim([&](int dim) { told.insert(dim); });
  };
  for (const Input &input : out.inputs)
    tell_all(input.tensor);
  mentions(entry.body, [&](const std::string &name, Span) {
    auto member = frame.self->members.find(name);
    if (member != frame.self->members.end() && member->second.kind == Entity::tensor &&
        member->second.read->kind == Tensor::state)
      tell_all(member->second.read);
  });
  for (const Requirement &r : requirements_) {
    if (!std::includes(told.begin(), told.end(), r.dims.begin(), r.dims.end()))
      continue;
    const Tensor *holds = stage(frame.path + "require", {}, r.test, r.span);
    steps_->push_back({Require{holds, r.message, r.span}});
    always_.push_back({r.test, true});
  }
}

} // namespace heddle::checking
