// What the server needs of the Language Server Protocol beyond llvm/Support/LSP: parameters that name a document by any
// URI, which LLVM's URIForFile does not hold (an editor opens `untitled:Untitled-1` before a file has a name), and
// requests that LLVM has no structs for.
#pragma once

#include "llvm/Support/LSP/Protocol.h"
#include "llvm/Support/LSP/Transport.h"

#include <string>

namespace heddle::server {

namespace json = llvm::json;
namespace lsp = llvm::lsp;

/// What a request is answered with.
using Answer = llvm::Expected<json::Value>;

struct DocumentParams {
  std::string uri;
};

struct PositionParams : DocumentParams {
  lsp::Position position;
};

struct ReferenceParams : PositionParams {
  lsp::ReferenceContext context{true};
};

struct RenameParams : PositionParams {
  std::string new_name;
};

struct RangeParams : DocumentParams {
  lsp::Range range;
};

struct QueryParams {
  std::string query;
};

struct ItemParams : DocumentParams { // of didOpen
  std::string text;
  int64_t version = 0;
};

struct ChangeParams : DocumentParams {
  std::optional<int64_t> version;
  std::vector<lsp::TextDocumentContentChangeEvent> changes;
};

bool fromJSON(const json::Value &value, DocumentParams &out, json::Path path);
bool fromJSON(const json::Value &value, PositionParams &out, json::Path path);
bool fromJSON(const json::Value &value, ReferenceParams &out, json::Path path);
bool fromJSON(const json::Value &value, RenameParams &out, json::Path path);
bool fromJSON(const json::Value &value, RangeParams &out, json::Path path);
bool fromJSON(const json::Value &value, QueryParams &out, json::Path path);
bool fromJSON(const json::Value &value, ItemParams &out, json::Path path);
bool fromJSON(const json::Value &value, ChangeParams &out, json::Path path);

/// The refusal of a request.
inline llvm::Error refused(lsp::ErrorCode code, std::string why) {
  return llvm::make_error<lsp::LSPError>(std::move(why), code);
}

/// "file:///a%20b" and "/a b"; what is no file URI is its own path.
std::string path_of_uri(const std::string &uri);
std::string uri_of_path(const std::string &path);

/// Whether `text` nests its arrays and objects no deeper than a parser that calls itself may follow.
bool shallow(llvm::StringRef text);

} // namespace heddle::server
