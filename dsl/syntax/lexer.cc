// NAME, NUMBER and STRING are as in C (of numbers: decimal, with point or exponent; no suffixes), `#` starts
// a comment. `1..N` is `1`, `..`, `N`: a point belongs to a number only where a digit follows.
#include "dsl/syntax/lexer.h"

#include <algorithm>
#include <charconv>

namespace heddle::syntax {
namespace {

constexpr std::string_view keywords[] = {
    "use", "config", "dim",   "let",  "module", "model",   "param",  "sub",   "state", "fn",     "entry", "for",
    "in",  "with",   "if",    "then", "else",   "require", "return", "where", "as",    "stored", "and",   "or",
    "not", "true",   "false", "inf",  "index",  "real",    "f32",    "bf16",  "f16",   "i8",     "i32",   "bool"};
constexpr std::string_view scalars[] = {"real", "f32", "bf16", "f16", "i8", "i32", "bool", "index"};
constexpr std::string_view reducers[] = {"sum", "prod", "max", "min", "mean", "argmax", "argmin", "any", "all"};
constexpr std::string_view symbols[] = {"..", "->", "<-", "<=", ">=", "==", "!=", "**", "//", "-", "+", "*", "/", "%",
                                        "<",  ">",  "=",  "(",  ")",  "[",  "]",  "{",  "}",  ":", ",", ".", "|"};

template <class List> bool has(const List &list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

class Lexer {
public:
  Lexer(const Sources &sources, int source, Diagnostics &diagnostics)
      : text_(sources.text(source)), source_(source), diagnostics_(diagnostics) {}

  Tokens run() {
    if (text_.starts_with("\xef\xbb\xbf")) // the mark that some editors put before UTF-8
      at_ = 3;
    for (;;) {
      skip_blanks();
      begin_ = at_;
      if (at_ >= text_.size())
        break;
      char c = text_[at_];
      if (is_letter(c))
        word();
      else if (is_digit(c) || (c == '.' && is_digit(peek(1)) &&
                               (at_ == 0 || std::string_view(".)]").find(text_[at_ - 1]) == std::string_view::npos) &&
                               !(at_ > 0 && is_word(text_[at_ - 1]))))
        number();
      else if (c == '"' || c == '\'')
        string(c);
      else if (!symbol())
        stray();
    }
    add(Token::end);
    return std::move(out_);
  }

private:
  char peek(size_t offset) const { return at_ + offset < text_.size() ? text_[at_ + offset] : '\0'; }
  Span here() const { return {source_, static_cast<int>(begin_), static_cast<int>(at_)}; }

  Token &add(Token::Kind kind) {
    Token token;
    token.kind = kind;
    token.span = here();
    token.text = text_.substr(begin_, at_ - begin_);
    token.first = first_;
    first_ = false;
    out_.list.push_back(token);
    return out_.list.back();
  }

  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\n') {
        first_ = true;
      } else if (c == '#') {
        begin_ = at_;
        while (at_ < text_.size() && text_[at_] != '\n')
          ++at_;
        Span span = here();
        if (span.end > span.begin && text_[span.end - 1] == '\r')
          --span.end;
        out_.comments.push_back({span, first_});
        --at_;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  void word() {
    while (is_word(peek(0)))
      ++at_;
    add(is_keyword(text_.substr(begin_, at_ - begin_)) ? Token::keyword : Token::name);
  }

  // NUMBER: digits [ "." digits ] [ "e" [ sign ] digits ]
  void number() {
    bool real = false;
    bool right = is_digit(peek(0));
    while (is_digit(peek(0)))
      ++at_;
    if (peek(0) == '.' && is_digit(peek(1))) {
      real = true;
      for (++at_; is_digit(peek(0));)
        ++at_;
    }
    if (peek(0) == 'e' || peek(0) == 'E') {
      size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
      if (is_digit(peek(1 + sign))) {
        real = true;
        for (at_ += 1 + sign; is_digit(peek(0));)
          ++at_;
      }
    }
    std::string good(text_.substr(begin_, at_ - begin_));
    std::string help = "write digits, as in `12`, `0.5` or `1e-5`";
    if (!right) {
      help = "write `0" + good + "`";
    } else if (peek(0) == '.' && peek(1) != '.') {
      ++at_;
      right = false;
      help = "write `" + good + "` or `" + good + ".0`";
    } else if (is_word(peek(0))) {
      while (is_word(peek(0)))
        ++at_;
      right = false;
    } else if (!real && good.size() > 1 && good[0] == '0') {
      right = false;
      size_t digit = std::min(good.find_first_not_of('0'), good.size() - 1);
      help = "write `" + good.substr(digit) + "`";
    }
    double value = 0;
    auto [rest, status] = std::from_chars(good.data(), good.data() + good.size(), value);
    if (right && status != std::errc()) {
      right = false;
      help = "it is too large or too small for a 64-bit real; infinity is `inf`";
    } else if (right && !real && value > 9007199254740992.0) {
      right = false;
      help = "it is too large for an integer; write it as a real (`" + good + ".0`)";
    }
    add(real ? Token::real : Token::integer).number = value;
    if (!right)
      diagnostics_.report(Code::E003, here(), {"`" + std::string(text_.substr(begin_, at_ - begin_)) + "`", help});
  }

  // STRING: characters between double quotes, on one line; escapes \" \\ \n \t
  void string(char mark) {
    Span escape, hidden; // the first that is wrong
    for (++at_; at_ < text_.size() && text_[at_] != mark && text_[at_] != '\n';) {
      int begin = static_cast<int>(at_);
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') {
        ++at_;
        if (std::string_view("\"\\nt").find(text_[at_]) == std::string_view::npos && !escape.valid())
          escape = {source_, begin, begin + 2};
      }
      size_t length = 1;
      if (!is_printable(text_, at_, length) && text_[at_] != '\t' && !hidden.valid())
        hidden = {source_, static_cast<int>(at_), static_cast<int>(at_ + length)};
      at_ += length;
    }
    if (at_ >= text_.size() || text_[at_] == '\n') {
      while (at_ > begin_ + 1 && (text_[at_ - 1] == '\r' || text_[at_ - 1] == ' '))
        --at_;
      diagnostics_.report(Code::E002, here(), {"this string is not closed", "end it on its line with `\"`"});
      add(Token::invalid);
      return;
    }
    ++at_;
    if (mark == '\'') {
      std::string inner(text_.substr(begin_ + 1, at_ - begin_ - 2));
      diagnostics_.report(Code::E002, here(), {"a string stands in double quotes", "write `\"" + inner + "\"`"});
    } else if (hidden.valid()) {
      diagnostics_.report(Code::E002, hidden,
                          {"a control character, or no UTF-8, in a string",
                           "strings hold what can be seen; the end of a line is `\\n`, a tab `\\t`"});
    } else if (escape.valid()) {
      diagnostics_.report(Code::E002, escape,
                          {"unknown escape in a string", "the escapes are `\\\"`, `\\\\`, `\\n` and `\\t`"});
    }
    add(Token::string);
  }

  bool symbol() {
    if (text_.substr(at_, 2) == "||")
      return false;
    for (std::string_view s : symbols)
      if (text_.substr(at_, s.size()) == s) {
        at_ += s.size();
        add(Token::symbol);
        return true;
      }
    return false;
  }

  void stray() {
    // Spellings of other languages that have one meaning here: say so and read on.
    struct Foreign {
      std::string_view text, word;
    };
    for (Foreign f : {Foreign{"&&", "and"}, {"||", "or"}, {"!", "not"}})
      if (text_.substr(at_, f.text.size()) == f.text) {
        at_ += f.text.size();
        diagnostics_.report(Code::E001, here(),
                            {"`" + std::string(f.text) + "`", "write `" + std::string(f.word) + "`"});
        add(Token::keyword).text = f.word;
        return;
      }
    unsigned char c = text_[at_++];
    while (c >= 0x80 && at_ < text_.size() && (static_cast<unsigned char>(text_[at_]) & 0xc0) == 0x80)
      ++at_;
    std::string shown = c < 0x20 || c == 0x7f ? "a control character" : "`" + std::string(here_text()) + "`";
    if (c == ';') {
      diagnostics_.report(Code::E001, here(), {shown, "remove it: a statement ends where the next begins"});
      return;
    }
    static constexpr Foreign meant[] = {{"&", "and"}, {"^", "**"}, {"~", "not"}, {"×", "*"},  {"·", "*"},
                                        {"÷", "/"},   {"−", "-"},  {"–", "-"},   {"≤", "<="}, {"≥", ">="},
                                        {"≠", "!="},  {"“", "\""}, {"”", "\""},  {"∞", "inf"}};
    std::string help = c >= 0x80 ? "outside strings and comments only ASCII characters are used" : "remove it";
    for (Foreign f : meant)
      if (here_text() == f.text)
        help = "write `" + std::string(f.word) + "`";
    if (c == '?')
      help = "a choice is written `if CONDITION then VALUE else VALUE`";
    else if (c == '@')
      help = "a product of matrices is written `sum[k](a[i, k] * b[k, j])`";
    diagnostics_.report(Code::E001, here(), {shown, help});
    add(Token::invalid);
  }
  std::string_view here_text() const { return text_.substr(begin_, at_ - begin_); }

  std::string_view text_;
  int source_;
  Diagnostics &diagnostics_;
  Tokens out_;
  size_t at_ = 0, begin_ = 0;
  bool first_ = true;
};

} // namespace

Tokens lex(const Sources &sources, int source, Diagnostics &diagnostics) {
  return Lexer(sources, source, diagnostics).run();
}

std::string unquote(std::string_view text) {
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size())
      ++i, out += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    else
      out += text[i];
  }
  return out;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return out + "\"";
}

std::span<const std::string_view> all_keywords() { return keywords; }
std::span<const std::string_view> all_scalar_types() { return scalars; }
std::span<const std::string_view> all_reducers() { return reducers; }
bool is_scalar_type(std::string_view word) { return has(scalars, word); }
bool is_reducer(std::string_view word) { return has(reducers, word); }
bool is_keyword(std::string_view word) { return has(keywords, word); }

} // namespace heddle::syntax
