// PTX text as tokens. Comments are skipped; a position can be kept and gone back to, which is how the body of a
// function is decoded once for each kernel that calls it.
#pragma once

#include "tests/gpu/driver/types.h"

#include <string_view>

namespace ptx {

struct Token {
  enum Kind : u8 { end, word, number, string, mark } kind = end;
  std::string_view text; // a mark has one character
  u32 line = 0;

  bool is(char c) const { return kind == mark && text[0] == c; }
  bool is(std::string_view name) const { return kind == word && text == name; }
};

class Lexer {
public:
  struct Position {
    size_t at = 0;
    u32 line = 1;
  };

  explicit Lexer(std::string_view text) : text(text) { read(); }

  const Token &peek() const { return token; }
  Token next();
  bool eat(char c);
  bool eat(std::string_view name);
  /// Up to the end of this line: .loc and .file have no other end.
  void skip_line(u32 line);

  Position position() const { return begin; }
  void go_to(Position p);

private:
  void read();
  void skip_blank();

  std::string_view text;
  Position here, begin; // after the token, and where it begins
  Token token;
};

/// A number as written: 0f and 0d are bits of a float; 1.5 is a real.
struct Number {
  enum Kind : u8 { integer, f32, f64, real } kind = integer;
  u64 bits = 0;
};
bool parse_number(std::string_view text, Number &number);
/// Its bits in a register of `bytes` per lane.
u64 number_bits(const Number &number, unsigned bytes);

} // namespace ptx
