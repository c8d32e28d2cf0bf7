// Tree to text: `heddle fmt`. Walks the tree and puts its words on the page (layout.h), which knows the author's
// comments, blank lines and line breaks. Parentheses are kept, and added where the tree needs them.
#include "dsl/syntax/layout.h"
#include "dsl/syntax/parser.h"

#include <charconv>
#include <cmath>

namespace heddle::syntax {
namespace {

// How tightly an expression binds: the rule of the grammar that makes it.
enum Binding {
  of_condition,
  of_or,
  of_and,
  of_not,
  of_compare,
  of_add,
  of_mul,
  of_unary,
  of_power,
  of_postfix,
  of_atom
};
// Where a line may end, loosest first.
enum Break { at_else, at_or, at_and, at_compare, at_add, at_mul, at_power, at_equals, at_comma, at_bracket };

struct Row {
  std::string_view text;
  Binding binding, left, right;
  Break at;
};

Row row_of(Operator op) {
  switch (op) {
  case Operator::add:
    return {"+", of_add, of_add, of_mul, at_add};
  case Operator::sub:
    return {"-", of_add, of_add, of_mul, at_add};
  case Operator::mul:
    return {"*", of_mul, of_mul, of_unary, at_mul};
  case Operator::div:
    return {"/", of_mul, of_mul, of_unary, at_mul};
  case Operator::floor_div:
    return {"//", of_mul, of_mul, of_unary, at_mul};
  case Operator::mod:
    return {"%", of_mul, of_mul, of_unary, at_mul};
  case Operator::power:
    return {"**", of_power, of_postfix, of_unary, at_power};
  case Operator::less:
    return {"<", of_compare, of_add, of_add, at_compare};
  case Operator::less_equal:
    return {"<=", of_compare, of_add, of_add, at_compare};
  case Operator::greater:
    return {">", of_compare, of_add, of_add, at_compare};
  case Operator::greater_equal:
    return {">=", of_compare, of_add, of_add, at_compare};
  case Operator::equal:
    return {"==", of_compare, of_add, of_add, at_compare};
  case Operator::not_equal:
    return {"!=", of_compare, of_add, of_add, at_compare};
  case Operator::logical_and:
    return {"and", of_and, of_and, of_not, at_and};
  case Operator::logical_or:
    return {"or", of_or, of_or, of_and, at_or};
  case Operator::logical_not:
    return {"not", of_not, of_not, of_not, at_and};
  case Operator::negate:
    return {"-", of_unary, of_unary, of_unary, at_mul};
  }
  return {};
}

Binding binding_of(const Expr &e) {
  switch (e.kind) {
  case Expr::condition:
    return of_condition;
  case Expr::unary:
  case Expr::binary:
    return row_of(e.op).binding;
  case Expr::call:
  case Expr::access:
  case Expr::field:
    return of_postfix;
  default:
    return of_atom;
  }
}

std::string number_text(const Expr &e) {
  if (!e.text.empty())
    return e.text;
  if (std::isinf(e.number))
    return "inf";
  char buffer[32];
  std::string out(buffer, std::to_chars(buffer, buffer + sizeof buffer, e.number).ptr);
  return e.kind == Expr::real && out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

class Printer {
public:
  Printer(const Sources &sources, const File &file) : file_(file), out_(sources, file.source) {}

  std::string run() {
    for (const Declaration &d : file_.declarations)
      declaration(d);
    return out_.text();
  }

private:
  // --- expressions

  void expr(const Expr &e, Binding least = of_condition, bool space = true) {
    if (e.in_parens || binding_of(e) < least) {
      out_.open("(", space);
      bare(e, false);
      out_.close(")");
    } else {
      bare(e, space);
    }
  }

  void bare(const Expr &e, bool space) {
    auto put = [&](std::string_view text) { space ? out_.word(text) : out_.tight(text); };
    switch (e.kind) {
    case Expr::integer:
    case Expr::real:
      put(number_text(e));
      break;
    case Expr::boolean:
      put(e.number != 0 ? "true" : "false");
      break;
    case Expr::string:
      put(quote(e.text));
      break;
    case Expr::name:
      put(e.text);
      break;
    case Expr::list:
      out_.open("[", space);
      args(e.args);
      out_.close("]");
      break;
    case Expr::unary: {
      Row row = row_of(e.op);
      put(row.text);
      expr(*e.args[0], row.right, e.op == Operator::logical_not);
      break;
    }
    case Expr::binary: {
      Row row = row_of(e.op);
      expr(*e.args[0], row.left, space);
      out_.may_break(row.at);
      out_.word(row.text);
      expr(*e.args[1], row.right);
      break;
    }
    case Expr::condition:
      put("if");
      expr(*e.args[0]);
      out_.may_break(at_else);
      out_.word("then");
      expr(*e.args[1]);
      out_.may_break(at_else);
      out_.word("else");
      expr(*e.args[2]);
      break;
    case Expr::call:
      expr(*e.callee, of_postfix, space);
      out_.open("(");
      args(e.args);
      out_.close(")");
      break;
    case Expr::access:
      expr(*e.callee, of_postfix, space);
      out_.open("[");
      places(e.places);
      if (e.outside) {
        out_.may_break(at_comma);
        out_.word("|");
        expr(*e.outside);
      }
      out_.close("]");
      break;
    case Expr::field:
      // `1.x` would be read as a number.
      expr(*e.callee, e.callee->kind == Expr::integer || e.callee->kind == Expr::real ? above_all : of_postfix, space);
      out_.tight(".");
      out_.tight(e.text);
      break;
    case Expr::cast:
      put(e.text);
      if (e.args.size() > 1) {
        out_.open("(");
        expr(*e.args[1], of_condition, false);
        out_.close(")");
      }
      out_.open("(");
      expr(*e.args[0], of_condition, false);
      out_.close(")");
      break;
    case Expr::reduce:
      put(e.text);
      out_.open("[");
      places(e.places);
      if (e.outside) {
        out_.may_break(at_comma);
        out_.word("where");
        expr(*e.outside);
      }
      out_.close("]");
      out_.open("(");
      out_.may_break(at_bracket);
      expr(*e.args[0], of_condition, false);
      out_.close(")");
      break;
    }
  }

  void args(const std::vector<ExprPtr> &list) {
    for (size_t i = 0; i < list.size(); ++i) {
      comma(i);
      expr(*list[i], of_condition, i > 0);
    }
  }

  /// Between the items of a list in brackets.
  void comma(size_t i) {
    if (i > 0)
      out_.tight(",");
    out_.may_break(i > 0 ? at_comma : at_bracket);
  }

  void places(const std::vector<Place> &list) {
    for (size_t i = 0; i < list.size(); ++i) {
      comma(i);
      place(list[i], i > 0);
    }
  }

  void place(const Place &p, bool space) {
    auto put = [&](std::string_view text) { space ? out_.word(text) : out_.tight(text); };
    switch (p.kind) {
    case Place::value:
      expr(*p.expr, of_condition, space);
      break;
    case Place::all:
      put(":");
      break;
    case Place::wildcard:
      put("_");
      break;
    case Place::pack:
      put("..");
      out_.tight(p.name.text);
      break;
    case Place::range:
      put(p.name.text);
      if (!p.expr)
        break;
      out_.word("in");
      expr(*p.expr);
      if (p.upper) {
        out_.word("..");
        expr(*p.upper);
      }
      break;
    }
  }

  void names(const std::vector<Name> &list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0)
        comma(i);
      out_.word(list[i].text);
    }
  }

