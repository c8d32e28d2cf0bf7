// Statements: the rules of the grammar from `block` down to `place`.
#include "dsl/syntax/grammar.h"

namespace heddle::syntax {

// block = "{" { stmt } "}"
Block Parser::block() {
  Block out;
  BlockDepth depth(*this);
  const Token &opener = current();
  if (!deeper(opener.span) || !open_brace(Level::statement))
    return out;
  for (size_t last = at_; !at_end() && !at("}");) {
    size_t first = at_;
    if (current().kind == Token::keyword && !starts(Level::statement, at_) &&
        (starts(Level::declaration, at_) || starts(Level::member, at_))) {
      if (column(current()) <= line_column(opener))
        break;
      error(Code::E016, current().span,
            {"`" + std::string(current().text) + "` does not stand inside a body", "move it out of the braces"});
      recover(Level::statement, first);
      out.push_back(skipped(first));
      continue;
    }
    Stmt s = stmt();
    if (failed_) {
      size_t whole = error_begin(Level::statement, first, last);
      if (whole < first)
        out.pop_back();
      recover(Level::statement, first, whole);
      s = skipped(whole, whole < first);
    }
    out.push_back(std::move(s));
    last = first;
  }
  close_brace(opener);
  return out;
}

// stmt = let | assign | update | for | when | require | return
Stmt Parser::stmt() {
  if (at("let"))
    return let();
  if (at("for"))
    return loop();
  if (at("if"))
    return when();
  if (at("require"))
    return require();
  if (at("return"))
    return give();
  bool defines = next_is("=") || next_is("[") || next_is("<-") || next_is(",");
  bool ends = next().first || next().kind == Token::symbol || next().kind == Token::invalid || at_end();
  if (at_name() && (defines || (ends && meant(Level::statement).empty())))
    return assign_or_update();
  Stmt out{};
  out.span = current().span;
  if (current().kind == Token::keyword && (next_is("=") || next_is("[") || next_is("<-")))
    name();
  misplaced(Level::statement);
  return out;
}

// let = "let" names "=" expr
Stmt Parser::let() {
  Stmt out{};
  out.kind = Stmt::let;
  out.span = current().span;
  need("let");
  out.names = names();
  const std::string first = out.names[0].text;
  if (at("["))
    error(Code::E011, current().span, {"`let` names a whole value", "leave out `let`: `" + first + "[…] = …`"});
  else if (at(":"))
    error(Code::E011, current().span, {"`let` takes no type", "leave out `:` and the type"});
  else if (at("<-"))
    error(Code::E011, current().span,
          {"`<-` updates a state; `let` defines with `=`", "write `let " + first + " = …`, or leave out `let`"});
  else if (at("=="))
    error(Code::E011, current().span, {"`==` compares; a definition is written `=`", "write `let " + first + " = …`"});
  need("=");
  out.exprs.push_back(value());
  if (at(","))
    error(Code::E011, current().span,
          {"one expression gives all the names of a `let`", "write one `let` for each name"});
  out.span = since(out.span);
  return out;
}

/// Whether `//` stands before a place on its line: a comment of another language.
bool Parser::after_slashes(Span place) const {
  std::string_view before = sources_.slice(Span{source_, 0, place.begin});
  return before.substr(before.rfind('\n') + 1).find("//") != std::string_view::npos;
}

// assign = target { "," target } "=" expr
// update = target "<-" expr
Stmt Parser::assign_or_update() {
  Stmt out{};
  const size_t start = at_;
  out.span = current().span;
  do
    out.targets.push_back(target());
  while (eat(","));
  const std::string first = out.targets[0].name.text;
  if (at("<-")) {
    out.kind = Stmt::update;
    if (out.targets.size() != 1)
      error(Code::E012, current().span,
            {"two states are updated at once", "write one update per line, after `let a, b = …`"});
    advance();
    out.exprs.push_back(value());
    if (at(","))
      error(Code::E012, current().span, {"a state takes one value", "write one update per line"});
    out.span = since(out.span);
    return out;
  }
  out.kind = Stmt::assign;
  if (at("=="))
    error(Code::E011, current().span, {"`==` compares; a definition is written `=`", "write `=`"});
  else if (at("->"))
    error(Code::E012, current().span, {"an update is written `<-`", "write `" + first + " <- …`"});
  else if (at(":"))
    error(Code::E011, current().span,
          {next_is("=") ? "a definition is written `=`" : "a definition takes no type",
           next_is("=") ? "write `=`" : "leave out `:` and the type"});
  else if (at("("))
    error(Code::E019, since(out.span), {"a call alone has no effect", "name its value: `let y = " + first + "(…)`"});
  else if (at("."))
    error(Code::E011, since(out.span), {"only a name can be defined here, not a field", "write `name = …`"});
  else if ((at("+") || at("-") || at("*") || at("/")) && next_is("="))
    error(Code::E011, Span{source_, current().span.begin, next().span.end},
          {"`" + first + "` is defined once and never changed",
           "give the new value a new name, or carry it: `for … with " + first + "`"});
  else if (!at("="))
    error(Code::E019, since(out.span),
          {"a value alone has no effect", after_slashes(tokens_.list[start].span)
                                              ? "a comment begins with `#`; `//` divides"
                                          : tokens_.list[start].first || tokens_.list[start - 1].text == "{"
                                              ? "define something with it (`y = …`), or `return` it"
                                              : "write an operator before it, or define something with it (`y = …`)"});
  need("=");
  out.exprs.push_back(value());
  if (at(","))
    error(Code::E011, current().span,
          {"one expression gives all the names on the left", "write one definition per line"});
  out.span = since(out.span);
  return out;
}

/// The expression of a definition or an update. Where it is missing, the left side of the next statement would be
/// taken for it, and its `=` would be the surprise.
ExprPtr Parser::value() {
  const size_t start = at_;
  ExprPtr out = expr();
  if (failed_ || (!at("=") && !at("<-")))
    return out;
  size_t first = at_;
  while (first > start && !tokens_.list[first].first)
    --first;
  if (!tokens_.list[first].first || !starts(Level::statement, first))
    return out;
  at_ = first;
  error(Code::E008, gap(), {found(), "finish this line: a value is missing on its right"});
  return out;
}

// for = "for" NAME "in" expr [ ".." expr ] [ "with" names ] block
Stmt Parser::loop() {
  Stmt out{};
  out.kind = Stmt::loop;
  out.span = current().span;
  need("for");
  out.names.push_back(name("the name of an index"));
  need("in");
  out.exprs.push_back(expr());
  if (eat(".."))
    out.exprs.push_back(expr());
  if (eat("with"))
    for (Name &n : names())
      out.names.push_back(std::move(n));
  if (!failed_)
    out.body = block();
  out.span = since(out.span);
  return out;
}

// when = "if" expr block [ "else" ( when | block ) ]
Stmt Parser::when() {
  Stmt out{};
  BlockDepth depth(*this);
  out.kind = Stmt::when;
  out.span = current().span;
  if (!deeper(out.span))
    return out;
  need("if");
  out.exprs.push_back(expr());
  if (at("="))
    error(Code::E011, current().span, {"`=` defines; a comparison is written `==`", "write `==`"});
  else if (at("then"))
    error(Code::E009, current().span, {"`if … then` is a value, not a statement", "CONDITION", "VALUE", "VALUE"},
          "a value must be defined or returned");
  if (!failed_)
    out.body = block();
  if (eat("else")) {
    if (at("if"))
      out.otherwise.push_back(when());
    else if (!failed_)
      out.otherwise = block();
  }
  out.span = since(out.span);
  return out;
}

// require = "require" expr [ "else" STRING ]
Stmt Parser::require() {
  Stmt out{};
  out.kind = Stmt::require;
  out.span = current().span;
  need("require");
  out.exprs.push_back(expr());
  if (at("="))
    error(Code::E011, current().span, {"`=` defines; a comparison is written `==`", "write `==`"});
  if (eat("else"))
    out.message = string("the message, in quotes");
  out.span = since(out.span);
  return out;
}

// return = "return" expr { "," expr }
Stmt Parser::give() {
  Stmt out{};
  out.kind = Stmt::give;
  out.span = current().span;
  need("return");
  if (at("}"))
    error(Code::E008, gap(), {found(), "a `return` names what it returns; an entry without results has none"});
  do
    out.exprs.push_back(expr());
  while (eat(","));
  out.span = since(out.span);
  return out;
}

// target = NAME [ "[" place { "," place } "]" ]
Target Parser::target() {
  Target out;
  out.span = current().span;
  if (at_name() && is_reducer(current().text))
    error(Code::E007, current().span, {"`" + std::string(current().text) + "`", std::string(current().text)});
  out.name = name();
  if (at("[")) {
    const Token &opener = advance();
    out.has_places = true;
    if (at("]"))
      error(Code::E018, Span{source_, opener.span.begin, current().span.end},
            {"there is no index in the brackets", "name the indices: `" + out.name.text + "[i in N]`"});
    do
      out.places.push_back(place());
    while (eat(","));
    close("]", opener);
  }
  out.span = since(out.span);
  return out;
}

// place = ".." NAME | NAME "in" expr | expr
Place Parser::place() {
  if (at(".."))
    return pack();
  if (at_name() && next_is("in"))
    return range(false, true);
  Place out;
  out.span = current().span;
  if (at(":"))
    error(Code::E018, current().span,
          {"`:` reads a whole dimension; a definition names its indices", "write a name: `i`, or `i in N`"});
  out.expr = expr();
  if (at("in"))
    error(Code::E018, since(out.span), {"only a name can range", "write `i in N`"});
  out.span = since(out.span);
  return out;
}

// merged = "(" range "," range { "," range } ")"; `out` is what stands before it
Place Parser::merged(Place out) {
  const Token &opener = advance();
  do
    if (at_name() && next_is("in"))
      out.pieces.push_back(range(false, false));
    else
      error(Code::E018, current().span,
            {"a merged index is made of ranges", "write `" + out.name.text + " in (y in Y, x in X)`"});
  while (eat(","));
  close(")", opener);
  out.span = since(out.span);
  if (out.pieces.size() == 1)
    error(Code::E018, out.span,
          {"a merged index is made of two ranges or more",
           "write `" + out.pieces[0].name.text + " in " + std::string(sources_.slice(out.pieces[0].expr->span)) + "`"});
  else if (at(".."))
    error(Code::E018, current().span, {"a merged index starts at 0", "leave out `..` and what follows it"});
  return out;
}

} // namespace heddle::syntax
