// Answers about a place in a document. Hover joins what the text says (declaration, comment) with what the last check
// found out (type and shape).
#include "dsl/server/occurrences.h"
#include "dsl/server/server.h"
#include "dsl/server/words.h"
#include "dsl/syntax/lexer.h"
#include "dsl/syntax/parser.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace heddle::server {

const FileSymbols &Server::symbols(const Document &document) { return *files_.find(document.path); }

std::string Server::uri_of(const FileSymbols &file) {
  for (const auto &[uri, d] : documents_)
    if (d.path == file.path)
      return uri;
  if (!file.path.empty() && file.path[0] == '/')
    return uri_of_path(file.path);
  // Carried inside the program: the prelude, the models.
  std::string place = hooks_.place_of_carried ? hooks_.place_of_carried(file.path, file.text) : "";
  return place.empty() ? "" : uri_of_path(place);
}

/// LLVM's Location with a URI of any scheme.
json::Value Server::location(const FileSymbols &file, Span span) {
  std::string uri = uri_of(file);
  if (uri.empty())
    return nullptr;
  return json::Object{{"uri", uri}, {"range", Text(file.text).range(span.begin, span.end)}};
}

std::string Server::note_of(const Document &document, const FileSymbols &file, const Definition &definition) const {
  auto found = document.analysis.notes.find({file.path, definition.qualified});
  return found == document.analysis.notes.end() ? "" : found->second;
}

/// The word around an offset, and where it is.
static std::string word_at(const std::string &text, int offset, int &begin, int &end) {
  auto part = [&](int i) { return llvm::isAlnum(text[i]) || text[i] == '_'; };
  begin = end = offset;
  while (begin > 0 && part(begin - 1))
    --begin;
  while (end < static_cast<int>(text.size()) && part(end))
    ++end;
  return text.substr(begin, end - begin);
}

Answer Server::hover(Document &d, const PositionParams &params) {
  int offset = d.text.offset(params.position);
  const FileSymbols &own = symbols(d);
  auto [file, number] = own.at(offset);
  int begin = 0, end = 0;
  std::string word = word_at(own.text, offset, begin, end), says;
  if (file) {
    const Definition &definition = file->definitions[number];
    std::string note = note_of(d, *file, definition);
    says = "```heddle\n" + file->signature(definition) + "\n```";
    if (!note.empty())
      says += "\n\n`" + definition.name + "`: `" + note + "`";
    if (std::string comment = file->comment(definition); !comment.empty())
      says += "\n\n" + comment;
  } else {
    says = word_help(word);
  }
  if (says.empty())
    return nullptr;
  lsp::Hover hover(d.text.range(begin, end));
  hover.contents.value = valid_utf8(says);
  return hover;
}

Answer Server::definition(Document &d, const PositionParams &params) {
  auto [file, number] = symbols(d).at(d.text.offset(params.position));
  return file ? location(*file, file->definitions[number].span) : nullptr;
}

Answer Server::references(Document &d, const ReferenceParams &params) {
  auto [file, number] = symbols(d).at(d.text.offset(params.position));
  json::Array out;
  if (file)
    for (const auto &[other, spans] : occurrences(files_, *file, number))
      for (Span span : spans)
        if (params.context.includeDeclaration || other != file || span.begin != file->definitions[number].span.begin)
          if (json::Value place = location(*other, span); place.getAsObject()) // null: it can be opened nowhere
            out.push_back(std::move(place));
  return out;
}

Answer Server::highlights(Document &d, const PositionParams &params) {
  const FileSymbols &own = symbols(d);
  auto [file, number] = own.at(d.text.offset(params.position));
  json::Array out;
  if (file)
    for (Span span : occurrences_in(own, *file, number))
      out.push_back(json::Object{{"range", d.text.range(span.begin, span.end)}});
  return out;
}

