// Source text and places in it. Every node of a tree, every stage of a checked program and every
// MLIR location carries a Span, so that any later room can still point at the user's characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// A half-open range of bytes in one file of a `Sources`. `file` is -1 where there is no place
/// (a command-line setting, a synthesised node).
struct Span {
  int file = -1;
  int begin = 0;
  int end = 0;

  bool valid() const { return file >= 0; }
  /// The smallest span that covers both (both must lie in one file).
  Span to(Span last) const { return {file, begin, last.end}; }
};

/// The texts that a program is made of: prelude, model file, `use`d files.
class Sources {
public:
  struct Position {
    int line = 1;   // from 1
    int column = 1; // from 1, in bytes
  };

  /// Adds a file and returns its number, which is the `file` of its spans.
  int add(std::string path, std::string text);

  const std::string &path(int file) const { return files_[file].path; }
  const std::string &text(int file) const { return files_[file].text; }
  Position position(int file, int offset) const;
  /// The characters of line `line` (from 1), without its end.
  std::string_view line(int file, int line) const;
  std::string_view slice(Span span) const;

private:
  struct File {
    std::string path;
    std::string text;
    std::vector<int> line_starts;
  };
  std::vector<File> files_;
};

} // namespace heddle
