// Parentheses are kept where the author put them, and added where the tree needs them.
#include "dsl/syntax/print_expressions.h"

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
struct Row {
  std::string_view text;
  Binding binding, left, right;
  Break at;
};

constexpr Row rows[] = {
    // in the order of Operator
    {"+", of_add, of_add, of_mul, at_add},
    {"-", of_add, of_add, of_mul, at_add},
    {"*", of_mul, of_mul, of_unary, at_mul},
    {"/", of_mul, of_mul, of_unary, at_mul},
    {"//", of_mul, of_mul, of_unary, at_mul},
    {"%", of_mul, of_mul, of_unary, at_mul},
    {"**", of_power, of_postfix, of_unary, at_power},
    {"<", of_compare, of_add, of_add, at_compare},
    {"<=", of_compare, of_add, of_add, at_compare},
    {">", of_compare, of_add, of_add, at_compare},
    {">=", of_compare, of_add, of_add, at_compare},
    {"==", of_compare, of_add, of_add, at_compare},
    {"!=", of_compare, of_add, of_add, at_compare},
    {"and", of_and, of_and, of_not, at_and},
    {"or", of_or, of_or, of_and, at_or},
    {"not", of_not, of_not, of_not, at_and},
    {"-", of_unary, of_unary, of_unary, at_mul},
};

const Row &row_of(Operator op) { return rows[static_cast<int>(op)]; }

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

} // namespace

void ExpressionPrinter::expr(const Expr &e, bool space) { operand(e, of_condition, space); }

/// An expression where the grammar asks for one that binds at least that tightly.
void ExpressionPrinter::operand(const Expr &e, int least, bool space) {
  if (e.in_parens || binding_of(e) < least) {
    out_.open("(", space);
    bare(e, false);
    out_.close(")");
  } else {
    bare(e, space);
  }
}

void ExpressionPrinter::bare(const Expr &e, bool space) {
  switch (e.kind) {
  case Expr::integer:
  case Expr::real:
    return put(number_text(e), space);
  case Expr::boolean:
    return put(e.number != 0 ? "true" : "false", space);
  case Expr::string:
    return put(quote(e.text), space);
  case Expr::name:
    return put(e.text, space);
  case Expr::list:
    out_.open("[", space);
    args(e.args);
    out_.close("]");
    return;
  case Expr::unary:
    put(row_of(e.op).text, space);
    operand(*e.args[0], row_of(e.op).right, e.op == Operator::logical_not);
    return;
  case Expr::binary:
    operand(*e.args[0], row_of(e.op).left, space);
    out_.may_break(row_of(e.op).at);
    out_.word(row_of(e.op).text);
    operand(*e.args[1], row_of(e.op).right);
    return;
  case Expr::condition:
    return condition(e, space);
  case Expr::call:
    operand(*e.callee, of_postfix, space);
    out_.open("(");
    args(e.args);
    for (size_t i = 0; i < e.places.size(); ++i) {
      comma(e.args.size() + i);
      place(e.places[i], e.args.size() + i > 0);
    }
    out_.close(")");
    return;
  case Expr::access:
    operand(*e.callee, of_postfix, space);
    return subscripts(e, "|");
  case Expr::field: {
    // `1.x` would be read as a number.
    bool is_number = e.callee->kind == Expr::integer || e.callee->kind == Expr::real;
    operand(*e.callee, is_number ? of_atom + 1 : of_postfix, space);
    out_.tight(".");
    out_.tight(e.text);
    return;
  }
  case Expr::cast:
    put(e.text, space);
    if (e.args.size() > 1)
      in_parens(*e.args[1]);
    return in_parens(*e.args[0]);
  case Expr::reduce:
    put(e.text, space);
    subscripts(e, "where");
    return in_parens(*e.args[0]);
  }
}

void ExpressionPrinter::condition(const Expr &e, bool space) {
  put("if", space);
  expr(*e.args[0]);
  out_.may_break(at_else);
  out_.word("then");
  expr(*e.args[1]);
  out_.may_break(at_else);
  out_.word("else");
  expr(*e.args[2]);
}

/// The brackets of an access or a reduction.
void ExpressionPrinter::subscripts(const Expr &e, std::string_view before_outside) {
  out_.open("[");
  places(e.places);
  if (e.outside) {
    out_.may_break(at_comma);
    out_.word(before_outside);
    expr(*e.outside);
  }
  out_.close("]");
}

void ExpressionPrinter::in_parens(const Expr &e) {
  out_.open("(");
  out_.may_break(at_bracket);
  expr(e, false);
  out_.close(")");
}

void ExpressionPrinter::args(const std::vector<ExprPtr> &list) {
  for (size_t i = 0; i < list.size(); ++i) {
    comma(i);
    expr(*list[i], i > 0);
  }
}

void ExpressionPrinter::comma(size_t i) {
  if (i > 0)
    out_.tight(",");
  out_.may_break(i > 0 ? at_comma : at_bracket);
}

void ExpressionPrinter::places(const std::vector<Place> &list) {
  for (size_t i = 0; i < list.size(); ++i) {
    comma(i);
    place(list[i], i > 0);
  }
}

void ExpressionPrinter::place(const Place &p, bool space) {
  switch (p.kind) {
  case Place::value:
    return expr(*p.expr, space);
  case Place::all:
    return put(":", space);
  case Place::wildcard:
    return put("_", space);
  case Place::pack:
    put("..", space);
    out_.tight(p.name.text);
    return;
  case Place::range:
    put(p.name.text, space);
    if (!p.expr && p.pieces.empty())
      return;
    out_.word("in");
    if (!p.pieces.empty()) {
      out_.open("(", true);
      places(p.pieces);
      out_.close(")");
      return;
    }
    expr(*p.expr);
    if (p.upper) {
      out_.word("..");
      expr(*p.upper);
    }
    return;
  }
}

void ExpressionPrinter::names(const std::vector<Name> &list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0)
      comma(i);
    out_.word(list[i].text);
  }
}

void ExpressionPrinter::equals(const Expr &value) {
  out_.column(Column::equals);
  out_.word("=");
  out_.may_break(at_equals);
  expr(value);
}

void ExpressionPrinter::shape(const std::vector<Place> &list, bool space) {
  out_.open("[", space);
  places(list);
  out_.close("]");
}

void ExpressionPrinter::type(const Type &t, bool space) {
  if (t.scalar.empty() && t.range)
    return expr(*t.range, space);
  put(t.scalar, space);
  if (t.range)
    in_parens(*t.range);
  if (t.has_shape)
    shape(t.shape, false);
}

void ExpressionPrinter::formal(const Formal &f, bool space) {
  put(f.name.text, space);
  out_.tight(":");
  type(f.type);
  if (f.initial) {
    out_.word("=");
    expr(*f.initial);
  }
}

void ExpressionPrinter::formals(const std::vector<Formal> &list) {
  out_.open("(");
  for (size_t i = 0; i < list.size(); ++i) {
    comma(i);
    formal(list[i], i > 0);
  }
  out_.close(")");
}

} // namespace heddle::syntax
