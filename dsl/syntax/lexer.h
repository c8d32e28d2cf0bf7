// Text to tokens. Comments are set aside for the printer; errors inside a token (a stray character, an
// unclosed string) are reported here, and the token that stands for them keeps the parser quiet about it.
#pragma once

#include "dsl/errors/diagnostics.h"
#include "dsl/syntax/tree.h"

#include <span>

namespace heddle::syntax {

struct Token {
  enum Kind { end, invalid, integer, real, name, keyword, string, symbol } kind = end;
  Span span;
  std::string_view text; // as written; for `&&`, `||` and `!` the word that is meant
  double number = 0;     // integer, real
  bool first = false;    // the first of its line
};

struct Tokens {
  std::vector<Token> list; // ends with an `end`
  std::vector<Comment> comments;
};

Tokens lex(const Sources &sources, int source, Diagnostics &diagnostics);

/// The characters that a STRING token stands for.
std::string unquote(std::string_view text);
/// The STRING token for these characters.
std::string quote(std::string_view text);

/// The words that the language keeps for itself; those of them that are types; the names of reductions.
std::span<const std::string_view> all_keywords();
std::span<const std::string_view> all_scalar_types();
std::span<const std::string_view> all_reducers();
bool is_scalar_type(std::string_view word);
bool is_reducer(std::string_view word);
bool is_keyword(std::string_view word);

} // namespace heddle::syntax
