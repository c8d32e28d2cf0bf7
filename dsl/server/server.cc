// Dispatch by method name. A request gets exactly one answer: a result, or an error of the protocol's table.
#include "dsl/server/server.h"

#include <algorithm>

namespace heddle::server {

namespace {

constexpr int parse_error = -32700, invalid_request = -32600, method_not_found = -32601, invalid_params = -32602,
              internal_error = -32603, not_initialized = -32002, request_cancelled = -32800;

struct Refused {
  int code;
  std::string why;
};

std::string text_of(const Json &object, const char *key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string())
    throw Refused{invalid_params, std::string("`") + key + "` is missing"};
  return object[key].get<std::string>();
}

Place place_of(const Json &position) {
  auto number = [&](const char *key) {
    if (!position.is_object() || !position.contains(key) || !position[key].is_number_integer())
      throw Refused{invalid_params, std::string("a position has no `") + key + "`"};
    return static_cast<int>(std::clamp<int64_t>(position[key].get<int64_t>(), 0, INT32_MAX));
  };
  return {number("line"), number("character")};
}

} // namespace

Server::Server(Hooks hooks, std::string version, std::function<void(const Json &)> send)
    : hooks_(std::move(hooks)), version_(std::move(version)), send_(std::move(send)) {}

void Server::malformed(const std::string &why) {
  send_({{"jsonrpc", "2.0"}, {"id", nullptr}, {"error", {{"code", parse_error}, {"message", why}}}});
}

void Server::receive(const Json &message) {
  if (!message.is_object() || !message.contains("method") || !message["method"].is_string()) {
    // A response to a request of ours is well formed, though nobody waits for it; the rest is not.
    if (!message.is_object() || !(message.contains("result") || message.contains("error")))
      send_({{"jsonrpc", "2.0"},
             {"id", nullptr},
             {"error", {{"code", invalid_request}, {"message", "a message has a `method`"}}}});
    return;
  }
  std::string method = message["method"];
  Json params = message.contains("params") ? message["params"] : Json::object();
  if (!message.contains("id")) {
    try {
      notified(method, params);
    } catch (const Refused &) { // a notification has no answer
    } catch (const Json::exception &) {
    }
    return;
  }
  Json reply = {{"jsonrpc", "2.0"}, {"id", message["id"]}};
  auto refuse = [&](int code, const std::string &why) { reply["error"] = {{"code", code}, {"message", why}}; };
  try {
    if (cancelled_.erase(message["id"].dump()))
      refuse(request_cancelled, "cancelled");
    else if (shut_down_)
      refuse(invalid_request, "the server is shut down");
    else if (!initialized_ && method != "initialize")
      refuse(not_initialized, "`initialize` comes first");
    else
      reply["result"] = answer(method, params);
  } catch (const Refused &refused) {
    refuse(refused.code, refused.why);
  } catch (const Json::exception &error) {
    refuse(invalid_params, error.what());
  } catch (const std::exception &error) {
    refuse(internal_error, error.what());
  }
  send_(reply);
}

Json Server::answer(const std::string &method, const Json &params) {
  if (method == "initialize")
    return initialize(params);
  if (method == "shutdown") {
    shut_down_ = true;
    return nullptr;
  }
  using Answer = Json (Server::*)(Document &, const Json &);
  static const std::map<std::string, Answer> at_place = {
      {"textDocument/hover", &Server::hover},           {"textDocument/definition", &Server::definition},
      {"textDocument/references", &Server::references}, {"textDocument/documentHighlight", &Server::highlights},
      {"textDocument/completion", &Server::completion},
  };
  if (auto found = at_place.find(method); found != at_place.end()) {
    Document &d = document(params);
    place_of(params.contains("position") ? params["position"] : Json());
    return (this->*found->second)(d, params);
  }
  if (method == "textDocument/documentSymbol")
    return document_symbols(document(params));
  if (method == "textDocument/formatting")
    return formatting(document(params));
  if (method == "textDocument/codeAction") {
    Document &d = document(params);
    if (!params.contains("range") || !params["range"].is_object())
      throw Refused{invalid_params, "`range` is missing"};
    for (const char *end : {"start", "end"})
      place_of(params["range"].contains(end) ? params["range"][end] : Json());
    return code_actions(d, params);
  }
  throw Refused{method_not_found, "there is no `" + method + "` here"};
}

Json Server::initialize(const Json &) {
  initialized_ = true;
  return {{"capabilities",
           {{"positionEncoding", "utf-16"},
            {"textDocumentSync", {{"openClose", true}, {"change", 2}, {"save", true}}},
            {"hoverProvider", true},
            {"definitionProvider", true},
            {"referencesProvider", true},
            {"documentHighlightProvider", true},
            {"documentSymbolProvider", true},
            {"documentFormattingProvider", true},
            {"codeActionProvider", {{"codeActionKinds", {"quickfix"}}}},
            {"completionProvider", {{"triggerCharacters", {".", "\"", "[", ":"}}}}}},
          {"serverInfo", {{"name", "heddle"}, {"version", version_}}}};
}

void Server::notified(const std::string &method, const Json &params) {
  if (method == "exit")
    exit_ = true;
  else if (method == "textDocument/didOpen")
    opened(params);
  else if (method == "textDocument/didChange")
    edited(params);
  else if (method == "textDocument/didClose")
    closed(params);
  else if (method == "textDocument/didSave" || method == "workspace/didChangeWatchedFiles")
    touch_dependents(""); // a config.json or a used file may be another one now
}

