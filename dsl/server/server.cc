// Dispatch by method name. A request gets exactly one answer: a result, or an error of the protocol's table.
#include "dsl/server/server.h"

#include "dsl/server/tokens.h"

#include <algorithm>

namespace heddle::server {

template <class Params> void Server::on(llvm::StringLiteral method, At<Params> answer) {
  requests_[method] = [this, method, answer](const json::Value &raw) -> Answer {
    auto params = lsp::MessageHandler::parse<Params>(raw, method, "request");
    if (!params)
      return params.takeError();
    Document *d = document(params->uri);
    if (!d)
      return refused(lsp::ErrorCode::InvalidParams, "`" + params->uri + "` is not open");
    return (this->*answer)(*d, *params);
  };
}

template <class Params> void Server::on(llvm::StringLiteral method, void (Server::*take)(const Params &)) {
  notifications_[method] = [this, method, take](const json::Value &raw) {
    auto params = lsp::MessageHandler::parse<Params>(raw, method, "notification");
    if (params)
      (this->*take)(*params);
    else
      llvm::consumeError(params.takeError()); // a notification has no answer
  };
}

Server::Server(Hooks hooks, std::string version, lsp::JSONTransport &client)
    : hooks_(std::move(hooks)), version_(std::move(version)), client_(client), files_(Texts(hooks_, {})) {
  on("textDocument/didOpen", &Server::opened);
  on("textDocument/didChange", &Server::edited);
  on("textDocument/didClose", &Server::closed);
  on("textDocument/didSave", &Server::changed_elsewhere);
  on("workspace/didChangeWatchedFiles", &Server::changed_elsewhere);
  on("textDocument/hover", &Server::hover);
  on("textDocument/definition", &Server::definition);
  on("textDocument/references", &Server::references);
  on("textDocument/documentHighlight", &Server::highlights);
  on("textDocument/documentSymbol", &Server::document_symbols);
  on("textDocument/formatting", &Server::formatting);
  on("textDocument/codeAction", &Server::code_actions);
  on("textDocument/completion", &Server::completion);
  on("textDocument/signatureHelp", &Server::signature_help);
  on("textDocument/inlayHint", &Server::inlay_hints);
  on("textDocument/semanticTokens/full", &Server::semantic_tokens);
  on("textDocument/prepareRename", &Server::prepare_rename);
  on("textDocument/rename", &Server::rename);
}

void Server::malformed(const std::string &why) { client_.reply(nullptr, refused(lsp::ErrorCode::ParseError, why)); }

void Server::receive(json::Value message) {
  json::Object *object = message.getAsObject();
  auto method = object ? object->getString("method") : std::nullopt;
  if (!method) {
    // A response to a request of ours is well formed, though nobody waits for it; the rest is not.
    if (!object || !(object->get("result") || object->get("error")))
      client_.reply(nullptr, refused(lsp::ErrorCode::InvalidRequest, "a message has a `method`"));
    return;
  }
  json::Value none = nullptr;
  const json::Value &params = object->get("params") ? *object->get("params") : none;
  const json::Value *id = object->get("id");
  if (!id) {
    if (*method == "exit")
      exit_ = true;
    else if (auto take = notifications_.find(*method); initialized_ && take != notifications_.end())
      take->second(params);
    return;
  }
  auto reply = [&]() -> Answer {
    if (cancelled_.erase(llvm::debugString(*id)))
      return refused(lsp::ErrorCode::RequestCancelled, "cancelled");
    if (shut_down_)
      return refused(lsp::ErrorCode::InvalidRequest, "the server is shut down");
    if (!initialized_ && *method != "initialize")
      return refused(lsp::ErrorCode::ServerNotInitialized, "`initialize` comes first");
    return answer(*method, params);
  };
  try {
    client_.reply(*id, reply());
  } catch (const std::exception &error) {
    client_.reply(*id, refused(lsp::ErrorCode::InternalError, error.what()));
  }
}

Answer Server::answer(llvm::StringRef method, const json::Value &params) {
  if (method == "initialize" && initialized_)
    return refused(lsp::ErrorCode::InvalidRequest, "`initialize` comes once");
  if (method == "initialize")
    return initialize(params);
  if (method == "shutdown") {
    shut_down_ = true;
    return nullptr;
  }
  if (method == "workspace/symbol") {
    auto query = lsp::MessageHandler::parse<QueryParams>(params, method, "request");
    return query ? workspace_symbols(*query) : Answer(query.takeError());
  }
  if (auto found = requests_.find(method); found != requests_.end())
    return found->second(params);
  return refused(lsp::ErrorCode::MethodNotFound, "there is no `" + method.str() + "` here");
}

json::Value Server::initialize(const json::Value &params) {
  initialized_ = true;
  if (const json::Object *object = params.getAsObject()) {
    if (const json::Array *folders = object->getArray("workspaceFolders"))
      for (const json::Value &folder : *folders)
        if (const json::Object *one = folder.getAsObject())
          folders_.push_back(path_of_uri(one->getString("uri").value_or("").str()));
    if (auto root = object->getString("rootUri"); root && folders_.empty())
      folders_.push_back(path_of_uri(root->str()));
    const json::Object *inner = object->getObject("capabilities");
    for (const char *key : {"workspace", "inlayHint"})
      inner = inner ? inner->getObject(key) : nullptr;
    refreshes_hints_ = inner && inner->getBoolean("refreshSupport").value_or(false);
  }
  return json::Object{
      {"capabilities",
       json::Object{{"positionEncoding", "utf-16"},
                    {"textDocumentSync", json::Object{{"openClose", true}, {"change", 2}, {"save", true}}},
                    {"hoverProvider", true},
                    {"definitionProvider", true},
                    {"referencesProvider", true},
                    {"documentHighlightProvider", true},
                    {"documentSymbolProvider", true},
                    {"workspaceSymbolProvider", true},
                    {"documentFormattingProvider", true},
                    {"codeActionProvider", json::Object{{"codeActionKinds", {lsp::CodeAction::kQuickFix}}}},
                    {"completionProvider", json::Object{{"triggerCharacters", {".", "\"", "[", ":"}}}},
                    {"signatureHelpProvider", json::Object{{"triggerCharacters", {"(", ","}}}},
                    {"inlayHintProvider", true},
                    {"renameProvider", json::Object{{"prepareProvider", true}}},
                    {"semanticTokensProvider", json::Object{{"legend", semantic_legend()}, {"full", true}}}}},
      {"serverInfo", json::Object{{"name", "heddle"}, {"version", version_}}}};
}

Server::Document *Server::document(const std::string &uri) {
  auto found = documents_.find(uri);
  return found == documents_.end() ? nullptr : &found->second;
}

void Server::opened(const ItemParams &params) {
  Document &d = documents_[params.uri];
  d.uri = params.uri;
  d.path = path_of_uri(params.uri);
  d.text = Text(params.text);
  d.version = params.version;
  texts_changed(d.path);
  d.changed = Clock::now() - pause; // nobody is typing
}

void Server::edited(const ChangeParams &params) {
  Document *d = document(params.uri);
  if (!d)
    return;
  d->version = params.version.value_or(d->version + 1);
  for (const lsp::TextDocumentContentChangeEvent &change : params.changes) {
    if (change.range)
      d->text.replace(*change.range, change.text);
    else
      d->text = Text(change.text);
  }
  texts_changed(d->path);
  d->changed = Clock::now();
}

void Server::closed(const DocumentParams &params) {
  Document *d = document(params.uri);
  if (!d)
    return;
  for (const std::string &uri : d->published)
    client_.notify("textDocument/publishDiagnostics", json::Object{{"uri", uri}, {"diagnostics", json::Array()}});
  std::string path = d->path;
  documents_.erase(params.uri);
  texts_changed(path);
}

/// A config.json or a used file may be another one now.
void Server::changed_elsewhere(const lsp::NoParams &) { texts_changed(""); }

void Server::texts_changed(const std::string &path) {
  Texts::Open open;
  for (auto &[uri, d] : documents_) {
    if (d.path == path || !d.shared)
      d.shared = std::make_shared<const std::string>(d.text.text());
    else if (!d.changed && (path.empty() || folder_of(d.path) == folder_of(path)))
      d.changed = Clock::now();
    open[d.path] = d.shared;
  }
  files_.set(Texts(hooks_, std::move(open)));
}

std::optional<Server::Clock::time_point> Server::next_due() const {
  std::optional<Clock::time_point> next;
  if (running_)
    return next;
  for (const auto &[uri, d] : documents_)
    if (d.changed && (!next || *d.changed + pause < *next))
      next = *d.changed + pause;
  return next;
}

std::optional<std::function<Analysis()>> Server::due(Clock::time_point now) {
  if (running_)
    return std::nullopt;
  for (auto &[uri, d] : documents_)
    if (d.changed && *d.changed + pause <= now) {
      d.changed.reset();
      running_ = true;
      return [path = d.path, version = d.version, texts = files_.texts()] { return analyse(path, version, texts); };
    }
  return std::nullopt;
}

void Server::finished(Analysis analysis) {
  running_ = false;
  auto found = std::find_if(documents_.begin(), documents_.end(),
                            [&](const auto &entry) { return entry.second.path == analysis.path; });
  if (found == documents_.end())
    return;
  Document &d = found->second;
  bool current = d.version == analysis.version;
  // A text that is half typed says little of its names; what was known of them still holds.
  if (!current || (analysis.notes.size() < d.analysis.notes.size() && !analysis.findings.empty()))
    for (const auto &[name, note] : d.analysis.notes)
      analysis.notes.emplace(name, note);
  bool other_notes = analysis.notes != d.analysis.notes;
  d.analysis = std::move(analysis);
  if (current)
    publish(d);
  if (other_notes && refreshes_hints_)
    client_.call("workspace/inlayHint/refresh", nullptr, "refresh " + std::to_string(++refreshes_));
}

} // namespace heddle::server
