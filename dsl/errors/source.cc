// Source texts with their line starts, found once when a file is added, so that a place costs one
// binary search. A line ends with "\n" or "\r\n".
#include "dsl/errors/source.h"

#include <algorithm>

namespace heddle {

int Sources::add(std::string path, std::string text) {
  File file{std::move(path), std::move(text), {0}};
  for (size_t i = 0; i < file.text.size(); ++i)
    if (file.text[i] == '\n')
      file.line_starts.push_back(static_cast<int>(i) + 1);
  files_.push_back(std::move(file));
  return static_cast<int>(files_.size()) - 1;
}

Sources::Position Sources::position(int file, int offset) const {
  const std::vector<int> &starts = files_[file].line_starts;
  auto after = std::upper_bound(starts.begin(), starts.end(), offset);
  int line = static_cast<int>(after - starts.begin());
  return {line, offset - starts[line - 1] + 1};
}

std::string_view Sources::line(int file, int line) const {
  const File &f = files_[file];
  if (line < 1 || line > static_cast<int>(f.line_starts.size()))
    return {};
  size_t begin = f.line_starts[line - 1];
  size_t end = f.text.find('\n', begin);
  if (end == std::string::npos)
    end = f.text.size();
  if (end > begin && f.text[end - 1] == '\r')
    --end;
  return std::string_view(f.text).substr(begin, end - begin);
}

std::string_view Sources::slice(Span span) const {
  if (!span.valid())
    return {};
  return std::string_view(files_[span.file].text).substr(span.begin, span.end - span.begin);
}

} // namespace heddle