Server::Document &Server::document(const Json &params) {
  std::string uri = text_of(params.contains("textDocument") ? params["textDocument"] : Json(), "uri");
  auto found = documents_.find(uri);
  if (found == documents_.end())
    throw Refused{invalid_params, "`" + uri + "` is not open"};
  return found->second;
}

void Server::opened(const Json &params) {
  const Json &item = params.at("textDocument");
  std::string uri = text_of(item, "uri");
  Document &d = documents_[uri];
  d.uri = uri;
  d.path = path_of_uri(uri);
  d.text = Text(text_of(item, "text"));
  d.version = item.value("version", 0);
  d.symbols.reset();
  d.changed = Clock::now() - pause; // nobody is typing
  touch_dependents(d.path);
}

void Server::edited(const Json &params) {
  Document &d = document(params);
  d.version = params.at("textDocument").value("version", d.version + 1);
  for (const Json &change : params.at("contentChanges")) {
    if (change.contains("range"))
      d.text.replace(place_of(change["range"].at("start")), place_of(change["range"].at("end")),
                     text_of(change, "text"));
    else
      d.text = Text(text_of(change, "text"));
  }
  d.symbols.reset();
  d.changed = Clock::now();
  touch_dependents(d.path);
}

void Server::closed(const Json &params) {
  Document &d = document(params);
  for (const std::string &uri : d.published)
    send_({{"jsonrpc", "2.0"},
           {"method", "textDocument/publishDiagnostics"},
           {"params", {{"uri", uri}, {"diagnostics", Json::array()}}}});
  std::string path = d.path;
  documents_.erase(d.uri);
  touch_dependents(path);
}

/// Other documents may use what has changed.
void Server::touch_dependents(const std::string &path) {
  for (auto &[uri, other] : documents_)
    if (other.path != path) {
      other.symbols.reset();
      if (!other.changed)
        other.changed = Clock::now();
    }
}

Texts Server::texts() const {
  std::map<std::string, std::string> open;
  for (const auto &[uri, d] : documents_)
    open[d.path] = d.text.text();
  return Texts(hooks_, std::move(open));
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
      return [path = d.path, text = d.text.text(), version = d.version, texts = texts()] {
        return analyse(path, text, version, texts);
      };
    }
  return std::nullopt;
}

void Server::finished(Analysis analysis) {
  running_ = false;
  for (auto &[uri, d] : documents_)
    if (d.path == analysis.path) {
      bool current = d.version == analysis.version;
      // A text that is half typed says little of its names; what was known of them still holds.
      if (!current || (analysis.notes.size() < d.analysis.notes.size() && !analysis.findings.empty()))
        for (const auto &[name, note] : d.analysis.notes)
          analysis.notes.emplace(name, note);
      d.analysis = std::move(analysis);
      if (current)
        publish(d);
      return;
    }
}

void Server::publish(Document &d) {
  std::map<std::string, Json> by_uri;
  std::map<std::string, Text> texts_of_files;
  by_uri[d.uri] = Json::array();
  auto add = [&](const std::string &uri, Json range, const Finding &finding) {
    const Diagnostic &message = finding.diagnostic;
    std::string words = message.message;
    if (!message.label.empty())
      words += "\n" + message.label;
    if (!message.help.empty())
      words += "\nhelp: " + message.help;
    by_uri.try_emplace(uri, Json::array())
        .first->second.push_back({{"range", std::move(range)},
                                  {"severity", message.severity == Severity::error ? 1 : 2},
                                  {"code", code_name(message.code)},
                                  {"source", "heddle"},
                                  {"message", valid_utf8(words)}});
  };
  Texts texts = this->texts();
  for (const Finding &finding : d.analysis.findings) {
    if (finding.path == d.path) {
      add(d.uri, range(d.text, finding.begin, finding.end), finding);
      continue;
    }
    // A place in the prelude or a used file that a call of this document led to is shown at the call.
    const std::string &label = finding.diagnostic.label;
    int line = 0, column = 0;
    size_t at = label.find("called in line ");
    if (at != std::string::npos && label.ends_with(" of " + d.path) &&
        std::sscanf(label.c_str() + at, "called in line %d, column %d", &line, &column) == 2) {
      int begin = d.text.offset({line - 1, 0}) + column - 1; // columns of messages are bytes
      int end = begin;
      while (end < static_cast<int>(d.text.text().size()) &&
             (std::isalnum((unsigned char)d.text.text()[end]) || d.text.text()[end] == '_'))
        ++end;
      add(d.uri, range(d.text, begin, end), finding);
    } else if (auto text = texts.read(finding.path)) {
      add(uri_of_path(finding.path), range(Text(*text), finding.begin, finding.end), finding);
    } else {
      add(d.uri, range(d.text, 0, 0), finding);
    }
  }
  if (!d.analysis.config_error.empty())
    by_uri[d.uri].push_back({{"range", range(d.text, 0, 0)},
                             {"severity", 2},
                             {"source", "heddle"},
                             {"message", d.analysis.config_error + "; the defaults are taken"}});
  for (const std::string &uri : d.published)
    by_uri.try_emplace(uri, Json::array()); // what was said there is taken back
  d.published.clear();
  for (auto &[uri, list] : by_uri) {
    Json params = {{"uri", uri}, {"diagnostics", list}};
    if (uri == d.uri)
      params["version"] = d.version;
    if (uri == d.uri || !list.empty())
      d.published.insert(uri);
    send_({{"jsonrpc", "2.0"}, {"method", "textDocument/publishDiagnostics"}, {"params", params}});
  }
}

} // namespace heddle::server