static lsp::SymbolKind symbol_kind(Definition::Kind kind) {
  switch (kind) {
  case Definition::module:
  case Definition::model:
    return lsp::SymbolKind::Class;
  case Definition::function:
    return lsp::SymbolKind::Function;
  case Definition::entry:
    return lsp::SymbolKind::Method;
  case Definition::param:
  case Definition::state:
    return lsp::SymbolKind::Field;
  case Definition::sub:
    return lsp::SymbolKind::Object;
  case Definition::config:
  case Definition::dim:
    return lsp::SymbolKind::Constant;
  default:
    return lsp::SymbolKind::Variable;
  }
}

Answer Server::document_symbols(Document &d, const DocumentParams &) {
  const FileSymbols &own = symbols(d);
  // What is declared stands in the order of the text, each member behind its module.
  std::vector<lsp::DocumentSymbol> out;
  for (size_t i = 0; i < own.declared; ++i) {
    const Definition &definition = own.definitions[i];
    if (definition.kind == Definition::size)
      continue;
    lsp::DocumentSymbol one(definition.name, symbol_kind(definition.kind),
                            d.text.range(std::min(definition.whole.begin, definition.span.begin),
                                         std::max(definition.whole.end, definition.span.end)),
                            d.text.range(definition.span.begin, definition.span.end));
    std::string detail = own.signature(definition);
    if (!definition.fn && !definition.entry_point && detail.find('\n') == std::string::npos)
      one.detail = detail;
    bool member = definition.qualified != definition.name && !out.empty();
    (member ? out.back().children : out).push_back(std::move(one));
  }
  return json::Array(out);
}

Answer Server::workspace_symbols(const QueryParams &params) {
  json::Array out;
  for (const std::string &path : files_.texts().below(folders_)) {
    const FileSymbols *file = files_.declared(path);
    if (!file)
      continue;
    std::string uri = uri_of(*file);
    Text text(file->text);
    for (size_t i = 0; i < file->declared; ++i) {
      const Definition &definition = file->definitions[i];
      if (definition.kind == Definition::size || !llvm::StringRef(definition.name).contains_insensitive(params.query))
        continue;
      json::Object one{
          {"name", definition.name},
          {"kind", static_cast<int>(symbol_kind(definition.kind))},
          {"location", json::Object{{"uri", uri}, {"range", text.range(definition.span.begin, definition.span.end)}}}};
      if (llvm::StringRef container = llvm::StringRef(definition.qualified).rsplit('.').first;
          container != definition.qualified)
        one["containerName"] = container;
      out.push_back(std::move(one));
    }
  }
  return out;
}

Answer Server::formatting(Document &d, const DocumentParams &) {
  Sources sources;
  Diagnostics diagnostics(sources);
  int source = sources.add(d.path, d.text.text());
  syntax::File tree = syntax::parse(sources, source, diagnostics);
  if (diagnostics.has_errors())
    return nullptr; // the messages say why
  std::optional<std::string> after = syntax::print_in_place(sources, tree);
  if (!after)
    return nullptr;
  if (*after == d.text.text())
    return json::Array();
  return json::Array{lsp::TextEdit{d.text.range(0, static_cast<int>(d.text.text().size())), *after}};
}

Answer Server::code_actions(Document &d, const RangeParams &params) {
  json::Array out;
  int from = d.text.offset(params.range.start), to = d.text.offset(params.range.end);
  if (d.analysis.version != d.version)
    return out; // its places are those of another text
  for (const Finding &finding : d.analysis.findings) {
    if (finding.path != d.path || finding.end < from || finding.begin > to || finding.fix.empty())
      continue;
    lsp::CodeAction action;
    action.title = "Replace by `" + valid_utf8(finding.fix) + "`";
    action.kind = lsp::CodeAction::kQuickFix.str();
    action.isPreferred = true;
    action.edit.emplace().changes[d.uri] = {{d.text.range(finding.fix_begin, finding.fix_end), finding.fix}};
    out.push_back(action);
  }
  return out;
}

} // namespace heddle::server
