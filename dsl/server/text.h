// A document's text as an editor speaks of it: lines from 0, columns in UTF-16 units. Places past the end of a line or
// of the text mean its end, and a place inside a character its beginning, so that no request is out of range.
#pragma once

#include "dsl/errors/source.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle::server {

struct Place {
  int line = 0, column = 0;
  bool operator==(const Place &) const = default;
};

class Text {
public:
  Text() : Text("") {}
  explicit Text(std::string text);

  const std::string &text() const { return text_; }
  int offset(Place place) const;
  Place place(int offset) const;
  int line_count() const { return static_cast<int>(starts_.size()); }
  /// Replaces the part between two places.
  void replace(Place begin, Place end, std::string_view with);

private:
  void find_lines();

  std::string text_;
  std::vector<int> starts_;
};

/// The UTF-8 text with every byte that belongs to no character replaced by "?": a client may send anything, and an
/// answer must be valid JSON.
std::string valid_utf8(std::string_view text);

} // namespace heddle::server
