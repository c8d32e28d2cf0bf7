// What an editor draws into the text by itself: the shapes of definitions behind their names, and names by what they
// mean.
#include "dsl/server/server.h"
#include "dsl/server/tokens.h"
#include "dsl/server/words.h"
#include "dsl/syntax/lexer.h"

#include <algorithm>

namespace heddle::server {

Answer Server::inlay_hints(Document &d, const RangeParams &params) {
  const FileSymbols &own = symbols(d);
  int from = d.text.offset(params.range.start), to = d.text.offset(params.range.end);
  std::vector<std::pair<int, json::Value>> found;
  for (const Definition &definition : own.definitions) {
    int at = definition.span.end;
    if (definition.kind != Definition::value || at < from || at > to)
      continue;
    std::string note = note_of(d, own, definition);
    if (!syntax::is_scalar_type(note.substr(0, note.find_first_of("[, "))))
      continue; // nothing known, or a number that the text says itself
    at = end_of_brackets(own.text, at);
    lsp::InlayHint hint(lsp::InlayHintKind::Type, d.text.position(at));
    hint.label = ": " + valid_utf8(note);
    found.emplace_back(at, hint);
  }
  std::sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  json::Array out;
  for (auto &[at, hint] : found)
    out.push_back(std::move(hint));
  return out;
}

namespace {

enum Modifier { declaration = 1, readonly = 2, of_library = 4 };

struct Meaning {
  const char *type;
  int modifiers;
};

/// What each kind of definition is in the protocol's words.
Meaning meaning_of(Definition::Kind kind) {
  switch (kind) {
  case Definition::config:
  case Definition::let:
    return {"variable", readonly};
  case Definition::dim:
  case Definition::size:
    return {"typeParameter", 0};
  case Definition::function:
    return {"function", 0};
  case Definition::module:
  case Definition::model:
    return {"class", 0};
  case Definition::entry:
    return {"method", 0};
  case Definition::param:
  case Definition::sub:
    return {"property", readonly};
  case Definition::state:
    return {"property", 0};
  case Definition::input:
    return {"parameter", 0};
  case Definition::value:
    return {"variable", 0};
  case Definition::index:
  case Definition::iteration:
    return {"enumMember", 0};
  }
  return {"variable", 0};
}

constexpr const char *token_types[] = {"variable", "typeParameter", "function",  "class",
                                       "method",   "property",      "parameter", "enumMember"};

} // namespace

json::Value semantic_legend() {
  return json::Object{{"tokenTypes", json::Array(token_types)},
                      {"tokenModifiers", {"declaration", "readonly", "defaultLibrary"}}};
}

Answer Server::semantic_tokens(Document &d, const DocumentParams &) {
  const FileSymbols &own = symbols(d);
  std::map<int, std::pair<Span, Meaning>> names; // by the first byte
  for (const Definition &definition : own.definitions) {
    Meaning meaning = meaning_of(definition.kind);
    meaning.modifiers |= declaration;
    names[definition.span.begin] = {definition.span, meaning};
  }
  for (const auto &[begin, use] : own.uses) {
    const auto &library = own.prelude;
    if (use.file) {
      Meaning meaning = meaning_of(use.file->definitions[use.definition].kind);
      if (std::find(library.begin(), library.end(), use.file) != library.end())
        meaning.modifiers |= of_library;
      names.emplace(begin, std::pair(use.span, meaning));
    } else if (std::string word = own.text.substr(begin, use.span.end - begin); !word_help(word).empty()) {
      names.emplace(begin, std::pair(use.span, Meaning{"function", of_library}));
    }
  }
  json::Array data;
  lsp::Position last;
  for (const auto &[begin, name] : names) {
    const auto &[span, meaning] = name;
    lsp::Range range = d.text.range(span.begin, span.end);
    auto type = std::find_if(std::begin(token_types), std::end(token_types),
                             [&](std::string_view one) { return one == meaning.type; });
    if (range.start.line != range.end.line || range.start == range.end)
      continue;
    bool same_line = range.start.line == last.line;
    for (int64_t number :
         {static_cast<int64_t>(range.start.line - last.line),
          static_cast<int64_t>(range.start.character - (same_line ? last.character : 0)),
          static_cast<int64_t>(range.end.character - range.start.character),
          static_cast<int64_t>(type - std::begin(token_types)), static_cast<int64_t>(meaning.modifiers)})
      data.push_back(number);
    last = range.start;
  }
  return json::Object{{"data", std::move(data)}};
}

} // namespace heddle::server
