// Declarations, members, types: the rules of the grammar from `file` down to `extent`.
#include "dsl/syntax/grammar.h"

namespace heddle::syntax {

Declaration Parser::begun(Declaration::Kind kind) {
  Declaration out{};
  out.kind = kind;
  out.span = current().span;
  return out;
}

Declaration Parser::declaration() {
  if (at("use"))
    return use();
  if (at("config"))
    return config();
  if (at("dim"))
    return dim();
  if (at("let"))
    return let_declaration();
  if (at("require"))
    return require_declaration();
  if (at("module"))
    return module(false);
  if (at("model"))
    return module(true);
  Declaration out = begun(Declaration::function);
  if (at("fn")) {
    out.fn = function();
    out.name = out.fn->name;
    out.span = out.fn->span;
    return out;
  }
  if (at("param") || at("sub") || at("state") || at("entry")) {
    if (std::exchange(lost_, true))
      failed_ = true;
    else
      error(Code::E016, current().span,
            {"`" + std::string(current().text) + "` stands in a model or module",
             "move it there; or is there a `}` too many above?"});
    return out;
  }
  misplaced(Level::declaration);
  return out;
}

// use = "use" NAME ":" names
Declaration Parser::use() {
  Declaration out = begun(Declaration::use);
  need("use");
  out.name = name("the name of a file");
  if (!at(":"))
    error(Code::E017, gap(),
          {"`use` lists what it takes from the file", "write `use " + out.name.text + ": Name, Name`"});
  need(":");
  out.names = names();
  out.span = since(out.span);
  return out;
}

// config = "config" setting { "," setting }
Declaration Parser::config() {
  Declaration out = begun(Declaration::config);
  need("config");
  do
    out.settings.push_back(setting());
  while (eat(","));
  out.span = since(out.span);
  return out;
}

// setting = NAME ( "=" expr | STRING [ "=" expr ] )
Setting Parser::setting() {
  Setting out;
  out.name = name("the name of a setting");
  if (current().kind == Token::string)
    out.key = string("a key");
  if (out.key && (at(",") || at_end() || starts(Level::declaration, at_)))
    return out; // without a default
  if (!at("="))
    error(Code::E017, gap(),
          {"the setting `" + out.name.text + "` has no value",
           "write `" + out.name.text + (out.key ? " " + quote(*out.key) : "") + " = 0`, with its default"});
  need("=");
  out.initial = expr();
  return out;
}

// dim = "dim" bound { "," bound }
Declaration Parser::dim() {
  Declaration out = begun(Declaration::dim);
  need("dim");
  do
    out.bounds.push_back(bound());
  while (eat(","));
  out.span = since(out.span);
  return out;
}

// bound = NAME [ "<=" expr ]
Bound Parser::bound() {
  Bound out;
  out.name = name("the name of a dim");
  if (at("=") || at("<") || at("==") || at(">=") || at(">") || at(":"))
    error(Code::E017, current().span,
          {"a dim is only bounded from above", "write `dim " + out.name.text + " <= 512`; a fixed size is a `config`"});
  if (eat("<="))
    out.most = expr();
  return out;
}

// let = "let" names "=" expr
Declaration Parser::let_declaration() {
  Declaration out = begun(Declaration::let);
  Stmt s = let();
  out.names = std::move(s.names);
  out.expr = s.exprs.empty() ? nullptr : std::move(s.exprs[0]);
  out.span = s.span;
  return out;
}

// require = "require" expr [ "else" STRING ]
Declaration Parser::require_declaration() {
  Declaration out = begun(Declaration::require);
  Stmt s = require();
  out.expr = std::move(s.exprs[0]);
  out.message = std::move(s.message);
  out.span = s.span;
  return out;
}

// module = "module" NAME [ "(" names ")" ] "{" { member } "}"
// model  = "model" NAME "{" { member | state | entry } "}"
Declaration Parser::module(bool is_model) {
  Declaration out = begun(Declaration::module);
  out.module_body = std::make_unique<Module>();
  Module &m = *out.module_body;
  m.is_model = is_model;
  advance();
  m.name = out.name = name(is_model ? "the name of a model" : "the name of a module");
  if (at("(")) {
    if (is_model)
      error(Code::E017, current().span, {"a model takes no sizes", "declare them above it: `config N = 512`"});
    const Token &opener = advance();
    if (at(")"))
      error(Code::E017, current().span, {"there are no sizes in the parentheses", "leave out `()`"});
    m.sizes = names();
    close(")", opener);
  }
  if (!failed_) {
    const Token &opener = current();
    if (open_brace(Level::member)) {
      members(m.members, is_model, opener);
      close_brace(opener);
    }
  }
  m.span = out.span = since(out.span);
  return out;
}

// { member }, up to the brace or to what can only stand outside of it
void Parser::members(std::vector<Member> &out, bool in_model, const Token &opener) {
  for (size_t last = at_; !at_end() && !at("}");) {
    size_t first = at_;
    if (at("use") || at("config") || at("dim") || at("module") || at("model")) {
      if (column(current()) <= line_column(opener))
        return;
      error(Code::E016, current().span,
            {"`" + std::string(current().text) + "` does not stand inside a " + (in_model ? "model" : "module"),
             "move it to the beginning of the file"});
      recover(Level::member, first);
      continue;
    }
    Member m = member(in_model);
    if (!failed_) {
      out.push_back(std::move(m));
      last = first;
      continue;
    }
    size_t whole = error_begin(Level::member, first, last);
    if (whole < first && !out.empty())
      out.pop_back();
    recover(Level::member, first, whole);
    last = at_;
  }
}

// member = param | sub | let | fn | state | entry | choice | require; the states and entries of a model only
Member Parser::member(bool in_model) {
  if (at("param"))
    return param();
  if (at("sub"))
    return sub();
  if (at("let"))
    return let_member();
  if (at("if"))
    return condition(in_model);
  if (at("require"))
    return require_member();
  Member out{};
  out.span = current().span;
  if (!in_model && (at("state") || at("entry"))) {
    error(Code::E016, current().span,
          {"`" + std::string(current().text) + "` stands in a model, not in a module",
           "move it to the model, and pass the values to the module"});
    return out;
  }
  if (at("state"))
    return state();
  if (at("entry")) {
    out.kind = Member::entry;
    out.entry_point = entry();
    out.name = out.entry_point->name;
    out.span = out.entry_point->span;
  } else if (at("fn")) {
    out.kind = Member::function;
    out.fn = function();
    out.name = out.fn->name;
    out.span = out.fn->span;
  } else {
    misplaced(Level::member);
  }
  return out;
}

// param = "param" NAME [ "as" STRING ] ":" type [ "stored" shape ]
Member Parser::param() {
  Member out{};
  out.kind = Member::param;
  out.span = current().span;
  need("param");
  out.name = name("the name of a param");
  out.alias = alias();
  if (current().kind == Token::string && !out.alias)
    error(Code::E017, current().span,
          {"a name in the weights file stands behind `as`",
           "write `" + out.name.text + " as " + std::string(current().text) + ": …`"});
  if (!at(":"))
    error(Code::E017, gap(),
          {"the param `" + out.name.text + "` has no type", "write `" + out.name.text + ": real[N]`"});
  need(":");
  out.type = type();
  if (eat("stored")) {
    out.has_stored = true;
    out.stored = shape();
  }
  if (at("="))
    error(Code::E017, current().span,
          {"the values of a param come from the weights file",
           "leave out `=` and the value; a constant is a setting or a definition"});
  out.span = since(out.span);
  return out;
}

std::optional<std::string> Parser::alias() {
  if (!eat("as"))
    return std::nullopt;
  return string("the name in the weights file, in quotes");
}

// sub = "sub" NAME [ "[" count "]" ] [ "as" STRING ] "=" NAME [ "(" args ")" ]
Member Parser::sub() {
  Member out{};
  out.kind = Member::sub;
  out.span = current().span;
  need("sub");
  out.name = name("the name of a sub-module");
  if (at("[")) {
    const Token &opener = advance();
    out.is_array = true;
    out.count = count();
    close("]", opener);
  }
  out.alias = alias();
  if (at(":") || at("(") || at_name())
    error(Code::E017, current().span, {"a sub-module is given with `=`", "write `sub " + out.name.text + " = Module`"});
  need("=");
  out.module = name("the name of a module");
  if (at("(")) {
    const Token &opener = advance();
    out.args = args(")");
    close(")", opener);
  } else if (at("[")) {
    error(Code::E017, current().span,
          {"the number of sub-modules stands after their name",
           "write `sub " + out.name.text + "[N] = " + out.module.text + "`"});
  }
  out.span = since(out.span);
  return out;
}

// count = NAME "in" expr [ ".." expr ] | expr
Place Parser::count() {
  if (at_name() && next_is("in"))
    return range(true);
  Place out;
  out.span = current().span;
  out.expr = expr();
  if (at(".."))
    error(Code::E017, current().span, {"a range has a name", "write `[i in 1 .. N]`"});
  out.span = since(out.span);
  return out;
}

Member Parser::let_member() {
  Member out{};
  out.kind = Member::let;
  Stmt s = let();
  out.names = std::move(s.names);
  if (!out.names.empty())
    out.name = out.names[0];
  out.expr = s.exprs.empty() ? nullptr : std::move(s.exprs[0]);
  out.span = s.span;
  return out;
}

Member Parser::require_member() {
  Member out{};
  out.kind = Member::require;
  Stmt s = require();
  out.expr = std::move(s.exprs[0]);
  out.message = std::move(s.message);
  out.span = s.span;
  return out;
}

// state = "state" NAME ":" type [ "=" expr ]
Member Parser::state() {
  Member out{};
  out.kind = Member::state;
  out.span = current().span;
  need("state");
  out.name = name("the name of a state");
  if (!at(":"))
    error(Code::E017, gap(),
          {"the state `" + out.name.text + "` has no type", "write `" + out.name.text + ": real[N]`"});
  need(":");
  if (at_name() && current().text == "params") { // one of the type and shape of each param
    out.type.span = current().span;
    out.type.range = expr();
    out.type.span = since(out.type.span);
  } else {
    out.type = type();
  }
  if (eat("="))
    out.expr = expr();
  out.span = since(out.span);
  return out;
}

// choice = "if" expr members [ "else" ( choice | members ) ];  members = "{" { member } "}"
Member Parser::condition(bool in_model) {
  BlockDepth depth(*this);
  Member out{};
  out.kind = Member::condition;
  out.span = current().span;
  if (!deeper(out.span))
    return out;
  need("if");
  out.expr = expr();
  auto group = [&](std::vector<Member> &list) {
    const Token &opener = current();
    if (at("="))
      error(Code::E011, current().span, {"`=` defines; a comparison is written `==`", "write `==`"});
    if (!open_brace(Level::member))
      return;
    members(list, in_model, opener);
    close_brace(opener);
  };
  group(out.members);
  if (eat("else")) {
    if (at("if"))
      out.otherwise.push_back(condition(in_model));
    else
      group(out.otherwise);
  }
  out.span = since(out.span);
  return out;
}

// fn = "fn" NAME "(" [ formals ] ")" "->" result ( "=" expr | block )
std::unique_ptr<Function> Parser::function() {
  auto out = std::make_unique<Function>();
  out->span = current().span;
  need("fn");
  out->name = name("the name of a function");
  out->formals = formals(false);
  if (!at("->"))
    error(Code::E017, gap(),
          {"the function `" + out->name.text + "` has no result type", "write it after the parameters: `-> real`"});
  need("->");
  out->results = result();
  if (eat("="))
    out->expr = expr();
  else if (at("{"))
    out->body = block();
  else
    expected("`=` or `{`");
  out->span = since(out->span);
  return out;
}

// entry = "entry" NAME "(" [ formals ] ")" [ "->" formals ] block
std::unique_ptr<Entry> Parser::entry() {
  auto out = std::make_unique<Entry>();
  out->span = current().span;
  need("entry");
  out->name = name("the name of an entry");
  out->formals = formals(true);
  if (eat("->")) {
    if ((current().kind == Token::keyword && is_scalar_type(current().text)) || at("("))
      error(Code::E017, current().span, {"a result of an entry has a name", "write `-> y: real[B]`"});
    do
      out->results.push_back(formal(false));
    while (eat(","));
  }
  if (at("="))
    error(Code::E017, current().span, {"an entry has a body in braces", "write `{ return … }`"});
  if (!failed_)
    out->body = block();
  out->span = since(out->span);
  return out;
}

// formals = formal { "," formal }, here with the parentheses
std::vector<Formal> Parser::formals(bool in_entry) {
  std::vector<Formal> out;
  const Token &opener = current();
  if (!need("(") || eat(")"))
    return out;
  do {
    out.push_back(formal(true));
    if (!failed_ && out.back().initial && !in_entry)
      error(Code::E017, out.back().initial->span,
            {"only an input of an entry has a default", "give the value where the function is called"});
  } while (eat(","));
  close(")", opener);
  return out;
}

// formal = NAME ":" type [ "=" expr ]
Formal Parser::formal(bool may_default) {
  Formal out;
  out.name = name("a parameter's name");
  if (!at(":"))
    error(Code::E017, gap(), {"`" + out.name.text + "` has no type", "write `" + out.name.text + ": real[N]`"});
  need(":");
  out.type = type();
  if (may_default && eat("="))
    out.initial = expr();
  return out;
}

// result = type | "(" type { "," type } ")"
std::vector<Type> Parser::result() {
  std::vector<Type> out;
  if (!at("(")) {
    out.push_back(type());
    return out;
  }
  const Token &opener = advance();
  do
    out.push_back(type());
  while (eat(","));
  close(")", opener);
  return out;
}

// type = scalar [ shape ];  scalar = "real" | … | "bool" | "index" "(" expr ")"
Type Parser::type() {
  Type out;
  out.span = current().span;
  if (current().kind != Token::keyword || !is_scalar_type(current().text)) {
    struct Foreign {
      std::string_view word, ours;
    };
    static constexpr Foreign foreign[] = {
        {"float", "real"},   {"float32", "f32"}, {"double", "real"},   {"f64", "real"}, {"float16", "f16"},
        {"half", "f16"},     {"fp16", "f16"},    {"bfloat16", "bf16"}, {"int", "i32"},  {"int32", "i32"},
        {"i64", "i32"},      {"int64", "i32"},   {"long", "i32"},      {"int8", "i8"},  {"u8", "i8"},
        {"boolean", "bool"}, {"tensor", "real"}, {"Tensor", "real"},
    };
    std::string help = "the types are `real`, `f32`, `bf16`, `f16`, `i8`, `i32`, `bool` and `index(N)`";
    for (Foreign f : foreign)
      if (f.word == current().text)
        help = "write `" + std::string(f.ours) + "`";
    error(Code::E013, gap(), {"expected a type, found " + found(), help});
    return out;
  }
  out.scalar = advance().text;
  if (out.scalar == "index") {
    if (!at("("))
      error(Code::E013, gap(), {"`index` has no range", "write `index(N)` for the values 0 to N - 1"});
    const Token &opener = advance();
    out.range = expr();
    close(")", opener);
  }
  if (at("[")) {
    out.has_shape = true;
    out.shape = shape();
  } else if (at("(")) {
    error(Code::E013, current().span, {"a shape stands in brackets", "write `" + out.scalar + "[…]`"});
  }
  out.span = since(out.span);
  return out;
}

// shape = "[" extent { "," extent } "]"
std::vector<Place> Parser::shape() {
  std::vector<Place> out;
  const Token &opener = current();
  if (!need("["))
    return out;
  if (at("]")) {
    error(Code::E018, Span{source_, opener.span.begin, current().span.end},
          {"there is no size in the brackets", "leave out `[]` for a scalar"});
    return out;
  }
  do
    out.push_back(extent());
  while (eat(","));
  close("]", opener);
  return out;
}

// extent = ".." NAME | "_" | expr
Place Parser::extent() {
  if (at(".."))
    return pack();
  Place out;
  out.span = current().span;
  if (at_name() && current().text == "_") {
    out.kind = Place::wildcard;
    advance();
    return out;
  }
  if (at(":"))
    error(Code::E018, current().span, {"a size is missing", "write its name, or `_` where it does not matter"});
  out.expr = expr();
  out.span = since(out.span);
  return out;
}

// ".." NAME
Place Parser::pack() {
  Place out;
  out.kind = Place::pack;
  out.span = current().span;
  need("..");
  if (at("."))
    error(Code::E018, Span{source_, previous().span.begin, current().span.end},
          {"`...` has no meaning here", "name the pack of dimensions: `..s`"});
  out.name = name("the pack's name");
  out.span = since(out.span);
  if (current().kind == Token::symbol && !at(",") && !at("]") && !at(")") && !at("|"))
    error(Code::E018, current().span,
          {"a pack stands alone, found " + found() + " after `.." + out.name.text + "`",
           "nothing can be added to it: write the indices one by one"});
  return out;
}

// NAME "in" expr; with an offset, where members are numbered: NAME "in" expr ".." expr;
// of definitions and reductions: NAME "in" "(" range "," range { "," range } ")"
Place Parser::range(bool may_offset, bool may_merge) {
  Place out;
  out.kind = Place::range;
  out.span = current().span;
  out.name = name();
  need("in");
  if (may_merge && at("(") && next().kind == Token::name && next(2).text == "in")
    return merged(std::move(out));
  out.expr = expr();
  if (at("..")) {
    if (!may_offset)
      error(Code::E018, since(out.span),
            {"an index starts at 0", "write `" + out.name.text + " in N`, and add the offset where it is used"});
    need("..");
    out.upper = expr();
  }
  out.span = since(out.span);
  return out;
}

} // namespace heddle::syntax
