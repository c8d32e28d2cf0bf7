// What stands in front of a place in a text, read as tokens: while one types there is no tree.
#pragma once

#include "dsl/server/symbols.h"
#include "dsl/syntax/lexer.h"

#include <optional>

namespace heddle::server {

struct Cursor {
  Cursor(const FileSymbols &file, int offset);

  const FileSymbols &file;
  int offset;
  enum { code, string, comment } in = code;
  std::string before_string; // the line in front of the string that the cursor stands in
  std::vector<syntax::Token> tokens;

  /// Whether the token so many before the last is that.
  bool is(size_t from_end, std::string_view text) const;

  /// What the tokens before number `end` name: `a`, `a.b`, `a.b[i].c`. `first` is the number of the first of them.
  struct Named {
    const FileSymbols *file = nullptr; // null: nothing that is known here
    int definition = -1;
    size_t first = 0;
    std::string name; // the last one
  };
  Named named_before(size_t end) const;

private:
  Sources sources_;
};

} // namespace heddle::server
