// What all rules of the language work with: the program in the making, and one class for each job that needs no other
// rule. `Services` gives a rule short names for them.
#pragma once

#include "dsl/check/scopes.h"
#include "dsl/check/steps.h"

namespace heddle::checking {

struct Context {
  Context(Sources &sources, const CheckOptions &options, Diagnostics &diagnostics);

  Sources &sources;
  const CheckOptions &options;
  std::unique_ptr<Program> program = std::make_unique<Program>();
  Type real = Type::f32;
  Declared declared;
  Builder build;
  Messages messages;
  Budget budget;
  Indices indices;
  Knowledge knowledge;
  Steps steps;
  Hovers hovers;
  Scopes scopes;
};

class Services {
protected:
  explicit Services(Context &context);

  Diagnostic &report(Code code, Span span, std::vector<std::string> args = {}) {
    return messages_.report(code, span, std::move(args));
  }
  template <class T> std::string text(const T &what) const { return messages_.text(what); }
  void note(Span at, const Entity &e) const { hovers_.note(at, e); }
  std::optional<Entity> find(const std::string &name, const Frame &frame) const { return scopes_.find(name, frame); }
  Type type_of(const syntax::Type &type) const;

  Sources &sources_;
  const CheckOptions &options_;
  Program &program_;
  const Type &real_;
  Declared &declared_;
  Builder &build_;
  Messages &messages_;
  Budget &budget_;
  Indices &indices_;
  Knowledge &knowledge_;
  Steps &steps_;
  const Hovers &hovers_;
  Scopes &scopes_;
};

} // namespace heddle::checking
