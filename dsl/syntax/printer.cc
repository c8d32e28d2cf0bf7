// Tree to text: `heddle fmt`. Walks the tree and puts its words on the page (layout.h), which knows the author's
// comments, blank lines and line breaks.
#include "dsl/syntax/parser.h"
#include "dsl/syntax/print_expressions.h"

namespace heddle::syntax {
namespace {

class Printer {
public:
  Printer(const Sources &sources, const File &file) : file_(file), out_(sources, file.source), e_(out_) {}

  std::string run() {
    for (const Declaration &d : file_.declarations)
      declaration(d);
    return out_.text();
  }
  bool kept_comments() const { return file_.comments.empty() || out_.followed(); }

private:
  // --- statements

  template <class Item, class Print> void braces(const std::vector<Item> &items, bool simple, Print print) {
    if (items.empty() || (items.size() == 1 && simple && out_.author_kept_block_on_one_line())) {
      auto words = [&] {
        out_.word("{");
        if (!items.empty())
          print(items[0]);
        items.empty() ? out_.tight("}") : out_.word("}");
      };
      if ((!items.empty() || file_.source < 0 || out_.author_kept_block_on_one_line()) && out_.try_on_one_line(words))
        return;
    }
    out_.word("{");
    out_.end_line();
    out_.indent();
    for (const Item &item : items) {
      begin(item);
      print(item);
      out_.end_line();
    }
    out_.outdent();
    out_.begin_line("", true);
    out_.tight("}");
  }

  void begin(const Stmt &s) {
    static constexpr std::string_view kinds[] = {"let", "assign", "update", "", "", "", ""};
    out_.begin_line(kinds[s.kind]);
  }
  void begin(const Member &m) {
    static constexpr std::string_view kinds[] = {"param", "sub", "let", "", "state", "", "", ""};
    out_.begin_line(kinds[m.kind]);
  }

  void block(const Block &list) {
    bool simple = !list.empty() && list[0].kind != Stmt::loop && list[0].kind != Stmt::when;
    braces(list, simple, [&](const Stmt &s) { stmt(s); });
  }

  void stmt(const Stmt &s) {
    switch (s.kind) {
    case Stmt::let:
      let(s.names, *s.exprs[0]);
      break;
    case Stmt::assign:
    case Stmt::update:
      for (size_t i = 0; i < s.targets.size(); ++i) {
        if (i > 0)
          e_.comma(i);
        out_.word(s.targets[i].name.text);
        if (s.targets[i].has_places)
          e_.shape(s.targets[i].places, false);
      }
      if (s.kind == Stmt::assign) {
        e_.equals(*s.exprs[0]);
      } else {
        out_.column(Column::equals);
        out_.word("<-");
        out_.may_break(at_equals);
        e_.expr(*s.exprs[0]);
      }
      break;
    case Stmt::loop:
      out_.word("for");
      out_.word(s.names[0].text);
      out_.word("in");
      e_.expr(*s.exprs[0]);
      if (s.exprs.size() > 1) {
        out_.word("..");
        e_.expr(*s.exprs[1]);
      }
      for (size_t i = 1; i < s.names.size(); ++i) {
        if (i == 1)
          out_.word("with");
        else
          e_.comma(i);
        out_.word(s.names[i].text);
      }
      block(s.body);
      break;
    case Stmt::when:
      out_.word("if");
      e_.expr(*s.exprs[0]);
      block(s.body);
      if (s.otherwise.empty()) {
        out_.leave_out({"else", "{", "}"});
        break;
      }
      out_.word("else");
      if (s.otherwise.size() == 1 && s.otherwise[0].kind == Stmt::when)
        stmt(s.otherwise[0]);
      else
        block(s.otherwise);
      break;
    case Stmt::require:
      require(*s.exprs[0], s.message);
      break;
    case Stmt::give:
      out_.word("return");
      for (size_t i = 0; i < s.exprs.size(); ++i) {
        if (i > 0)
          e_.comma(i);
        e_.expr(*s.exprs[i]);
      }
      break;
    case Stmt::invalid: // never in a tree that is printed
      break;
    }
  }

  void let(const std::vector<Name> &list, const Expr &value) {
    out_.word("let");
    e_.names(list);
    e_.equals(value);
  }

  void require(const Expr &condition, const std::string &message) {
    out_.word("require");
    e_.expr(condition);
    if (message.empty())
      return out_.leave_out({"else", "\"\""});
    out_.may_break(at_else);
    out_.word("else");
    out_.word(quote(message));
  }

  // --- members

  void alias(const std::optional<std::string> &path) {
    if (!path)
      return;
    out_.column(Column::alias);
    out_.word("as");
    out_.word(quote(*path));
  }

  void colon_type(const Type &t) {
    out_.tight(":");
    out_.column(Column::type);
    out_.may_break(at_equals);
    e_.type(t);
  }

