// PTX text as tokens (lexer.h).
#include "tests/gpu/driver/ptx/lexer.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string>

namespace ptx {
namespace {

bool begins_word(char c) { return isalpha(u8(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool in_word(char c) { return isalnum(u8(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }

} // namespace

void Lexer::skip_blank() {
  while (here.at < text.size()) {
    char c = text[here.at];
    if (c == '\n')
      here.line++, here.at++;
    else if (isspace(u8(c)) || c == '\0')
      here.at++;
    else if (text.substr(here.at, 2) == "//")
      here.at = std::min(text.find('\n', here.at), text.size());
    else if (text.substr(here.at, 2) == "/*") {
      size_t close = text.find("*/", here.at);
      size_t stop = close == text.npos ? text.size() : close + 2;
      for (; here.at < stop; here.at++)
        here.line += text[here.at] == '\n';
    } else
      return;
  }
}

void Lexer::read() {
  skip_blank();
  begin = here;
  if (here.at >= text.size()) {
    token = {Token::end, {}, here.line};
    return;
  }
  size_t at = here.at, from = at;
  char c = text[at];
  Token::Kind kind = Token::mark;
  if (begins_word(c)) {
    kind = Token::word;
    // ".L2::128B" is one word; a label's colon stands alone.
    while (at < text.size() && (in_word(text[at]) || (text.substr(at, 2) == "::" && at++)))
      at++;
  } else if (isdigit(u8(c))) {
    kind = Token::number;
    while (at < text.size() && (isalnum(u8(text[at])) || text[at] == '.' || text[at] == '_'))
      at++;
  } else if (c == '"') {
    kind = Token::string;
    at = std::min(text.find('"', at + 1), text.size() - 1) + 1;
  } else
    at++;
  token = {kind, text.substr(from, at - from), here.line};
  here.at = at;
}

Token Lexer::next() {
  Token t = token;
  read();
  return t;
}

bool Lexer::eat(char c) {
  if (!token.is(c))
    return false;
  read();
  return true;
}

bool Lexer::eat(std::string_view name) {
  if (!token.is(name))
    return false;
  read();
  return true;
}

void Lexer::skip_line(u32 line) {
  while (token.kind != Token::end && token.line == line)
    read();
}

void Lexer::go_to(Position p) {
  here = p;
  read();
}

bool parse_number(std::string_view text, Number &number) {
  if (text.empty() || !isdigit(u8(text[0])))
    return false;
  auto bits_after = [&](size_t prefix, int base) {
    std::string_view digits = text.substr(prefix);
    while (!digits.empty() && (digits.back() == 'U' || digits.back() == 'u'))
      digits.remove_suffix(1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number.bits, base);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  char second = text.size() > 1 ? text[1] : 0;
  if (text[0] == '0' && (second == 'f' || second == 'F')) {
    number.kind = Number::f32;
    return bits_after(2, 16);
  }
  if (text[0] == '0' && (second == 'd' || second == 'D')) {
    number.kind = Number::f64;
    return bits_after(2, 16);
  }
  number.kind = Number::integer;
  if (text[0] == '0' && (second == 'x' || second == 'X'))
    return bits_after(2, 16);
  if (text[0] == '0' && (second == 'b' || second == 'B'))
    return bits_after(2, 2);
  if (text.find_first_of(".eE") != text.npos) {
    number.kind = Number::real;
    number.bits = std::bit_cast<u64>(strtod(std::string(text).c_str(), nullptr));
    return true;
  }
  return text[0] == '0' && text.size() > 1 && second != 'U' ? bits_after(1, 8) : bits_after(0, 10);
}

u64 number_bits(const Number &number, unsigned bytes) {
  if (number.kind == Number::real)
    return bytes == 8 ? number.bits : std::bit_cast<u32>(float(std::bit_cast<double>(number.bits)));
  if (number.kind == Number::f32 && bytes == 8)
    return std::bit_cast<u64>(double(std::bit_cast<float>(u32(number.bits))));
  if (number.kind == Number::f64 && bytes != 8)
    return std::bit_cast<u32>(float(std::bit_cast<double>(number.bits)));
  return bytes == 8 ? number.bits : u32(number.bits);
}

} // namespace ptx
