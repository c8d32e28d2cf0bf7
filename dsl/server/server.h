// The language server: one conversation with an editor, message by message, in the Language Server Protocol. Who
// carries the messages is the transport's matter (run_stdio). Answers come from the text alone where they can; checks
// run in another thread, and what they find is published when they are done.
#pragma once

#include "dsl/errors/result.h"
#include "dsl/server/analysis.h"
#include "dsl/server/files.h"
#include "dsl/server/protocol.h"
#include "dsl/server/text.h"

#include <chrono>
#include <set>

namespace heddle::server {

class Server {
public:
  using Clock = std::chrono::steady_clock;

  Server(Hooks hooks, std::string version, lsp::JSONTransport &client);

  /// One message. Whatever it holds, it is answered or ignored, never fatal.
  void receive(json::Value message);
  /// What came is no message.
  void malformed(const std::string &why);
  /// A request that the client no longer wants is answered so when its turn comes.
  void cancel(const json::Value &id) { cancelled_.insert(llvm::debugString(id)); }

  /// A check that is due: its work may be done by any thread, its result is handed to `finished`. The edit must be
  /// `pause` old, so that nothing is checked between two keystrokes.
  std::optional<std::function<Analysis()>> due(Clock::time_point now);
  /// When the next check becomes due.
  std::optional<Clock::time_point> next_due() const;
  void finished(Analysis analysis);

  bool over() const { return exit_; }
  /// Whether the client has said hello.
  bool begun() const { return initialized_; }
  /// 0: the client said goodbye before it left.
  int status() const { return shut_down_ ? 0 : 1; }

  static constexpr std::chrono::milliseconds pause{120};

private:
  struct Document {
    std::string uri, path;
    Text text;
    std::shared_ptr<const std::string> shared; // the text, for checks
    int64_t version = 0;
    std::optional<Clock::time_point> changed; // not yet checked
    Analysis analysis;                        // the last
    std::set<std::string> published;          // URIs that hold messages of this document
  };

  // --- server.cc: the conversation
  template <class Params> using At = Answer (Server::*)(Document &, const Params &);
  /// A request about an open document.
  template <class Params> void on(llvm::StringLiteral method, At<Params> answer);
  /// A notification.
  template <class Params> void on(llvm::StringLiteral method, void (Server::*take)(const Params &));
  Answer answer(llvm::StringRef method, const json::Value &params);
  json::Value initialize(const json::Value &params);
  void opened(const ItemParams &params);
  void edited(const ChangeParams &params);
  void closed(const DocumentParams &params);
  void changed_elsewhere(const lsp::NoParams &params);
  Document *document(const std::string &uri);
  /// A text is another one: what uses it is checked again.
  void texts_changed(const std::string &path);

  // --- publish.cc: what the checks found
  void publish(Document &document);

  // --- features.cc: answers
  const FileSymbols &symbols(const Document &document);
  std::string uri_of(const FileSymbols &file);
  json::Value location(const FileSymbols &file, Span span);
  std::string note_of(const Document &document, const FileSymbols &file, const Definition &definition) const;
  Answer hover(Document &document, const PositionParams &params);
  Answer definition(Document &document, const PositionParams &params);
  Answer references(Document &document, const ReferenceParams &params);
  Answer highlights(Document &document, const PositionParams &params);
  Answer document_symbols(Document &document, const DocumentParams &params);
  Answer workspace_symbols(const QueryParams &params);
  Answer formatting(Document &document, const DocumentParams &params);
  Answer code_actions(Document &document, const RangeParams &params);

  // --- completion.cc, signatures.cc, hints.cc, rename.cc
  Answer completion(Document &document, const PositionParams &params);
  Answer signature_help(Document &document, const PositionParams &params);
  Answer inlay_hints(Document &document, const RangeParams &params);
  Answer semantic_tokens(Document &document, const DocumentParams &params);
  Answer prepare_rename(Document &document, const PositionParams &params);
  Answer rename(Document &document, const RenameParams &params);

  Hooks hooks_;
  std::string version_;
  lsp::JSONTransport &client_;
  llvm::StringMap<std::function<Answer(const json::Value &)>> requests_;
  llvm::StringMap<std::function<void(const json::Value &)>> notifications_;
  std::map<std::string, Document> documents_; // by URI
  Files files_;
  std::vector<std::string> folders_; // of the workspace
  std::set<std::string> cancelled_;
  int64_t refreshes_ = 0;
  bool refreshes_hints_ = false; // the client asks for hints anew when it is told that there are others
  bool initialized_ = false, shut_down_ = false, exit_ = false, running_ = false;
};

/// Serves on two streams until the client leaves. The exit status of the program, or that there was no client.
Result<int> run_stdio(std::FILE *in, llvm::raw_ostream &out, Hooks hooks, const std::string &version);

} // namespace heddle::server
