// What the names of one file stand for, by its text alone: every definition with the part of the file that sees it, and
// every use with its definition. Editors ask while a program is being typed, so this works on any tree that the
// parser makes, however little of it checks. Types and shapes are the checker's matter.
#pragma once

#include "dsl/syntax/tree.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle::server {

struct FileSymbols;

struct Definition {
  enum Kind {
    config,
    dim,
    let,
    function,
    module,
    model,
    size,
    param,
    sub,
    state,
    entry,
    input,
    value,
    index,
    iteration
  } kind;
  std::string name;
  Span span;              // of the name
  Span whole;             // of the declaration
  Span scope;             // where it is seen
  std::string qualified;  // "Attention.call.q": what it is called from outside of every scope
  int module_number = -1; // of a member: in `modules`; of a module: its own
  std::string made_of;    // of a sub: its module
  int unaliased = -1;     // of a param or sub whose name is its step in the weights' paths: where `as "…"` would stand
  const syntax::Function *fn = nullptr;
  const syntax::Entry *entry_point = nullptr;
};

struct Use {
  Span span;
  int definition = -1;               // in `file->definitions`
  const FileSymbols *file = nullptr; // where the definition is; null: the name means nothing
};

struct ModuleSymbols {
  std::string name;
  const syntax::Module *tree = nullptr;
  std::map<std::string, int> members; // number of the definition
};

struct FileSymbols {
  std::string path;
  std::string text;
  int source = 0;    // the `file` of all spans
  bool whole = true; // parsed without a message
  syntax::File tree;
  std::vector<Definition> definitions; // first what other files can see: the file's declarations and their members
  size_t declared = 0;                 // the number of those
  std::map<int, Use> uses;             // by the first byte
  std::vector<ModuleSymbols> modules;
  std::map<std::string, int> top;                      // names of the file's own declarations
  std::map<std::string, const FileSymbols *> imported; // through `use`
  std::vector<const FileSymbols *> prelude;

  /// The definition that a name means for the whole file: its own, an imported one, one of the prelude.
  std::pair<const FileSymbols *, int> global(const std::string &name) const;
  const ModuleSymbols *find_module(const std::string &name, const FileSymbols *&home) const;
  /// The definition named at `offset`, by its own name or by a use.
  std::pair<const FileSymbols *, int> at(int offset) const;
  /// Numbers of the definitions that `offset` sees, the innermost first.
  std::vector<int> visible(int offset) const;
  /// What stands beside a declaration: the comment lines right above it, or the comment at its end.
  std::string comment(const Definition &definition) const;
  /// Its first line or lines, up to the body.
  std::string signature(const Definition &definition) const;
};

/// Finds what the file declares: all that other files can see of it.
void declare_symbols(FileSymbols &file);
/// Finds the rest: the definitions inside of functions and entries, and all uses, which `imported` and `prelude`, set
/// before, give a meaning.
void resolve_uses(FileSymbols &file);

/// Where the last name of `e` stands, a name or a field: its span without the parentheses around it.
Span name_span(const syntax::Expr &e, const FileSymbols &file);

/// Behind the bracket that closes the one which opens after `at`; `at` where none does.
int end_of_brackets(const std::string &text, int at);

/// The module that a member access on `e` looks into: of a sub, a member of an array, a member of those. Null: none.
const ModuleSymbols *module_of(const syntax::Expr &e, const FileSymbols &file, const FileSymbols *&home);

} // namespace heddle::server
