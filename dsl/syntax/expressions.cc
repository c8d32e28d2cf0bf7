// Expressions: the rules of the grammar from `expr` down to `atom`.
#include "dsl/syntax/grammar.h"

#include <algorithm>
#include <limits>

namespace heddle::syntax {

ExprPtr Parser::make(Expr::Kind kind, Span span) {
  auto out = std::make_unique<Expr>();
  out->kind = kind;
  out->span = span;
  return out;
}

/// Sets the height of a finished node and ends what is too deep.
ExprPtr Parser::measured(ExprPtr expr) {
  int highest = 0;
  auto see = [&](const ExprPtr &child) { highest = child ? std::max(highest, child->height) : highest; };
  see(expr->callee);
  see(expr->outside);
  for (const ExprPtr &arg : expr->args)
    see(arg);
  for (const Place &place : expr->places) {
    see(place.expr);
    see(place.upper);
    for (const Place &piece : place.pieces) {
      see(piece.expr);
      see(piece.upper);
    }
  }
  expr->height = highest + 1;
  if (expr->height > max_height)
    error(Code::E015, Span{source_, expr->span.end - 1, expr->span.end}, {});
  return expr;
}

ExprPtr Parser::binary(Operator op, ExprPtr left, ExprPtr right) {
  ExprPtr out = make(Expr::binary, left->span.to(right->span));
  out->op = op;
  out->args.push_back(std::move(left));
  out->args.push_back(std::move(right));
  return measured(std::move(out));
}

/// No expression begins here: says what might be meant.
void Parser::no_expression() {
  const Token &token = current();
  std::string help = "a name, a number, a call or an expression in parentheses may stand here";
  if (token.text == "if" && token.kind == Token::keyword)
    help = "put this `if` in parentheses";
  else if (token.text == "not" && token.kind == Token::keyword)
    help = "put this `not` in parentheses";
  else if (token.text == "..")
    help = "a pack (`..s`) stands alone between commas";
  else if (token.text == "=" || token.text == "==")
    help = "write one `==` to compare, one `=` to define";
  else if (token.text == "//")
    help = "`//` divides; a comment begins with `#`";
  else if (token.text == "*" || token.text == "+")
    help = "a power is written `**`; there is no `++`";
  else if (token.text == ")" || token.text == "]")
    help = previous().text == "," ? "remove the comma before it" : "write a value before it";
  else if (token.text == ",")
    help = "write a value before the comma";
  else if (token.kind == Token::keyword && !token.first)
    help = "`" + std::string(token.text) + "` is a reserved word";
  if ((token.first && help.starts_with("a name")) || token.kind == Token::end)
    help = "finish this line: a value is missing on its right";
  error(Code::E008, gap(), {found(), help});
}

/// What the help of E009 says where the parts are not known.
static const std::vector<std::string> whole_if = {"CONDITION", "VALUE", "VALUE"};

static std::vector<std::string> if_slip(std::string what, const std::vector<std::string> &parts = whole_if) {
  std::vector<std::string> args{std::move(what)};
  args.insert(args.end(), parts.begin(), parts.end());
  return args;
}

// expr = "if" expr "then" expr "else" expr | or
ExprPtr Parser::expr() {
  Depth depth(*this);
  if (!deeper(current().span))
    return make(Expr::name, current().span);
  if (at("if"))
    return if_expr();
  ExprPtr out = or_expr();
  if (at("if") && !current().first && value_after_if())
    trailing_if(*out);
  return out;
}

/// Whether the `if` here, behind a value, is Python's `a if c else b`: its `else` comes on this line, and before any
/// brace, which a statement would have.
bool Parser::value_after_if() const {
  int depth = 0;
  for (size_t i = at_ + 1; i < tokens_.list.size() && !tokens_.list[i].first; ++i) {
    const Token &token = tokens_.list[i];
    if (token.kind != Token::symbol && token.kind != Token::keyword)
      continue;
    if (depth == 0 && (token.text == "else" || token.text == "then" || token.text == "{"))
      return token.text == "else";
    depth += token.text == "(" || token.text == "[" ? 1 : token.text == ")" || token.text == "]" ? -1 : 0;
    if (depth < 0)
      return false;
  }
  return false;
}

/// Says how `value if c else b` is written here.
void Parser::trailing_if(const Expr &value) {
  const Span opener = current().span;
  need("if");
  ExprPtr condition = or_expr();
  need("else");
  ExprPtr otherwise = expr();
  auto shown = [&](const Expr &part) { return std::string(sources_.slice(part.span)); };
  error(Code::E009, opener,
        if_slip("an `if` stands before its values", {shown(*condition), shown(value), shown(*otherwise)}));
}

ExprPtr Parser::if_expr() {
  ExprPtr out = make(Expr::condition, current().span);
  const int start = line(current());
  need("if");
  out->args.push_back(expr());
  if (at("="))
    error(Code::E011, current().span, {"`=` defines; a comparison is written `==`", "write `==`"});
  else if (at("{"))
    error(Code::E009, current().span, if_slip("a value has no braces after its condition"));
  else if (!at("then"))
    error(Code::E009, gap(),
          if_slip("expected `then` for the `if` of line " + std::to_string(start) + ", found " + found()));
  need("then");
  out->args.push_back(expr());
  if (!at("else"))
    error(Code::E009, gap(),
          if_slip("expected `else` for the `if` of line " + std::to_string(start) + ", found " + found()),
          "every value needs both");
  need("else");
  out->args.push_back(expr());
  out->span = since(out->span);
  return measured(std::move(out));
}

// or = and { "or" and }
ExprPtr Parser::or_expr() {
  ExprPtr out = and_expr();
  while (eat("or"))
    out = binary(Operator::logical_or, std::move(out), and_expr());
  return out;
}

// and = not { "and" not }
ExprPtr Parser::and_expr() {
  ExprPtr out = not_expr();
  while (eat("and"))
    out = binary(Operator::logical_and, std::move(out), not_expr());
  return out;
}

// not = "not" not | compare
ExprPtr Parser::not_expr() {
  if (!at("not"))
    return compare();
  Depth depth(*this);
  ExprPtr out = make(Expr::unary, current().span);
  if (!deeper(out->span))
    return out;
  need("not");
  out->op = Operator::logical_not;
  out->args.push_back(not_expr());
  out->span = since(out->span);
  return measured(std::move(out));
}

namespace {
struct Symbol {
  std::string_view text;
  Operator op;
};
constexpr Symbol comparisons[] = {{"<", Operator::less},    {"<=", Operator::less_equal},
                                  {">", Operator::greater}, {">=", Operator::greater_equal},
                                  {"==", Operator::equal},  {"!=", Operator::not_equal}};
constexpr Symbol sums[] = {{"+", Operator::add}, {"-", Operator::sub}};
constexpr Symbol products[] = {
    {"*", Operator::mul}, {"/", Operator::div}, {"//", Operator::floor_div}, {"%", Operator::mod}};

template <class List> const Symbol *find(const List &list, const Token &token) {
  for (const Symbol &s : list)
    if (token.kind == Token::symbol && token.text == s.text)
      return &s;
  return nullptr;
}
} // namespace

// compare = add [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) add ]
ExprPtr Parser::compare() {
  ExprPtr out = add();
  const Symbol *symbol = find(comparisons, current());
  if (!symbol)
    return out;
  advance();
  const Span middle = current().span;
  out = binary(symbol->op, std::move(out), add());
  if (const Symbol *second = find(comparisons, current())) {
    std::string left(sources_.slice(out->args[0]->span));
    std::string shared(sources_.slice(Span{source_, middle.begin, out->span.end}));
    error(Code::E014, current().span,
          {left + " " + std::string(symbol->text) + " " + shared + " and " + shared + " " + std::string(second->text) +
           " …"});
  }
  return out;
}

// add = mul { ( "+" | "-" ) mul }
ExprPtr Parser::add() {
  ExprPtr out = mul();
  while (const Symbol *symbol = find(sums, current())) {
    advance();
    out = binary(symbol->op, std::move(out), mul());
  }
  return out;
}

// mul = unary { ( "*" | "/" | "//" | "%" ) unary }
ExprPtr Parser::mul() {
  ExprPtr out = unary();
  while (const Symbol *symbol = find(products, current())) {
    advance();
    out = binary(symbol->op, std::move(out), unary());
  }
  return out;
}

// unary = "-" unary | power
ExprPtr Parser::unary() {
  if (!at("-"))
    return power();
  Depth depth(*this);
  ExprPtr out = make(Expr::unary, current().span);
  if (!deeper(out->span))
    return out;
  need("-");
  out->op = Operator::negate;
  out->args.push_back(unary());
  out->span = since(out->span);
  return measured(std::move(out));
}

// power = postfix [ "**" unary ]
ExprPtr Parser::power() {
  ExprPtr out = postfix();
  if (!at("**"))
    return out;
  Depth depth(*this);
  if (!deeper(current().span))
    return out;
  need("**");
  return binary(Operator::power, std::move(out), unary());
}

// postfix = atom { call | access | "." NAME }
ExprPtr Parser::postfix() {
  ExprPtr out = atom();
  while (!failed_) {
    if (at("(")) {
      out = call(std::move(out));
    } else if (at("[")) {
      out = access(std::move(out));
    } else if (eat(".")) {
      ExprPtr field = make(Expr::field, out->span);
      field->callee = std::move(out);
      field->text = name("the name of a member").text;
      field->span = since(field->span);
      out = measured(std::move(field));
    } else {
      break;
    }
  }
  return out;
}

// call = "(" [ args ] { "," ".." NAME } ")"
ExprPtr Parser::call(ExprPtr callee) {
  ExprPtr out = make(Expr::call, callee->span);
  const Token &opener = advance();
  if (callee->kind == Expr::name && is_reducer(callee->text)) {
    bool of_two = callee->text == "max" || callee->text == "min"; // also functions of two values
    out->args = args(")");
    if (!of_two || out->args.size() == 1)
      error(Code::E010, callee->span, {"`" + callee->text + "` does not say what it runs over", callee->text});
  } else {
    out->args = args(")");
    if (at("..") && previous().text == ",") // of `random(key, ..s)`
      do
        out->places.push_back(pack());
      while (eat(","));
  }
  close(")", opener);
  out->callee = std::move(callee);
  out->span = since(out->span);
  return measured(std::move(out));
}

// args = expr { "," expr }; none before `end`
std::vector<ExprPtr> Parser::args(std::string_view end) {
  std::vector<ExprPtr> out;
  if (at(end))
    return out;
  do
    out.push_back(expr());
  while (eat(",") && !at(".."));
  return out;
}

// access = "[" subscript { "," subscript } [ "|" expr ] "]"
ExprPtr Parser::access(ExprPtr callee) {
  ExprPtr out = make(Expr::access, callee->span);
  const Token &opener = advance();
  if (at("]"))
    error(Code::E018, Span{source_, opener.span.begin, current().span.end},
          {"there is no subscript in the brackets", "write one per dimension, `:` for all of it"});
  do
    out->places.push_back(subscript());
  while (eat(","));
  if (eat("|"))
    out->outside = expr();
  else if (at(":"))
    error(Code::E018, current().span,
          {"a subscript has no `:` between two values", "define the part by its index: `y[i in N] = x[i + 1]`"});
  else if (at("in"))
    error(
        Code::E018, current().span,
        {"an index does not range where it is read", "say `in` on the left side, or in the brackets of the reduction"});
  close("]", opener);
  out->callee = std::move(callee);
  out->span = since(out->span);
  return measured(std::move(out));
}

// subscript = ":" | ".." NAME | expr
Place Parser::subscript() {
  if (at(".."))
    return pack();
  Place out;
  out.span = current().span;
  if (at(":") && (next_is(",") || next_is("]") || next_is("|"))) {
    out.kind = Place::all;
    advance();
    return out;
  }
  if (at(":"))
    error(Code::E018, current().span,
          {"a subscript has no `:` between two values", "define the part by its index: `y[i in N] = x[i + 1]`"});
  out.expr = expr();
  out.span = since(out.span);
  return out;
}

// atom = NUMBER | STRING | "true" | "false" | "inf" | NAME | reduce | scalar call | "(" expr ")" | list
ExprPtr Parser::atom() {
  const Token &token = current();
  ExprPtr out = make(Expr::name, token.span);
  if (token.kind == Token::integer || token.kind == Token::real)
    return number();
  if (token.kind == Token::string) {
    out->kind = Expr::string;
    out->text = unquote(advance().text);
    return out;
  }
  if (token.kind == Token::name) {
    if (is_reducer(token.text) && next_is("["))
      return reduce();
    out->text = advance().text;
    return out;
  }
  if (at("[")) {
    return list();
  }
  if (at("(")) {
    advance();
    if (at(")"))
      error(Code::E008, current().span, {"`)`", "write a value in the parentheses"});
    out = expr();
    if (at(","))
      error(Code::E004, current().span, {"`)`", "`,`"}, "a value stands alone in parentheses");
    close(")", token);
    out->in_parens = true;
    out->span = since(token.span);
    return out;
  }
  if (at("true") || at("false")) {
    out->kind = Expr::boolean;
    out->text = token.text;
    out->number = token.text == "true";
    advance();
    return out;
  }
  if (at("inf")) {
    out->kind = Expr::real;
    out->text = advance().text;
    out->number = std::numeric_limits<double>::infinity();
    return out;
  }
  if (token.kind == Token::keyword && is_scalar_type(token.text))
    return cast();
  no_expression();
  return out;
}

ExprPtr Parser::number() {
  const Token &token = advance();
  ExprPtr out = make(token.kind == Token::integer ? Expr::integer : Expr::real, token.span);
  out->text = token.text;
  out->number = token.number;
  return out;
}

// list = "[" expr { "," expr } "]"
ExprPtr Parser::list() {
  const Token &opener = advance();
  ExprPtr out = make(Expr::list, opener.span);
  out->args = args("]");
  close("]", opener);
  out->span = since(out->span);
  return measured(std::move(out));
}

// scalar call: the conversion of a value
ExprPtr Parser::cast() {
  const Token &token = advance();
  ExprPtr out = make(Expr::cast, token.span);
  out->text = token.text;
  ExprPtr range;
  if (token.text == "index") {
    const Token &opener = current();
    if (need("(")) {
      range = expr();
      close(")", opener);
    }
  }
  const Token &opener = current();
  if (!at("("))
    error(Code::E013, gap(),
          {"a type converts a value in parentheses",
           "write `" + std::string(sources_.slice(since(token.span))) + "(value)`"});
  need("(");
  out->args.push_back(expr());
  close(")", opener);
  if (range)
    out->args.push_back(std::move(range));
  out->span = since(out->span);
  return measured(std::move(out));
}

// reduce = REDUCER "[" over { "," over } [ "where" expr ] "]" "(" expr ")"
ExprPtr Parser::reduce() {
  const Token &token = advance();
  const Token &bracket = advance();
  const std::string reducer(token.text);
  ExprPtr out = make(Expr::reduce, token.span);
  out->text = reducer;
  if (at("]") || at("where"))
    error(Code::E010, current().span, {"`" + reducer + "` runs over no index", reducer});
  do
    out->places.push_back(over(reducer));
  while (eat(","));
  if (eat("where"))
    out->outside = expr();
  else if (at("if") || at("|"))
    error(Code::E018, current().span,
          {"the condition of a reduction follows `where`",
           "write `where` instead of `" + std::string(current().text) + "`"});
  close("]", bracket);
  const Token &opener = current();
  if (!at("("))
    error(Code::E010, gap(), {"the body of `" + reducer + "` stands in parentheses", reducer});
  need("(");
  out->args.push_back(expr());
  if (at(","))
    error(Code::E010, current().span, {"`" + reducer + "` has one body", reducer});
  close(")", opener);
  out->span = since(out->span);
  return measured(std::move(out));
}

// over = ".." NAME | NAME [ "in" ( expr [ ".." expr ] | merged ) ]
Place Parser::over(std::string_view reducer) {
  if (at(".."))
    return pack();
  if (at_name() && next_is("in"))
    return range(true, true);
  Place out;
  out.kind = Place::range;
  out.span = current().span;
  if (at("where"))
    error(Code::E010, current().span, {"`where` follows the last index without a comma", std::string(reducer)});
  else if (!at_name() && current().kind != Token::keyword)
    error(Code::E010, gap(),
          {"`" + std::string(reducer) + "` runs over names, found " + found(), std::string(reducer)});
  out.name = name();
  if (!at(",") && !at("]") && !at("where") && current().kind == Token::symbol)
    error(Code::E010, gap(),
          {"`" + std::string(reducer) + "` runs over names, found " + found() + " after `" + out.name.text + "`",
           std::string(reducer)});
  return out;
}

} // namespace heddle::syntax