  void member(const Member &m) {
    switch (m.kind) {
    case Member::param:
      out_.word("param");
      out_.word(m.name.text);
      alias(m.alias);
      colon_type(m.type);
      if (m.has_stored) {
        out_.column(Column::stored);
        out_.word("stored");
        e_.shape(m.stored, true);
      }
      break;
    case Member::sub:
      out_.word("sub");
      out_.word(m.name.text);
      if (m.is_array) {
        out_.open("[");
        e_.place(m.count, false);
        out_.close("]");
      }
      alias(m.alias);
      out_.column(Column::equals);
      out_.word("=");
      out_.word(m.module.text);
      if (!m.args.empty()) {
        out_.open("(");
        e_.args(m.args);
        out_.close(")");
      }
      break;
    case Member::let:
      let(m.names, *m.expr);
      break;
    case Member::function:
      function(*m.fn);
      break;
    case Member::state:
      out_.word("state");
      out_.word(m.name.text);
      colon_type(m.type);
      if (m.expr)
        e_.equals(*m.expr);
      break;
    case Member::require:
      require(*m.expr, m.message);
      break;
    case Member::entry:
      entry(*m.entry_point);
      break;
    case Member::condition:
      out_.word("if");
      e_.expr(*m.expr);
      members(m.members);
      if (m.otherwise.empty()) {
        out_.leave_out({"else", "{", "}"});
        break;
      }
      out_.word("else");
      if (m.otherwise.size() == 1 && m.otherwise[0].kind == Member::condition)
        member(m.otherwise[0]);
      else
        members(m.otherwise);
      break;
    }
  }

  void members(const std::vector<Member> &list) {
    bool simple = !list.empty() && (list[0].kind == Member::param || list[0].kind == Member::sub ||
                                    list[0].kind == Member::let || list[0].kind == Member::state);
    braces(list, simple, [&](const Member &m) { member(m); });
  }

  void function(const Function &f) {
    out_.begin_head();
    out_.word("fn");
    out_.word(f.name.text);
    e_.formals(f.formals);
    out_.may_break(at_else);
    out_.word("->");
    if (f.results.size() == 1) {
      e_.type(f.results[0]);
    } else {
      out_.open("(", true);
      for (size_t i = 0; i < f.results.size(); ++i) {
        e_.comma(i);
        e_.type(f.results[i], i > 0);
      }
      out_.close(")");
    }
    if (f.expr) {
      out_.word("=");
      out_.end_head();
      out_.may_break(at_equals);
      e_.expr(*f.expr);
    } else {
      block(f.body);
    }
  }

  void entry(const Entry &e) {
    out_.begin_head();
    out_.word("entry");
    out_.word(e.name.text);
    e_.formals(e.formals);
    for (size_t i = 0; i < e.results.size(); ++i) {
      if (i == 0) {
        out_.may_break(at_else);
        out_.word("->");
      } else {
        e_.comma(i);
      }
      e_.formal(e.results[i], true);
    }
    block(e.body);
  }

  // --- declarations

  void declaration(const Declaration &d) {
    out_.begin_line(d.kind == Declaration::let ? "let" : "");
    switch (d.kind) {
    case Declaration::use:
      out_.word("use");
      out_.word(d.name.text);
      out_.tight(":");
      e_.names(d.names);
      break;
    case Declaration::config:
      out_.word("config");
      for (size_t i = 0; i < d.settings.size(); ++i) {
        if (i > 0)
          e_.comma(i);
        out_.word(d.settings[i].name.text);
        if (d.settings[i].key)
          out_.word(quote(*d.settings[i].key));
        if (d.settings[i].initial) {
          out_.word("=");
          e_.expr(*d.settings[i].initial);
        }
      }
      break;
    case Declaration::dim:
      out_.word("dim");
      for (size_t i = 0; i < d.bounds.size(); ++i) {
        if (i > 0)
          e_.comma(i);
        out_.word(d.bounds[i].name.text);
        if (d.bounds[i].most) {
          out_.word("<=");
          e_.expr(*d.bounds[i].most);
        }
      }
      break;
    case Declaration::let:
      let(d.names, *d.expr);
      break;
    case Declaration::require:
      require(*d.expr, d.message);
      break;
    case Declaration::function:
      function(*d.fn);
      break;
    case Declaration::module: {
      const Module &m = *d.module_body;
      out_.word(m.is_model ? "model" : "module");
      out_.word(m.name.text);
      if (!m.sizes.empty()) {
        out_.open("(");
        for (size_t i = 0; i < m.sizes.size(); ++i) {
          e_.comma(i);
          i > 0 ? out_.word(m.sizes[i].text) : out_.tight(m.sizes[i].text);
        }
        out_.close(")");
      }
      members(m.members);
      break;
    }
    }
    out_.end_line();
  }

  const File &file_;
  Layout out_;
  ExpressionPrinter e_;
};

} // namespace

std::string print(const Sources &sources, const File &file) { return Printer(sources, file).run(); }

std::optional<std::string> print_in_place(const Sources &sources, const File &file) {
  Printer printer(sources, file);
  std::string text = printer.run();
  return printer.kept_comments() ? std::optional(std::move(text)) : std::nullopt;
}

} // namespace heddle::syntax