  /// `= value`, on a line of its own if it must
  void equals(const Expr &value) {
    out_.column(Column::equals);
    out_.word("=");
    out_.may_break(at_equals);
    expr(value);
  }

  // --- types

  void shape(const std::vector<Place> &list, bool space) {
    out_.open("[", space);
    places(list);
    out_.close("]");
  }

  void type(const Type &t) {
    out_.word(t.scalar);
    type_rest(t);
  }

  void type_rest(const Type &t) {
    if (t.range) {
      out_.open("(");
      expr(*t.range, of_condition, false);
      out_.close(")");
    }
    if (t.has_shape)
      shape(t.shape, false);
  }

  void formal(const Formal &f, bool space) {
    space ? out_.word(f.name.text) : out_.tight(f.name.text);
    out_.tight(":");
    type(f.type);
    if (f.initial) {
      out_.word("=");
      expr(*f.initial);
    }
  }

  void formals(const std::vector<Formal> &list) {
    out_.open("(");
    for (size_t i = 0; i < list.size(); ++i) {
      comma(i);
      formal(list[i], i > 0);
    }
    out_.close(")");
  }

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
    static constexpr std::string_view kinds[] = {"param", "sub", "let", "", "state", "", ""};
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
          comma(i);
        out_.word(s.targets[i].name.text);
        if (s.targets[i].has_places)
          shape(s.targets[i].places, false);
      }
      if (s.kind == Stmt::assign) {
        equals(*s.exprs[0]);
      } else {
        out_.column(Column::equals);
        out_.word("<-");
        out_.may_break(at_equals);
        expr(*s.exprs[0]);
      }
      break;
    case Stmt::loop:
      out_.word("for");
      out_.word(s.names[0].text);
      out_.word("in");
      expr(*s.exprs[0]);
      for (size_t i = 1; i < s.names.size(); ++i) {
        if (i == 1)
          out_.word("with");
        else
          comma(i);
        out_.word(s.names[i].text);
      }
      block(s.body);
      break;
    case Stmt::when:
      out_.word("if");
      expr(*s.exprs[0]);
      block(s.body);
      if (s.otherwise.empty())
        break;
      out_.word("else");
      if (s.otherwise.size() == 1 && s.otherwise[0].kind == Stmt::when)
        stmt(s.otherwise[0]);
      else
        block(s.otherwise);
      break;
    case Stmt::require:
      out_.word("require");
      expr(*s.exprs[0]);
      if (!s.message.empty()) {
        out_.may_break(at_else);
        out_.word("else");
        out_.word(quote(s.message));
      }
      break;
    case Stmt::give:
      out_.word("return");
      for (size_t i = 0; i < s.exprs.size(); ++i) {
        if (i > 0)
          comma(i);
        expr(*s.exprs[i]);
      }
      break;
    }
  }

  void let(const std::vector<Name> &list, const Expr &value) {
    out_.word("let");
    names(list);
    equals(value);
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
    type(t);
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
        shape(m.stored, true);
      }
      break;
    case Member::sub:
      out_.word("sub");
      out_.word(m.name.text);
      if (m.is_array) {
        out_.open("[");
        place(m.count, false);
        out_.close("]");
      }
      alias(m.alias);
      out_.column(Column::equals);
      out_.word("=");
      out_.word(m.module.text);
      if (!m.args.empty()) {
        out_.open("(");
        args(m.args);
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
        equals(*m.expr);
      break;
    case Member::entry:
      entry(*m.entry_point);
      break;
    case Member::condition:
      out_.word("if");
      expr(*m.expr);
      members(m.members);
      if (m.otherwise.empty())
        break;
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
    formals(f.formals);
    out_.may_break(at_else);
    out_.word("->");
    if (f.results.size() == 1) {
      type(f.results[0]);
    } else {
      out_.open("(", true);
      for (size_t i = 0; i < f.results.size(); ++i) {
        comma(i);
        i > 0 ? out_.word(f.results[i].scalar) : out_.tight(f.results[i].scalar);
        type_rest(f.results[i]);
      }
      out_.close(")");
    }
    if (f.expr) {
      out_.word("=");
      out_.end_head();
      out_.may_break(at_equals);
      expr(*f.expr);
    } else {
      block(f.body);
    }
  }

  void entry(const Entry &e) {
    out_.begin_head();
    out_.word("entry");
    out_.word(e.name.text);
    formals(e.formals);
    for (size_t i = 0; i < e.results.size(); ++i) {
      if (i == 0) {
        out_.may_break(at_else);
        out_.word("->");
      } else {
        comma(i);
      }
      formal(e.results[i], true);
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
      names(d.names);
      break;
    case Declaration::config:
      out_.word("config");
      for (size_t i = 0; i < d.settings.size(); ++i) {
        if (i > 0)
          comma(i);
        out_.word(d.settings[i].name.text);
        if (d.settings[i].key)
          out_.word(quote(*d.settings[i].key));
        out_.word("=");
        expr(*d.settings[i].initial);
      }
      break;
    case Declaration::dim:
      out_.word("dim");
      for (size_t i = 0; i < d.bounds.size(); ++i) {
        if (i > 0)
          comma(i);
        out_.word(d.bounds[i].name.text);
        if (d.bounds[i].most) {
          out_.word("<=");
          expr(*d.bounds[i].most);
        }
      }
      break;
    case Declaration::let:
      let(d.names, *d.expr);
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
          comma(i);
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

  static constexpr Binding above_all = static_cast<Binding>(of_atom + 1);

  const File &file_;
  Layout out_;
};

} // namespace

std::string print(const Sources &sources, const File &file) { return Printer(sources, file).run(); }

} // namespace heddle::syntax
