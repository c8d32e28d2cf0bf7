// What the declarations of all files and modules add up to, for the entries to use.
#pragma once

#include "dsl/check/entity.h"

namespace heddle::checking {

struct Declared {
  std::map<const Tensor *, Weight> weights; // of all params; the used ones enter the program
  std::vector<State> states;
  std::vector<const syntax::Entry *> entries;
  std::vector<std::string> entry_conditions; // that do not hold: for the message when no entry is left
  struct Requirement {
    const Expr *test;
    std::string message;
    std::set<int> dims;
    Span span;
  };
  std::vector<Requirement> requirements; // of files, modules and the model, over dims
  bool settings_refused = false;         // a requirement of a file does not hold: nothing more is said
  std::set<int> symbols;                 // dims that stand for what the caller of a part gives

  /// Whether a size is known when compiling: a number, or what the caller of a part gives.
  bool is_fixed(const Size &size) const {
    bool fixed = true;
    size.for_each_dim([&](int dim) { fixed &= symbols.count(dim) > 0; });
    return fixed;
  }
};

} // namespace heddle::checking
