// One PTX instruction as written (statement.h).
#include "tests/gpu/driver/ptx/statement.h"

#include <algorithm>

namespace ptx {

bool Statement::has(std::string_view part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }

void malformed(u32 line, const std::string &what) {
  throw Error(Code::invalid_ptx, "PTX line " + std::to_string(line) + ": " + what);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t from = 0;;) {
    size_t to = text.find(at, from);
    parts.push_back(text.substr(from, to - from));
    if (to == text.npos)
      return parts;
    from = to + 1;
  }
}

namespace {

s64 signed_number(Lexer &lexer) {
  bool negative = false;
  while (lexer.peek().is('+') || lexer.peek().is('-'))
    negative ^= lexer.next().is('-');
  Token token = lexer.next();
  Number number;
  if (token.kind != Token::number || !parse_number(token.text, number))
    malformed(token.line, "expected a number, found '" + std::string(token.text) + "'");
  return negative ? -s64(number.bits) : s64(number.bits);
}

Operand read_operand(Lexer &lexer);

void read_items(Lexer &lexer, Operand &operand, char close) {
  while (!lexer.eat(close)) {
    operand.items.push_back(read_operand(lexer));
    if (!lexer.eat(',') && !lexer.peek().is(close))
      malformed(lexer.peek().line, "expected ',' or '" + std::string(1, close) + "'");
  }
}

Operand read_operand(Lexer &lexer) {
  Operand operand;
  if (lexer.eat('{')) {
    operand.kind = Operand::vector;
    read_items(lexer, operand, '}');
    return operand;
  }
  if (lexer.eat('(')) {
    operand.kind = Operand::list;
    read_items(lexer, operand, ')');
    return operand;
  }
  if (lexer.eat('[')) {
    operand.kind = Operand::address;
    read_items(lexer, operand, ']');
    return operand;
  }
  operand.negated = lexer.eat('!');
  bool minus = lexer.eat('-');
  Token token = lexer.next();
  if (token.kind == Token::number) {
    operand.kind = Operand::number;
    if (!parse_number(token.text, operand.value))
      malformed(token.line, "'" + std::string(token.text) + "' is no number");
    if (minus && operand.value.kind == Number::integer)
      operand.value.bits = -operand.value.bits;
    else if (minus)
      operand.value.bits ^= operand.value.kind == Number::f32 ? 1ull << 31 : 1ull << 63;
    return operand;
  }
  if (token.kind != Token::word || minus)
    malformed(token.line, "expected an operand, found '" + std::string(token.text) + "'");
  operand.text = token.text;
  if (lexer.eat('|'))
    operand.second = lexer.next().text;
  else if (lexer.peek().is('+') || lexer.peek().is('-'))
    operand.offset = signed_number(lexer);
  return operand;
}

} // namespace

Statement read_statement(Lexer &lexer) {
  Statement s;
  if (lexer.eat('@')) {
    s.guard_negated = lexer.eat('!');
    s.guard = lexer.next().text;
  }
  Token opcode = lexer.next();
  if (opcode.kind != Token::word)
    malformed(opcode.line, "expected an instruction, found '" + std::string(opcode.text) + "'");
  s.line = opcode.line;
  s.opcode = opcode.text;
  s.parts = split(s.opcode, '.');
  while (!lexer.eat(';')) {
    if (lexer.peek().kind == Token::end)
      malformed(s.line, "no ';' behind this instruction");
    s.operands.push_back(read_operand(lexer));
    if (!lexer.eat(',') && !lexer.peek().is(';'))
      malformed(lexer.peek().line, "expected ',' or ';', found '" + std::string(lexer.peek().text) + "'");
  }
  return s;
}

} // namespace ptx
