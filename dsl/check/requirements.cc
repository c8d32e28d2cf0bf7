// `require`: in entries and functions it is a step that the call may fail in, under the conditions around it and for
// every index in sight; what holds after it helps proofs. What a test of all elements says (`all[s](0 < n[s])`) is
// known of each element.
#include "dsl/check/requirements.h"
#include "dsl/check/expressions.h"
#include "dsl/check/mentioned_names.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Stmt;

void Requirements::run(const Stmt &s, Frame &frame) {
  const Expr *test = expressions_.condition(*s.exprs[0], frame);
  if (!test)
    return;
  std::string message = s.message.empty() ? "`" + text(s.exprs[0]->span) + "` does not hold" : s.message;
  if (auto known = truth(test); known && (*known || knowledge_.facts().empty())) {
    if (!*known)
      report(Code::E044, s.exprs[0]->span, {message});
    return;
  }
  steps_.need(test, message, s.exprs[0]->span, frame.path);
}

// --- among declarations and members

bool Requirements::declare(const Tree &e, const std::string &message, Span span, Frame &frame) {
  const Expr *test = expressions_.condition(e, frame);
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
  for (const Expr *node : nodes_of(test)) {
    sizes_only &= node->op != Expr::read;
    if (node->op == Expr::size)
      node->extent.for_each_dim([&](int dim) { dims.insert(dim); });
  }
  if (!sizes_only) {
    report(Code::E041, e.span, {text(e.span)}).help =
        "outside of entries, `require` speaks of settings and dims: move it into the entry";
    return true;
  }
  declared_.requirements.push_back({test, words, dims, span});
  return true;
}

void Requirements::add_declared(const syntax::Entry &entry, const Entry &out, Frame &frame) {
  std::set<int> given;
  auto give_all = [&](const Tensor *tensor) {
    for (const Size &size : tensor->shape)
      size.for_each_dim([&](int dim) { given.insert(dim); });
  };
  for (const Input &input : out.inputs)
    give_all(input.tensor);
  mentions(entry.body, [&](const std::string &name, Span) {
    auto member = frame.self->members.find(name);
    if (member != frame.self->members.end() && member->second.kind == Entity::tensor &&
        member->second.read->kind == Tensor::state)
      give_all(member->second.read);
  });
  for (const Declared::Requirement &r : declared_.requirements) {
    if (!std::includes(given.begin(), given.end(), r.dims.begin(), r.dims.end()))
      continue;
    const Tensor *holds = steps_.stage(frame.path + "require", {}, r.test, r.span);
    steps_.add({Require{holds, r.message, r.span}});
    knowledge_.require(r.test);
  }
}

} // namespace heddle::checking
