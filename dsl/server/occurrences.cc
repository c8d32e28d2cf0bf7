// A name is searched by resolving the names of every file that can see it. `use` reaches only files of the same folder,
// so that these are all.
#include "dsl/server/occurrences.h"

#include "dsl/server/words.h"
#include "dsl/syntax/lexer.h"

#include <algorithm>
#include <set>

namespace heddle::server {

std::vector<Span> occurrences_in(const FileSymbols &own, const FileSymbols &home, int number) {
  std::vector<Span> out;
  if (&home == &own)
    out.push_back(own.definitions[number].span);
  for (const auto &[begin, use] : own.uses)
    if (use.file == &home && use.definition == number)
      out.push_back(use.span);
  std::sort(out.begin(), out.end(), [](Span a, Span b) { return a.begin < b.begin; });
  return out;
}

/// The files that can name what `home` declares, itself first.
static std::vector<const FileSymbols *> neighbours(Files &files, const FileSymbols &home) {
  files.find(home.path); // which may have been joined only, for another file
  std::vector<const FileSymbols *> out = {&home};
  for (const std::string &path : home.path.starts_with('/') ? files.texts().beside(home.path) : files.texts().below({}))
    if (const FileSymbols *file = path == home.path ? nullptr : files.find(path))
      out.push_back(file);
  return out;
}

/// Those of `all` that chains of `use` join to the first.
static std::set<const FileSymbols *> joined(const std::vector<const FileSymbols *> &all) {
  std::set<const FileSymbols *> out = {all[0]};
  for (size_t before = 0; before != out.size();) {
    before = out.size();
    for (const FileSymbols *file : all)
      for (const auto &[name, other] : file->imported)
        if (out.count(file) || out.count(other))
          out.insert({file, other});
  }
  return out;
}

Occurrences occurrences(Files &files, const FileSymbols &home, int number) {
  Occurrences out;
  auto add = [&](const FileSymbols &own, const FileSymbols &of, int definition) {
    if (std::vector<Span> spans = occurrences_in(own, of, definition); !spans.empty())
      out.emplace_back(&own, std::move(spans));
  };
  if (static_cast<size_t>(number) >= home.declared) {
    add(home, home, number);
    return out;
  }
  std::vector<const FileSymbols *> all = neighbours(files, home);
  const Definition &definition = home.definitions[number];
  if (definition.kind == Definition::dim) {
    std::set<const FileSymbols *> one_program = joined(all);
    for (const FileSymbols *file : all)
      if (auto dim = file->top.find(definition.name);
          one_program.count(file) && dim != file->top.end() && file->definitions[dim->second].kind == Definition::dim)
        add(*file, *file, dim->second);
    return out;
  }
  for (const FileSymbols *file : all)
    add(*file, home, number);
  return out;
}

namespace {

bool is_name(const std::string &name) {
  Sources sources;
  Diagnostics diagnostics(sources);
  syntax::Tokens tokens = syntax::lex(sources, sources.add("", name), diagnostics);
  return tokens.list.size() == 2 && tokens.list[0].kind == syntax::Token::name && tokens.list[0].text == name &&
         name != "_";
}

bool is_built_in(const std::string &name) {
  const auto &functions = builtin_functions();
  return syntax::is_reducer(name) ||
         std::any_of(functions.begin(), functions.end(), [&](const BuiltIn &f) { return f.name == name; });
}

std::string line_of(const FileSymbols &file, int offset) {
  auto lines = std::count(file.text.begin(), file.text.begin() + offset, '\n') + 1;
  return "line " + std::to_string(lines) + " of " + file.path.substr(file.path.rfind('/') + 1);
}

std::string edited(const std::string &text, const std::vector<Edit> &edits) {
  std::string out;
  int at = 0;
  for (const Edit &edit : edits) {
    out += text.substr(at, edit.span.begin - at) + edit.text;
    at = edit.span.end;
  }
  return out + text.substr(at);
}

/// The first place of `before` whose name means something else in `after`; -1: none.
int first_change(const FileSymbols &before, const FileSymbols &after) {
  auto path = [](const Use &use) { return use.file ? use.file->path : ""; };
  auto other = after.uses.begin();
  for (const auto &[begin, use] : before.uses) {
    if (other == after.uses.end() || use.definition != other->second.definition || path(use) != path(other->second))
      return begin;
    ++other;
  }
  bool same = other == after.uses.end() && before.definitions.size() == after.definitions.size();
  return same ? -1 : 0;
}

/// The definition of that name in whose sight one of the edited names stands; null: none.
const Definition *met(const FileSymbols &before, const std::vector<Edit> &edits, const std::string &name,
                      const std::set<int> &renamed) {
  for (size_t i = 0; i < before.definitions.size(); ++i) {
    const Definition &other = before.definitions[i];
    if (other.name != name)
      continue;
    for (const Edit &edit : edits)
      if (other.scope.begin <= edit.span.begin && edit.span.begin <= other.scope.end)
        return &other;
    for (int number : renamed)
      if (Span scope = before.definitions[number].scope;
          scope.begin <= other.span.begin && other.span.begin <= scope.end)
        return &other;
  }
  return nullptr;
}

} // namespace

Rename rename(Files &files, const FileSymbols &home, int number, const std::string &name) {
  Rename out;
  const Definition &definition = home.definitions[number];
  if (!files.texts().read(home.path))
    out.refused = "`" + definition.name + "` comes with Heddle";
  else if (!is_name(name))
    out.refused = "`" + name + "` is not a name" + (syntax::is_keyword(name) ? ": it is a reserved word" : "");
  else if (is_built_in(name))
    out.refused = "`" + name + "` is a function of the language";
  if (!out.refused.empty() || name == definition.name)
    return out;

  Texts after_texts = files.texts();
  for (const auto &[file, spans] : occurrences(files, home, number)) {
    if (!file->whole) {
      out.refused = file->path.substr(file->path.rfind('/') + 1) + " has mistakes that hide what its names mean";
      return out;
    }
    std::vector<Edit> edits;
    std::set<int> renamed;
    for (Span span : spans) {
      edits.push_back({span, name});
      for (size_t i = 0; i < file->definitions.size(); ++i) {
        const Definition &here = file->definitions[i];
        if (here.span.begin != span.begin)
          continue;
        renamed.insert(static_cast<int>(i));
        if (here.unaliased >= 0) // the weights file keeps its names
          edits.push_back({{span.file, here.unaliased, here.unaliased}, " as " + syntax::quote(here.name)});
      }
    }
    std::sort(edits.begin(), edits.end(), [](const Edit &a, const Edit &b) { return a.span.begin < b.span.begin; });
    if (const Definition *other = met(*file, edits, name, renamed)) {
      out.refused = "`" + name + "` is something else in " + line_of(*file, other->span.begin);
      return out;
    }
    after_texts = after_texts.with(file->path, edited(file->text, edits));
    out.edits.emplace_back(file, std::move(edits));
  }
  Files after(std::move(after_texts));
  for (const FileSymbols *file : neighbours(files, home)) {
    const FileSymbols *then = after.find(file->path);
    if (int at = then ? first_change(*file, *then) : 0; at >= 0) {
      out.refused = "`" + name + "` would change what " + line_of(*file, at) + " means";
      return out;
    }
  }
  return out;
}

} // namespace heddle::server
