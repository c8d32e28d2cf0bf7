// The language server: one conversation with an editor, message by message, in the Language Server Protocol. It reads
// and answers JSON values; who carries them is the transport's matter (run_stdio). Answers come from the text alone
// where they can; checks run beside the conversation and what they find is published when it is ready.
#pragma once

#include "dsl/server/analysis.h"
#include "dsl/server/text.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <set>

namespace heddle::server {

using Json = nlohmann::json;

class Server {
public:
  using Clock = std::chrono::steady_clock;

  Server(Hooks hooks, std::string version, std::function<void(const Json &)> send);

  /// One message. Whatever it holds, it is answered or ignored, never fatal.
  void receive(const Json &message);
  /// What came is no message.
  void malformed(const std::string &why);
  /// A request that the client no longer wants is answered so when its turn comes.
  void cancel(const Json &id) { cancelled_.insert(id.dump()); }

  /// A check that is due: its work may be done by any thread, its result is handed to `finished`. The edit must be
  /// `pause` old, so that nothing is checked between two keystrokes.
  std::optional<std::function<Analysis()>> due(Clock::time_point now);
  /// When the next check becomes due.
  std::optional<Clock::time_point> next_due() const;
  void finished(Analysis analysis);

  bool over() const { return exit_; }
  /// 0: the client said goodbye before it left.
  int status() const { return shut_down_ ? 0 : 1; }

  static constexpr std::chrono::milliseconds pause{120};

private:
  struct Document {
    std::string uri, path;
    Text text;
    int version = 0;
    std::optional<Clock::time_point> changed; // not yet checked
    Analysis analysis;                        // the last
    std::shared_ptr<FileSymbols> symbols;     // of this text; made when needed
    Sources sources;                          // that the symbols' tree speaks of
    std::set<std::string> published;          // URIs that hold messages of this document
  };

  // --- server.cc: the conversation
  Json answer(const std::string &method, const Json &params);
  void notified(const std::string &method, const Json &params);
  Json initialize(const Json &params);
  void opened(const Json &params);
  void edited(const Json &params);
  void closed(const Json &params);
  void publish(Document &document);
  Document &document(const Json &params);
  void touch_dependents(const std::string &path);
  Texts texts() const;

  // --- files.cc: symbols of documents and of what they use
  const FileSymbols &symbols(Document &document);
  const FileSymbols *file(const std::string &path, const std::string &text);
  const std::vector<const FileSymbols *> &prelude();
  std::string uri_of(const FileSymbols &file);
  Json range(const Text &text, int begin, int end) const;
  Json location(const FileSymbols &file, Span span);
  std::string note_of(const Document &document, const FileSymbols &file, const Definition &definition) const;

  // --- features.cc: answers
  Json hover(Document &document, const Json &params);
  Json definition(Document &document, const Json &params);
  Json references(Document &document, const Json &params);
  Json highlights(Document &document, const Json &params);
  Json document_symbols(Document &document);
  Json formatting(Document &document);
  Json code_actions(Document &document, const Json &params);

  // --- completion.cc
  Json completion(Document &document, const Json &params);

  Hooks hooks_;
  std::string version_;
  std::function<void(const Json &)> send_;
  std::map<std::string, Document> documents_;                                     // by URI
  std::map<std::string, std::unique_ptr<std::pair<Sources, FileSymbols>>> files_; // used ones, by path
  std::vector<const FileSymbols *> prelude_;
  std::set<std::string> cancelled_;
  bool initialized_ = false, shut_down_ = false, exit_ = false, running_ = false;
};

/// Serves on two file descriptors until the client leaves. The exit status of the program.
int run_stdio(int in, int out, Hooks hooks, const std::string &version);

/// "file:///a%20b" and "/a b"; what is no file URI is its own path.
std::string path_of_uri(const std::string &uri);
std::string uri_of_path(const std::string &path);

/// What a word of the language itself means, in a line or two: reducers, built-in functions, keywords. Empty: none.
std::string word_help(const std::string &word);
std::vector<std::string> builtin_functions();

} // namespace heddle::server
