// The parser's tokens, its messages and its recovery. Recovery uses the layout that authors keep although the
// grammar does not ask for it: the next statement begins a line, no further right than the one that slipped.
#include "dsl/syntax/parser.h"

#include "dsl/syntax/grammar.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace heddle::syntax {

namespace {
constexpr int max_depth = 200; // of nested rules; a level takes about 4 KB of stack

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
} // namespace

File parse(const Sources &sources, int source, Diagnostics &diagnostics) {
  size_t before = diagnostics.all().size();
  File out = Parser(sources, source, diagnostics).file();
  out.left_out.any = diagnostics.all().size() > before;
  return out;
}

Parser::Parser(const Sources &sources, int source, Diagnostics &diagnostics)
    : sources_(sources), source_(source), diagnostics_(diagnostics), tokens_(lex(sources, source, diagnostics)) {}

// --- tokens

bool Parser::at(std::string_view text) const {
  const Token &token = current();
  return token.text == text && (token.kind == Token::keyword || token.kind == Token::symbol);
}

bool Parser::next_is(std::string_view text) const {
  return next().text == text && (next().kind == Token::keyword || next().kind == Token::symbol);
}

bool Parser::eat(std::string_view text) {
  if (!at(text))
    return false;
  advance();
  return true;
}

bool Parser::need(std::string_view text) {
  if (eat(text))
    return true;
  expected("`" + std::string(text) + "`");
  return false;
}

bool Parser::close(std::string_view text, const Token &opener) {
  if (eat(text))
    return true;
  error(Code::E005, gap(), {std::string(text), found(), std::string(opener.text), std::to_string(line(opener))});
  return false;
}

bool Parser::open_brace(Level level) {
  if (failed_ || need("{"))
    return !failed_;
  if (!starts(level, at_))
    return false;
  failed_ = false;
  return true;
}

void Parser::close_brace(const Token &opener) {
  if (failed_ || eat("}") || lost_)
    return;
  lost_ = true;
  close("}", opener);
  failed_ = false;
}

const Token &Parser::advance() {
  const Token &token = current();
  if (!failed_ && at_ + 1 < tokens_.list.size())
    ++at_;
  return token;
}

int Parser::column(const Token &token) const { return sources_.position(source_, token.span.begin).column; }
int Parser::line(const Token &token) const { return sources_.position(source_, token.span.begin).line; }

int Parser::line_column(const Token &token) const {
  size_t at = &token - tokens_.list.data();
  while (at > 0 && !tokens_.list[at].first)
    --at;
  return column(tokens_.list[at]);
}

// --- names and strings

Name Parser::name(std::string_view what) {
  const Token &token = current();
  left_out_.nameless |= token.kind != Token::name;
  if (token.kind == Token::keyword && token.first && previous().text == ",")
    error(Code::E004, previous().span, {std::string(what), found()}, "remove this comma");
  else if (token.kind == Token::keyword)
    error(Code::E007, token.span, {"`" + std::string(token.text) + "`", std::string(token.text)});
  else if (token.kind != Token::name)
    expected(what);
  else
    advance();
  return {failed_ ? std::string() : std::string(token.text), token.span};
}

// names = NAME { "," NAME }
std::vector<Name> Parser::names() {
  std::vector<Name> out;
  do
    out.push_back(name());
  while (eat(","));
  return out;
}

std::string Parser::string(std::string_view what) {
  if (current().kind != Token::string) {
    expected(what);
    return {};
  }
  return unquote(advance().text);
}

// --- messages

std::string Parser::shown() const {
  const Token &token = current();
  return token.kind == Token::end      ? "the end of the file"
         : token.kind == Token::string ? "a string"
                                       : "`" + std::string(token.text) + "`";
}

std::string Parser::found() const {
  const Token &token = current();
  std::string what = shown();
  if (token.first && token.kind != Token::end && at_ > 0)
    what += " on line " + std::to_string(line(token));
  return what;
}

Span Parser::gap() const {
  const Token &token = current();
  if (at_ > 0 && (token.first || token.kind == Token::end))
    return {source_, previous().span.end, previous().span.end};
  return token.span;
}

