#include "dsl/check/scopes.h"

#include "dsl/check/foreign.h"
#include "dsl/check/nearest.h"

namespace heddle::checking {

namespace {

constexpr ScalarFunction functions[] = {
#define HEDDLE_SCALAR(name, op, arguments) {name, Expr::op, arguments},
#define HEDDLE_SPECIAL(name, meaning, arguments) {name, Expr::read, arguments, ScalarFunction::meaning},
#include "dsl/check/scalars.def"
#undef HEDDLE_SCALAR
};

} // namespace

std::optional<Entity> Scopes::find(const std::string &name, const Frame &frame) const {
  auto index = frame.indices.find(name);
  if (index != frame.indices.end()) {
    auto first = frame.firsts.find(name);
    const Expr *value = build_.index(index->second);
    if (first != frame.firsts.end())
      value = build_.apply(Expr::add, Type::i32, {value, build_.of_size(first->second)}, {});
    return entity(value);
  }
  return find_but_index(name, frame);
}

std::optional<Entity> Scopes::find_but_index(const std::string &name, const Frame &frame) const {
  for (size_t i = frame.scopes.size(); i-- > 0;)
    if (auto found = frame.scopes[i].names.find(name); found != frame.scopes[i].names.end())
      return found->second;
  if (frame.self)
    if (auto found = frame.self->members.find(name); found != frame.self->members.end())
      return found->second;
  if (auto found = frame.home->names.find(name); found != frame.home->names.end())
    return found->second;
  auto imported = frame.home->imported.find(name);
  for (FileScope *file : {frame.home, imported == frame.home->imported.end() ? nullptr : imported->second, prelude_}) {
    if (!file)
      continue;
    if (file == prelude_ && file != frame.home && messages_.left_out().defined.count(name))
      return Entity{}; // not this one, but what could not be read
    if (auto found = file->functions.find(name); found != file->functions.end()) {
      Entity e;
      e.kind = Entity::function;
      e.code = found->second;
      e.home = file;
      return e;
    }
  }
  for (const ScalarFunction &f : functions)
    if (f.name == name) {
      Entity e;
      e.kind = Entity::builtin;
      e.operation = &f;
      return e;
    }
  return std::nullopt;
}

constexpr size_t most_offers = 300; // a text with more unknown names is no text with misspelt names

std::string Scopes::nearest(const std::string &name, const Frame &frame) const {
  if (unknown_.size() > most_offers)
    return "";
  std::vector<std::string> known;
  for (const auto &[n, v] : frame.indices)
    known.push_back(n);
  for (const Scope &scope : frame.scopes)
    for (const auto &[n, v] : scope.names)
      known.push_back(n);
  if (frame.self)
    for (const auto &[n, v] : frame.self->members)
      known.push_back(n);
  for (const auto &[n, v] : frame.home->names)
    known.push_back(n);
  for (FileScope *file : {frame.home, prelude_})
    if (file)
      for (const auto &[n, v] : file->functions)
        known.push_back(n);
  for (const ScalarFunction &f : functions)
    known.emplace_back(f.name);
  return nearest_of(name, known);
}

namespace {

/// Whether statements define places of a tensor of that name: `y[t, d] = …`.
bool defines_by_place(const syntax::Block &block, const std::string &name) {
  for (const syntax::Stmt &s : block) {
    for (const syntax::Target &target : s.targets)
      if (s.kind == syntax::Stmt::assign && target.has_places && target.name.text == name)
        return true;
    if (defines_by_place(s.body, name) || defines_by_place(s.otherwise, name))
      return true;
  }
  return false;
}

} // namespace

Entity Scopes::meaning(const syntax::Expr &e, const Frame &frame, bool subscript) {
  if (auto found = find(e.text, frame)) {
    hovers_.note(e.span, *found);
    return *found;
  }
  const syntax::Stmt *loop = nullptr; // whose iterations define it
  for (const Scope &scope : frame.scopes)
    if (scope.loop &&
        (scope.collected.count(e.text) || scope.slices.count(e.text) || defines_by_place(scope.loop->body, e.text)))
      loop = scope.loop;
  if (loop || e.text == frame.defining) {
    Diagnostic &d = messages_.report(Code::E062, e.span, {e.text});
    if (loop && loop->names.size() == 1)
      d.help = "it is there after the loop; what one iteration passes to the next is carried: `for " +
               loop->names[0].text + " in " + messages_.text(loop->exprs[0]->span) + " with last`";
    return {};
  }
  for (const Scope &scope : frame.scopes)
    if (auto half = scope.halves.find(e.text); half != scope.halves.end()) {
      messages_.report(Code::E077, e.span, {e.text, half->second});
      return {};
    }
  int line = sources_.position(e.span.file, e.span.begin).line;
  if (!unknown_.insert({e.span.file, line, e.text}).second && messages_.has_errors()) // the same mistake again
    return {};
  std::string instead = instead_of_function(e.text), close = instead.empty() ? nearest(e.text, frame) : "";
  messages_.report(Code::E020, e.span,
                   {e.text, !instead.empty() ? instead
                            : !close.empty() ? "did you mean `" + close + "`?"
                            : subscript ? "an index stands on the left side too, or a reduction runs over it: `sum[" +
                                              e.text + "](…)`"
                                        : "define it before this line"});
  return {};
}

const syntax::Module *Scopes::find_module(FileScope *from, const std::string &name, FileScope *&home) const {
  auto imported = from->imported.find(name);
  for (FileScope *file : {from, imported == from->imported.end() ? nullptr : imported->second, prelude_})
    if (file)
      if (auto found = file->modules.find(name); found != file->modules.end()) {
        home = file;
        return found->second;
      }
  return nullptr;
}

// --- binding

void Scopes::put(const syntax::Name &name, Entity value, Frame &frame, bool is_let) {
  size_t last = frame.scopes.size() - 1;
  if (name.text == "_") // a value that nobody wants
    return;
  hovers_.note(name.span, value);
  Scope &own = frame.scopes[last];
  if (own.arm) { // what this does to names outside is seen when the arms are joined
    bool outside = false;
    for (size_t i = 0; i < last; ++i)
      outside |= frame.scopes[i].names.count(name.text) > 0;
    if (outside || !own.names.count(name.text)) {
      own.names[name.text] = std::move(value);
      return;
    }
  }
  for (size_t i = frame.scopes.size(); i-- > 0;) {
    auto found = frame.scopes[i].names.find(name.text);
    if (found == frame.scopes[i].names.end())
      continue;
    if (i == last) {
      messages_.report(Code::E034, name.span, {name.text});
      return;
    }
    if (is_let)
      break; // a new name that hides the outer one until the iteration ends
    for (size_t j = i + 1; j <= last; ++j)
      if (frame.scopes[j].loop && !frame.scopes[j].carried.count(name.text)) {
        const syntax::Stmt *loop = frame.scopes[j].loop;
        messages_.report(Code::E035, name.span,
                         {name.text, "for " + loop->names[0].text + " in " + messages_.text(loop->exprs[0]->span) +
                                         " with " + name.text});
        return;
      }
    found->second = std::move(value);
    return;
  }
  frame.scopes.back().names[name.text] = std::move(value);
}

void Scopes::rebind(const std::string &name, Entity value, Frame &frame) {
  for (size_t i = frame.scopes.size(); i-- > 0;)
    if (auto found = frame.scopes[i].names.find(name); found != frame.scopes[i].names.end()) {
      found->second = std::move(value);
      return;
    }
}

void Scopes::fail(const syntax::Block &block, Frame &frame) {
  auto fail_name = [&](const std::string &name) {
    for (const Scope &scope : frame.scopes)
      if (scope.names.count(name))
        return;
    frame.scopes.back().names[name] = {};
  };
  for (const syntax::Stmt &s : block) {
    if (s.kind == syntax::Stmt::let)
      for (const syntax::Name &name : s.names)
        fail_name(name.text);
    for (const syntax::Target &target : s.targets)
      if (s.kind == syntax::Stmt::assign)
        fail_name(target.name.text);
    fail(s.body, frame);
    fail(s.otherwise, frame);
  }
}

} // namespace heddle::checking
