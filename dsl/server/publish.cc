// What the checks found, as an editor shows it: messages under their files, in the places of the texts as they are.
#include "dsl/server/server.h"

#include "llvm/ADT/StringExtras.h"

namespace heddle::server {

static json::Value message_of(const Finding &finding, lsp::Range range) {
  const Diagnostic &said = finding.diagnostic;
  lsp::Diagnostic out;
  out.range = range;
  out.severity = said.severity == Severity::error ? lsp::DiagnosticSeverity::Error : lsp::DiagnosticSeverity::Warning;
  out.source = "heddle";
  out.message = said.message;
  if (!said.label.empty())
    out.message += "\n" + said.label;
  if (!said.help.empty())
    out.message += "\nhelp: " + said.help;
  out.message = valid_utf8(out.message);
  if (said.code == Code::W101 || said.code == Code::W102 || said.code == Code::W103)
    out.tags = {lsp::DiagnosticTag::Unnecessary};
  json::Value value = out;
  (*value.getAsObject())["code"] = code_name(said.code); // which LLVM's struct has no room for
  return value;
}

/// The name in `text` at which the call stands that led to a message in another file; nullopt: none in this one.
static std::optional<lsp::Range> call_of(const std::string &label, const std::string &path, const Text &text) {
  int line = 0, column = 0;
  size_t at = label.find("called in line ");
  if (at == std::string::npos || !label.ends_with(" of " + path) ||
      std::sscanf(label.c_str() + at, "called in line %d, column %d", &line, &column) != 2)
    return std::nullopt;
  int begin = text.offset({line - 1, 0}) + column - 1; // columns of messages are bytes
  int size = static_cast<int>(text.text().size()), end = std::min(begin, size);
  while (end < size && (llvm::isAlnum(text.text()[end]) || text.text()[end] == '_'))
    ++end;
  return text.range(begin, end);
}

void Server::publish(Document &d) {
  std::map<std::string, json::Array> by_uri;
  by_uri[d.uri];
  for (const Finding &finding : d.analysis.findings) {
    if (finding.path == d.path)
      by_uri[d.uri].push_back(message_of(finding, d.text.range(finding.begin, finding.end)));
    else if (auto call = call_of(finding.diagnostic.label, d.path, d.text))
      by_uri[d.uri].push_back(message_of(finding, *call)); // a place in the prelude or a used file is shown at the call
    else if (auto text = files_.texts().read(finding.path))
      by_uri[uri_of_path(finding.path)].push_back(message_of(finding, Text(*text).range(finding.begin, finding.end)));
    else
      by_uri[d.uri].push_back(message_of(finding, {}));
  }
  if (!d.analysis.config_error.empty())
    by_uri[d.uri].push_back(json::Object{{"range", lsp::Range()},
                                         {"severity", 2},
                                         {"source", "heddle"},
                                         {"message", d.analysis.config_error + "; the defaults are taken"}});
  for (const std::string &uri : d.published)
    by_uri[uri]; // what was said there is taken back
  d.published.clear();
  for (auto &[uri, list] : by_uri) {
    if (uri == d.uri || !list.empty())
      d.published.insert(uri);
    json::Object params{{"uri", uri}, {"diagnostics", std::move(list)}};
    if (uri == d.uri)
      params["version"] = d.version;
    client_.notify("textDocument/publishDiagnostics", std::move(params));
  }
}

} // namespace heddle::server
