// Rename, as the protocol has it: first whether and what, then the edits of all files.
#include "dsl/server/occurrences.h"
#include "dsl/server/server.h"

namespace heddle::server {

Answer Server::prepare_rename(Document &d, const PositionParams &params) {
  const FileSymbols &own = symbols(d);
  int offset = d.text.offset(params.position);
  auto [file, number] = own.at(offset);
  if (!file)
    return nullptr;
  const Definition &definition = file->definitions[number];
  if (Rename plan = server::rename(files_, *file, number, definition.name); !plan.refused.empty())
    return refused(lsp::ErrorCode::RequestFailed, plan.refused);
  for (Span span : occurrences_in(own, *file, number))
    if (span.begin <= offset && offset <= span.end)
      return json::Object{{"range", d.text.range(span.begin, span.end)}, {"placeholder", definition.name}};
  return nullptr;
}

Answer Server::rename(Document &d, const RenameParams &params) {
  auto [file, number] = symbols(d).at(d.text.offset(params.position));
  if (!file)
    return refused(lsp::ErrorCode::RequestFailed, "no name that is defined somewhere stands here");
  Rename plan = server::rename(files_, *file, number, params.new_name);
  if (!plan.refused.empty())
    return refused(lsp::ErrorCode::RequestFailed, plan.refused);
  lsp::WorkspaceEdit out;
  for (const auto &[other, edits] : plan.edits) {
    Text text(other->text);
    for (const Edit &edit : edits)
      out.changes[uri_of(*other)].push_back({text.range(edit.span.begin, edit.span.end), edit.text});
  }
  return out;
}

} // namespace heddle::server
