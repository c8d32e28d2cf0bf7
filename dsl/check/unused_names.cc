// Warnings about names: what nothing mentions, and what hides something else. They look at the text alone, so what a
// setting leaves out is looked at, too; a name that begins with `_` is left in peace.
#include "dsl/check/unused_names.h"

#include "dsl/check/mentioned_names.h"

#include <map>
#include <utility>

namespace heddle::checking {

using syntax::Declaration;
using syntax::Member;
using syntax::Stmt;

namespace {

using Counts = std::map<std::string, int>;
using Known = std::map<std::string, std::pair<const char *, Span>>; // what a name is, and where

template <class Node> Counts counted(const Node &node) {
  Counts counts;
  mentions(node, [&](const std::string &name, Span) { ++counts[name]; });
  return counts;
}

class Warnings {
public:
  Warnings(const Sources &sources, Diagnostics &diagnostics, const syntax::File &file)
      : sources_(sources), diagnostics_(diagnostics), file_(file), text_(sources.text(file.source)) {
    for (const Declaration &d : file.declarations)
      mentions(d, [&](const std::string &name, Span) { ++all_[name]; });
  }

  void run() {
    Known globals;
    for (const Declaration &d : file_.declarations)
      declared(d, globals);
    for (const Declaration &d : file_.declarations) {
      if (d.fn)
        function(*d.fn, globals);
      if (d.module_body)
        module(*d.module_body, globals);
    }
  }

private:
  void declared(const Declaration &d, Known &known) {
    for (const syntax::Setting &setting : d.settings) {
      known[setting.name.text] = {"setting", setting.name.span};
      if (!all_[setting.name.text])
        diagnostics_.report(Code::W101, setting.name.span, {setting.name.text});
    }
    for (const syntax::Bound &bound : d.bounds)
      declare("dim", bound.name, all_, known);
    if (d.kind == Declaration::let)
      for (const syntax::Name &name : d.names)
        declare("name", name, all_, known);
    if (d.fn)
      declare("function", d.fn->name, all_, known);
    if (d.module_body && !d.module_body->is_model)
      declare("module", d.module_body->name, all_, known);
  }

  /// A member may also be used from outside (`bert.embed.word`).
  bool used_as_member(const std::string &name) const { return text_.find("." + name) != std::string::npos; }

  void module(const syntax::Module &m, Known known) {
    for (const syntax::Name &size : m.sizes) {
      hides(size, known, "a module sees it without a parameter: leave it out, or choose another name");
      Known none;
      Counts own;
      for (const Member &member : m.members)
        mentions(member, [&](const std::string &name, Span) { ++own[name]; });
      declare("size", size, own, none);
    }
    for (const syntax::Name &size : m.sizes)
      known[size.text] = {"size", size.span};
    members(m.members, known, true);
    members(m.members, known, false);
  }

  /// First what they are, then what stands in them.
  void members(const std::vector<Member> &list, Known &known, bool names_only) {
    for (const Member &m : list) {
      if (names_only && m.kind == Member::param) {
        hides_outer(m.name, known);
        known[m.name.text] = {"weight", m.name.span};
        if (!all_[m.name.text] && !used_as_member(m.name.text))
          diagnostics_.report(Code::W102, m.name.span, {m.name.text});
      }
      if (names_only && (m.kind == Member::sub || m.kind == Member::state || m.kind == Member::let)) {
        Known own;
        for (const syntax::Name &name : m.names.empty() ? std::vector<syntax::Name>{m.name} : m.names)
          if (!used_as_member(name.text))
            declare(m.kind == Member::sub ? "sub-module" : m.kind == Member::state ? "state" : "name", name, all_, own);
        for (const syntax::Name &name : m.names.empty() ? std::vector<syntax::Name>{m.name} : m.names) {
          hides_outer(name, known);
          known[name.text] = {m.kind == Member::sub     ? "sub-module"
                              : m.kind == Member::state ? "state"
                                                        : "name",
                              name.span};
        }
      }
      if (names_only && m.kind == Member::function && m.fn->name.text != "call" && !used_as_member(m.fn->name.text)) {
        Known own;
        declare("function", m.fn->name, all_, own);
      }
      if (!names_only && m.fn)
        function(*m.fn, known);
      if (!names_only && m.entry_point)
        body(m.entry_point->formals, "input", m.entry_point->body, counted(m), known);
      members(m.members, known, names_only);
      members(m.otherwise, known, names_only);
    }
  }

  void function(const syntax::Function &f, const Known &known) {
    body(f.formals, "parameter", f.body, counted(f), known);
  }

  void body(const std::vector<syntax::Formal> &formals, const char *kind, const syntax::Block &statements,
            const Counts &counts, const Known &known) {
    Known locals;
    for (const syntax::Formal &formal : formals) {
      hides(formal.name, known);
      declare(kind, formal.name, counts, locals);
    }
    block(statements, counts, known, locals, false);
  }

  void block(const syntax::Block &statements, const Counts &counts, const Known &known, Known &locals, bool in_loop) {
    for (const Stmt &s : statements) {
      std::vector<syntax::Name> names;
      if (s.kind == Stmt::let)
        names = s.names;
      if (s.kind == Stmt::assign)
        for (const syntax::Target &target : s.targets)
          names.push_back(target.name);
      for (const syntax::Name &name : names) {
        hides(name, known);
        if (s.kind == Stmt::let && in_loop)
          hides(name, locals);
        if (!locals.count(name.text))
          declare("name", name, counts, locals);
      }
      if (s.kind == Stmt::loop) {
        hides(s.names[0], known);
        Known inner = locals;
        block(s.body, counts, known, inner, true);
        for (const auto &[name, what] : inner)
          locals.emplace(name, what);
      } else {
        block(s.body, counts, known, locals, in_loop);
        block(s.otherwise, counts, known, locals, in_loop);
      }
    }
  }

  void declare(const char *kind, const syntax::Name &name, const Counts &counts, Known &known) {
    known.emplace(name.text, std::pair(kind, name.span));
    auto count = counts.find(name.text);
    if (name.text[0] != '_' && (count == counts.end() || !count->second))
      diagnostics_.report(Code::W103, name.span, {kind, name.text});
  }

  /// A member may share its name with members under the other conditions of its module, and with functions.
  void hides_outer(const syntax::Name &name, const Known &known) {
    auto found = known.find(name.text);
    if (found == known.end())
      return;
    std::string_view what = found->second.first;
    if (what == "setting" || what == "dim" || what == "size")
      hides(name, known);
  }

  void hides(const syntax::Name &name, const Known &known, const char *seen = "") {
    auto found = known.find(name.text);
    if (found == known.end() || name.text[0] == '_')
      return;
    auto at = sources_.position(found->second.second.file, found->second.second.begin);
    Diagnostic &d =
        diagnostics_.report(Code::W104, name.span, {name.text, found->second.first, std::to_string(at.line)});
    std::string_view what = found->second.first;
    if (*seen && (what == "setting" || what == "dim" || what == "name"))
      d.help = seen;
    if (what == "state")
      d.help = "`" + name.text + " <- …` updates the state; for anything else, choose another name";
  }

  const Sources &sources_;
  Diagnostics &diagnostics_;
  const syntax::File &file_;
  std::string text_;
  Counts all_;
};

} // namespace

void warn_unused(const Sources &sources, Diagnostics &diagnostics, const syntax::File &file) {
  Warnings(sources, diagnostics, file).run();
}

} // namespace heddle::checking
