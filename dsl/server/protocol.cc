// Parameters are read by LLVM's object mapper, which says what is missing and where.
#include "dsl/server/protocol.h"

#include "llvm/ADT/StringExtras.h"

namespace heddle::server {

/// Maps `"key": {…}` to a function of the object inside.
template <class F> static bool inside(const json::Value &value, llvm::StringRef key, json::Path path, F &&map) {
  const json::Object *object = value.getAsObject();
  const json::Value *inner = object ? object->get(key) : nullptr;
  if (!inner) {
    path.field(key).report("missing value");
    return false;
  }
  json::ObjectMapper mapper(*inner, path.field(key));
  return mapper && map(mapper);
}

bool fromJSON(const json::Value &value, DocumentParams &out, json::Path path) {
  return inside(value, "textDocument", path, [&](auto &inner) { return inner.map("uri", out.uri); });
}

bool fromJSON(const json::Value &value, PositionParams &out, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && fromJSON(value, static_cast<DocumentParams &>(out), path) && mapper.map("position", out.position);
}

bool fromJSON(const json::Value &value, ReferenceParams &out, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && fromJSON(value, static_cast<PositionParams &>(out), path) &&
         mapper.mapOptional("context", out.context);
}

bool fromJSON(const json::Value &value, RenameParams &out, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && fromJSON(value, static_cast<PositionParams &>(out), path) && mapper.map("newName", out.new_name);
}

bool fromJSON(const json::Value &value, RangeParams &out, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && fromJSON(value, static_cast<DocumentParams &>(out), path) && mapper.map("range", out.range);
}

bool fromJSON(const json::Value &value, QueryParams &out, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("query", out.query);
}

bool fromJSON(const json::Value &value, ItemParams &out, json::Path path) {
  return fromJSON(value, static_cast<DocumentParams &>(out), path) &&
         inside(value, "textDocument", path,
                [&](auto &inner) { return inner.map("text", out.text) && inner.mapOptional("version", out.version); });
}

bool fromJSON(const json::Value &value, ChangeParams &out, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && fromJSON(value, static_cast<DocumentParams &>(out), path) &&
         inside(value, "textDocument", path, [&](auto &inner) { return inner.map("version", out.version); }) &&
         mapper.map("contentChanges", out.changes);
}

std::string path_of_uri(const std::string &uri) {
  llvm::StringRef rest = uri;
  if (!rest.consume_front("file://"))
    return uri;
  rest = rest.substr(std::min(rest.find('/'), rest.size())); // a host may stand before it
  std::string out;
  while (!rest.empty()) {
    if (rest[0] == '%' && rest.size() > 2 && llvm::isHexDigit(rest[1]) && llvm::isHexDigit(rest[2])) {
      out += static_cast<char>(llvm::hexFromNibbles(rest[1], rest[2]));
      rest = rest.drop_front(3);
    } else {
      out += rest[0];
      rest = rest.drop_front();
    }
  }
  return out;
}

std::string uri_of_path(const std::string &path) {
  if (path.empty() || path[0] != '/')
    return path;
  std::string out = "file://";
  for (char c : path)
    if (llvm::isAlnum(c) || llvm::StringRef("-._~/").contains(c))
      out += c;
    else
      out += "%" + llvm::toHex(llvm::StringRef(&c, 1));
  return out;
}

bool shallow(llvm::StringRef text) {
  constexpr int deepest = 500;
  int depth = 0;
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (string && c == '\\')
      ++i;
    else if (c == '"')
      string = !string;
    else if (!string && (c == '[' || c == '{') && ++depth > deepest)
      return false;
    else if (!string && (c == ']' || c == '}'))
      --depth;
  }
  return true;
}

} // namespace heddle::server