void Parser::error(Code code, Span span, std::vector<std::string> args, std::string label, std::string help) {
  if (failed_)
    return;
  bool told = current().kind == Token::invalid || previous().kind == Token::invalid;
  if (code == Code::E007)
    misnamed_.insert(args[1]);
  told |= code == Code::E010 && misnamed_.count(args[1]); // it is read as the reduction that it is not meant to be
  failed_ = true;
  if (told)
    return;
  Diagnostic &d = diagnostics_.report(code, span, std::move(args));
  d.label = std::move(label);
  if (!help.empty())
    d.help = std::move(help);
}

bool Parser::deeper(Span span) {
  if (depth_ < max_depth)
    return true;
  bool by_blocks = block_depth_ > max_depth / 2;
  error(Code::E015, span, {}, "",
        by_blocks ? "write fewer `if` and `for` inside of one another; an `else if` is inside of the `if` before it"
                  : "");
  return false;
}

// --- recovery

bool Parser::starts(Level level, size_t token) const {
  const Token &t = tokens_.list[token];
  if (level == Level::declaration)
    return one_of(t.text, {"use", "config", "dim", "let", "require", "fn", "module", "model"});
  if (level == Level::member)
    return one_of(t.text, {"param", "sub", "let", "require", "fn", "state", "entry", "if"});
  if (t.kind == Token::name && token + 1 < tokens_.list.size())
    return one_of(tokens_.list[token + 1].text, {"=", "[", "<-", ","});
  return one_of(t.text, {"let", "for", "if", "require", "return"});
}

void Parser::recover(Level level, size_t first, size_t whole) {
  skip(level, first);
  for (size_t i = whole; i < at_; ++i) {
    const Token &token = tokens_.list[i];
    if (token.kind == Token::name)
      left_out_.names.emplace(token.text);
    left_out_.checkable &= !(token.kind == Token::keyword && token.text == "require"); // reads are proven from those
  }
  if (level == Level::statement)
    return;
  const Token &begin = tokens_.list[whole], &name = tokens_.list[std::min(whole + 1, tokens_.list.size() - 1)];
  if (begin.kind == Token::keyword && name.kind == Token::name)
    left_out_.defined.emplace(name.text);
  left_out_.nameless |= begin.kind != Token::keyword || name.kind != Token::name;
}

/// Where what slipped begins: with the statement or member before (`last`), if it goes on in its line with something
/// that begins none, as in `y = a) * b`.
size_t Parser::error_begin(Level level, size_t first, size_t last) const {
  const Token &token = tokens_.list[first];
  return token.first || (token.kind == Token::keyword && starts(level, first)) ? first : last;
}

/// Stands for the tokens from `first` on, which were skipped. They may have defined the names that begin their lines,
/// and those after `let` and `with`.
Stmt Parser::skipped(size_t first, bool nameless) {
  Stmt out{};
  out.kind = Stmt::invalid;
  out.span = tokens_.list[first].span;
  bool defines = true; // at a name where a definition may begin
  for (size_t i = first; i < at_; ++i) {
    const Token &token = tokens_.list[i];
    defines |= token.first;
    if (token.kind == Token::name && defines)
      out.names.push_back({std::string(token.text), token.span});
    bool listed = token.text == "," && i > first && !out.names.empty() &&
                  out.names.back().span.end == tokens_.list[i - 1].span.end; // `let a, b = …`
    defines = listed || one_of(token.text, {"let", "with", "{", "}"});
  }
  left_out_.nameless |= nameless || (out.names.empty() && tokens_.list[first].text != "return");
  return out;
}

void Parser::skip(Level level, size_t first) {
  failed_ = false;
  if (at_ == first)
    advance();
  int limit = line_column(tokens_.list[first]);
  for (int braces = 0; !at_end(); advance()) {
    const Token &token = current();
    if (token.kind == Token::symbol && token.text == "{") {
      ++braces;
    } else if (token.kind == Token::symbol && token.text == "}") {
      if (braces == 0 && level != Level::declaration)
        return;
      braces = std::max(0, braces - 1);
    } else if (token.first && token.kind != Token::string) {
      if (braces == 0 && column(token) <= limit && starts(level, at_))
        return;
      if (token.kind == Token::keyword && one_of(token.text, {"use", "config", "dim", "module", "model"}))
        return;
      if (level == Level::statement && token.kind == Token::keyword &&
          one_of(token.text, {"param", "sub", "fn", "state", "entry"}))
        return;
    }
  }
}

