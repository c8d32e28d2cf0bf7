// Text to tree: a hand-written recursive-descent parser, one function per grammar rule.
#pragma once

#include "dsl/errors/diagnostics.h"
#include "dsl/syntax/tree.h"

#include <optional>

namespace heddle::syntax {

/// Parses file `source` of `diagnostics.sources()`. Always returns a tree; what could not be read is
/// reported and skipped to the next declaration, member or statement, so that one error gives one message; the tree
/// says what was (File::left_out), so that the checker can look at the rest.
File parse(const Sources &sources, int source, Diagnostics &diagnostics);

/// The canonical text of a tree, with its comments: print(parse(print(parse(x)))) == print(parse(x)).
std::string print(const Sources &sources, const File &file);

/// The same text, to be written over the file's own; nothing where its comments would not stand at their words.
std::optional<std::string> print_in_place(const Sources &sources, const File &file);

} // namespace heddle::syntax
