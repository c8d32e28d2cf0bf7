// Where a definition is named, in all files that may name it; and what a file would be after it is renamed.
#pragma once

#include "dsl/server/files.h"

namespace heddle::server {

/// Places in `own` of a definition of `home` and its uses, in the order of the text.
std::vector<Span> occurrences_in(const FileSymbols &own, const FileSymbols &home, int number);

/// The same for all files that can see it: those beside its own, on the disk and in the editor. A dim is one with
/// those of its name in the files that are joined to its own by `use`.
using Occurrences = std::vector<std::pair<const FileSymbols *, std::vector<Span>>>;
Occurrences occurrences(Files &files, const FileSymbols &home, int number);

/// A rename: what is replaced, file by file; or, in `refused`, why it cannot be.
struct Edit {
  Span span;
  std::string text;
};
struct Rename {
  std::vector<std::pair<const FileSymbols *, std::vector<Edit>>> edits;
  std::string refused;
};
/// Renames only where every name of every file concerned means afterwards what it meant before, which is seen by
/// resolving all names again in the edited texts.
Rename rename(Files &files, const FileSymbols &home, int number, const std::string &name);

} // namespace heddle::server
