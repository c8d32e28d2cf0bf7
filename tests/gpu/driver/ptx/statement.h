// One PTX instruction as written: guard, opcode with its modifiers, operands.
#pragma once

#include "tests/gpu/driver/fault.h"
#include "tests/gpu/driver/ptx/lexer.h"

#include <string_view>
#include <vector>

namespace ptx {

struct Operand {
  enum Kind : u8 { word, number, vector, address, list } kind = word;
  std::string_view text, second; // second: q of `p|q`
  bool negated = false;          // !p
  Number value;
  s64 offset = 0;             // word + offset
  std::vector<Operand> items; // of a vector, a list, and what stands in brackets
};

struct Statement {
  u32 line = 0;
  std::string_view opcode;
  std::vector<std::string_view> parts; // the opcode, cut at its dots
  std::string_view guard;
  bool guard_negated = false;
  std::vector<Operand> operands;

  bool has(std::string_view part) const;
};

/// The text is no PTX.
[[noreturn]] void malformed(u32 line, const std::string &what);

/// Reads from the guard or opcode to the semicolon.
Statement read_statement(Lexer &lexer);

std::vector<std::string_view> split(std::string_view text, char at);

} // namespace ptx
