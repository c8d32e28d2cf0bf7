// Columns are counted by walking a line's bytes: lines are short, and nothing must be kept up to date.
#include "dsl/server/text.h"

#include <algorithm>

namespace heddle::server {

/// Bytes of the character that begins with this byte.
static int bytes_of(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

Text::Text(std::string text) : text_(valid_utf8(text)) { find_lines(); }

void Text::find_lines() {
  starts_ = {0};
  for (size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n')))
      starts_.push_back(static_cast<int>(i) + 1);
}

int Text::offset(lsp::Position position) const {
  if (position.line < 0)
    return 0;
  if (position.line >= line_count())
    return static_cast<int>(text_.size());
  int at = starts_[position.line], units = 0;
  int end = position.line + 1 < line_count() ? starts_[position.line + 1] : static_cast<int>(text_.size());
  while (end > at && (text_[end - 1] == '\n' || text_[end - 1] == '\r'))
    --end;
  while (at < end) {
    int width = bytes_of(text_[at]);
    units += width == 4 ? 2 : 1;
    if (units > position.character)
      break;
    at += width;
  }
  return std::min(at, end);
}

lsp::Position Text::position(int offset) const {
  offset = std::clamp(offset, 0, static_cast<int>(text_.size()));
  auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  lsp::Position out{static_cast<int>(after - starts_.begin()) - 1, 0};
  for (int at = starts_[out.line]; at < offset;) {
    int width = bytes_of(text_[at]);
    at += width;
    if (at <= offset)
      out.character += width == 4 ? 2 : 1;
  }
  return out;
}

void Text::replace(lsp::Range part, std::string_view with) {
  int from = offset(part.start), to = std::max(from, offset(part.end));
  text_.replace(from, to - from, valid_utf8(with));
  find_lines();
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    unsigned char lead = text[at];
    size_t width = bytes_of(lead);
    bool valid = (lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4)) && at + width <= text.size();
    for (size_t i = 1; valid && i < width; ++i)
      valid = (static_cast<unsigned char>(text[at + i]) & 0xC0) == 0x80;
    if (valid && width > 2) { // no overlong forms, no surrogates, nothing past U+10FFFF
      unsigned char second = text[at + 1];
      valid = !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second >= 0xA0) &&
              !(lead == 0xF0 && second < 0x90) && !(lead == 0xF4 && second >= 0x90);
    }
    if (!valid) {
      out += '?';
      ++at;
      continue;
    }
    out += text.substr(at, width);
    at += width;
  }
  return out;
}

} // namespace heddle::server
