// A document's text as an editor speaks of it: lines from 0, columns in UTF-16 units. Places past the end of a line or
// of the text mean its end, and a place inside a character its beginning, so that no request is out of range.
#pragma once

#include "dsl/server/protocol.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle::server {

class Text {
public:
  Text() : Text("") {}
  explicit Text(std::string text);

  const std::string &text() const { return text_; }
  int offset(lsp::Position position) const;
  lsp::Position position(int offset) const;
  lsp::Range range(int begin, int end) const { return {position(begin), position(end)}; }
  int line_count() const { return static_cast<int>(starts_.size()); }
  /// Replaces a part.
  void replace(lsp::Range part, std::string_view with);

private:
  void find_lines();

  std::string text_;
  std::vector<int> starts_;
};

/// The UTF-8 text with every byte that belongs to no character replaced by "?": a client may send anything, and an
/// answer must be valid JSON.
std::string valid_utf8(std::string_view text);

} // namespace heddle::server
