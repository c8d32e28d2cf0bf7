// One function per struct of the tree, in the order of the grammar from the inside out.
#include "tests/syntax/tree_text.h"

#include <cstdio>

namespace heddle::syntax {
namespace {

std::string text(const ExprPtr &expr);
std::string text(const Place &place);
std::string text(const Type &type);
std::string text(const Formal &formal);
std::string text(const Target &target);
std::string text(const Stmt &stmt);
std::string text(const Member &member);
std::string text(const Setting &setting);
std::string text(const Bound &bound);
std::string text(const Name &name);

template <class T> std::string list(const std::vector<T> &items) {
  std::string out = "[";
  for (const T &item : items)
    out += (out.size() > 1 ? " " : "") + text(item);
  return out + "]";
}

std::string text(const ExprPtr &expr) { return expr ? tree_text(*expr) : "-"; }
std::string text(const Name &name) { return name.text; }
std::string text(const std::optional<std::string> &word) { return word ? "'" + *word + "'" : "-"; }
std::string text(const Place &place) {
  switch (place.kind) {
  case Place::value:
    return text(place.expr);
  case Place::all:
    return ":";
  case Place::wildcard:
    return "_";
  case Place::pack:
    return ".." + place.name.text;
  case Place::range:
    return "(in " + place.name.text + " " + text(place.expr) + (place.upper ? " " + text(place.upper) : "") + ")";
  }
  return "";
}

std::string text(const Type &type) {
  return type.scalar + (type.range ? "(" + text(type.range) + ")" : "") + (type.has_shape ? list(type.shape) : "");
}
std::string text(const Formal &formal) {
  return "(" + formal.name.text + " " + text(formal.type) + (formal.initial ? " = " + text(formal.initial) : "") + ")";
}
std::string text(const Target &target) { return target.name.text + (target.has_places ? list(target.places) : ""); }
std::string text(const Stmt &stmt) { return tree_text(stmt); }
std::string text(const Member &member) { return tree_text(member); }
std::string text(const Setting &s) { return "(" + s.name.text + " " + text(s.key) + " " + text(s.initial) + ")"; }
std::string text(const Bound &bound) { return "(" + bound.name.text + " " + text(bound.most) + ")"; }

std::string text(const Function &f) {
  return "(fn " + f.name.text + " " + list(f.formals) + " -> " + list(f.results) + " " +
         (f.expr ? "= " + text(f.expr) : list(f.body)) + ")";
}

} // namespace

std::string tree_text(const Expr &e) {
  static const char *operators[] = {
      "+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "negate"};
  char number[40];
  switch (e.kind) {
  case Expr::integer:
    std::snprintf(number, sizeof number, "%.0f", e.number);
    return number;
  case Expr::real:
    std::snprintf(number, sizeof number, "%.17gr", e.number);
    return number;
  case Expr::boolean:
    return e.number != 0 ? "true" : "false";
  case Expr::string:
    return "'" + e.text + "'";
  case Expr::list:
    return "(list " + list(e.args) + ")";
  case Expr::name:
    return e.text;
  case Expr::unary:
  case Expr::binary: {
    std::string out = std::string("(") + operators[static_cast<int>(e.op)];
    for (const ExprPtr &arg : e.args)
      out += " " + text(arg);
    return out + ")";
  }
  case Expr::condition:
    return "(if " + text(e.args[0]) + " " + text(e.args[1]) + " " + text(e.args[2]) + ")";
  case Expr::call:
    return "(call " + text(e.callee) + " " + list(e.args) + (e.places.empty() ? "" : " " + list(e.places)) + ")";
  case Expr::access:
    return "(at " + text(e.callee) + " " + list(e.places) + (e.outside ? " | " + text(e.outside) : "") + ")";
  case Expr::field:
    return "(field " + text(e.callee) + " " + e.text + ")";
  case Expr::cast:
    return "(cast " + e.text + " " + list(e.args) + ")";
  case Expr::reduce:
    return "(" + e.text + " " + list(e.places) + (e.outside ? " where " + text(e.outside) : "") + " " +
           text(e.args[0]) + ")";
  }
  return "";
}

std::string tree_text(const Stmt &s) {
  static const char *kinds[] = {"let", "assign", "update", "for", "when", "require", "return"};
  std::string out = std::string("(") + kinds[s.kind];
  if (!s.names.empty())
    out += " " + list(s.names);
  if (!s.targets.empty())
    out += " " + list(s.targets);
  for (const ExprPtr &expr : s.exprs)
    out += " " + text(expr);
  if (s.kind == Stmt::loop || s.kind == Stmt::when)
    out += " " + list(s.body);
  if (!s.otherwise.empty())
    out += " else " + list(s.otherwise);
  if (!s.message.empty())
    out += " '" + s.message + "'";
  return out + ")";
}

std::string tree_text(const Member &m) {
  switch (m.kind) {
  case Member::param:
    return "(param " + m.name.text + " " + text(m.alias) + " " + text(m.type) +
           (m.has_stored ? " " + list(m.stored) : "") + ")";
  case Member::sub:
    return "(sub " + m.name.text + (m.is_array ? "[" + text(m.count) + "]" : "") + " " + text(m.alias) + " " +
           m.module.text + " " + list(m.args) + ")";
  case Member::let:
    return "(let " + list(m.names) + " " + text(m.expr) + ")";
  case Member::function:
    return text(*m.fn);
  case Member::state:
    return "(state " + m.name.text + " " + text(m.type) + " " + text(m.expr) + ")";
  case Member::entry:
    return "(entry " + m.entry_point->name.text + " " + list(m.entry_point->formals) + " -> " +
           list(m.entry_point->results) + " " + list(m.entry_point->body) + ")";
  case Member::require:
    return "(require " + text(m.expr) + (m.message.empty() ? "" : " '" + m.message + "'") + ")";
  case Member::condition:
    return "(if " + text(m.expr) + " " + list(m.members) + (m.otherwise.empty() ? "" : " else " + list(m.otherwise)) +
           ")";
  }
  return "";
}

std::string tree_text(const Declaration &d) {
  switch (d.kind) {
  case Declaration::use:
    return "(use " + d.name.text + " " + list(d.names) + ")";
  case Declaration::config:
    return "(config " + list(d.settings) + ")";
  case Declaration::dim:
    return "(dim " + list(d.bounds) + ")";
  case Declaration::let:
    return "(let " + list(d.names) + " " + text(d.expr) + ")";
  case Declaration::function:
    return text(*d.fn);
  case Declaration::require:
    return "(require " + text(d.expr) + (d.message.empty() ? "" : " '" + d.message + "'") + ")";
  case Declaration::module:
    return std::string(d.module_body->is_model ? "(model " : "(module ") + d.name.text + " " +
           list(d.module_body->sizes) + " " + list(d.module_body->members) + ")";
  }
  return "";
}

std::string tree_text(const File &file) {
  std::string out;
  for (const Declaration &d : file.declarations)
    out += tree_text(d) + "\n";
  return out;
}

} // namespace heddle::syntax