std::string nearest(std::string_view word, const std::vector<std::string_view> &words) {
  std::string best;
  size_t best_distance = word.size() <= 2 ? 1 : word.size() == 3 ? 2 : 3; // exclusive
  for (std::string_view candidate : words)
    if (size_t d = llvm::StringRef(word).edit_distance(candidate); d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  return best;
}

namespace {
struct Words {
  std::string_view what;
  std::vector<std::string_view> begin;
};

const Words &words_of(int level) {
  static const Words words[] = {
      {"a declaration", {"use", "config", "dim", "let", "require", "fn", "module", "model"}},
      {"a member", {"param", "sub", "let", "require", "fn", "state", "entry", "if"}},
      {"a statement", {"let", "for", "if", "require", "return"}},
  };
  return words[level];
}

struct Foreign {
  std::string_view word, ours;
};
/// What other languages call it.
constexpr Foreign foreign[] = {
    {"def", "fn"},         {"func", "fn"},        {"function", "fn"},     {"fun", "fn"},        {"var", "let"},
    {"const", "let"},      {"val", "let"},        {"auto", "let"},        {"struct", "module"}, {"class", "module"},
    {"layer", "module"},   {"block", "module"},   {"import", "use"},      {"include", "use"},   {"from", "use"},
    {"while", "for"},      {"loop", "for"},       {"foreach", "for"},     {"elif", "else if"},  {"elsif", "else if"},
    {"elseif", "else if"}, {"weight", "param"},   {"parameter", "param"}, {"submodule", "sub"}, {"buffer", "state"},
    {"network", "model"},  {"assert", "require"}, {"check", "require"},
};
} // namespace

/// The keyword that the name here may stand for; else "".
std::string Parser::meant(Level level) const {
  if (!at_name())
    return "";
  const std::vector<std::string_view> &words = words_of(static_cast<int>(level)).begin;
  for (Foreign f : foreign)
    if (f.word == current().text &&
        (std::find(words.begin(), words.end(), f.ours) != words.end() || f.ours == "else if"))
      return std::string(f.ours);
  return nearest(current().text, words);
}

/// The token begins nothing that may stand here: says what might be meant.
void Parser::misplaced(Level level) {
  const Token &token = current();
  const Words &words = words_of(static_cast<int>(level));
  std::string help = std::string(words.what) + " begins with " + (level == Level::statement ? "a name or " : "");
  for (std::string_view word : words.begin)
    help += (word == words.begin.front()  ? "`"
             : word == words.begin.back() ? " or `"
                                          : ", `") +
            std::string(word) + "`";

  bool structural = token.kind == Token::keyword || token.text == "}" || starts(Level::statement, at_);
  if (std::string word = meant(level); !word.empty()) {
    help = "did you mean `" + word + "`?";
    structural = false;
  }
  if (token.text == "}")
    help = "there is no `{` that it closes";
  else if (token.text == "//")
    help = "`//` divides; a comment begins with `#`";
  else if (token.text == ")" || token.text == "]")
    help = "there is no `" + std::string(token.text == ")" ? "(" : "[") + "` that it closes";
  else if (token.text == "=")
    help = "to compare, write `==`";
  else if (token.text == "else")
    help = "`else` follows the `}` of an `if`, or the value after `then`";
  else if (token.text == "as" && token.kind == Token::keyword)
    help = "what a weight is called follows the name: `param w as \"…\": …`, `sub s as \"…\" = …`";
  else if (level == Level::statement && token.kind == Token::string)
    help = "the message of a `require` follows `else`";
  if (structural && lost_) {
    failed_ = true;
    return;
  }
  lost_ |= structural;
  error(Code::E006, token.kind == Token::end ? gap() : token.span,
        {std::string(words.what), token.kind == Token::end ? found() : shown(), help});
}

// --- file = { use | config | dim | let | require | fn | module | model }
File Parser::file() {
  File out;
  out.source = source_;
  for (size_t last = at_; !at_end();) {
    size_t first = at_;
    Declaration d = declaration();
    if (!failed_) {
      out.declarations.push_back(std::move(d));
      last = first;
      continue;
    }
    size_t whole = error_begin(Level::declaration, first, last);
    if (whole < first && !out.declarations.empty())
      out.declarations.pop_back();
    recover(Level::declaration, first, whole);
    last = at_;
  }
  out.comments = std::move(tokens_.comments);
  left_out_.checkable &= !lost_;
  out.left_out = std::move(left_out_);
  return out;
}

} // namespace heddle::syntax
