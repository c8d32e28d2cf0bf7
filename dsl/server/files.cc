// Symbols of the documents, of the files that they use and of the prelude; URIs and ranges.
#include "dsl/server/server.h"

#include "dsl/syntax/parser.h"

#include "embedded/prelude.h"

namespace heddle::server {

std::string path_of_uri(const std::string &uri) {
  if (!uri.starts_with("file://"))
    return uri;
  size_t slash = uri.find('/', 7); // a host may stand between
  std::string out;
  auto hex = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  for (size_t i = slash == std::string::npos ? uri.size() : slash; i < uri.size(); ++i) {
    if (uri[i] == '%' && i + 2 < uri.size() && hex(uri[i + 1]) >= 0 && hex(uri[i + 2]) >= 0) {
      out += static_cast<char>(hex(uri[i + 1]) * 16 + hex(uri[i + 2]));
      i += 2;
    } else {
      out += uri[i];
    }
  }
  return out;
}

std::string uri_of_path(const std::string &path) {
  if (path.empty() || path[0] != '/')
    return path;
  std::string out = "file://";
  for (unsigned char c : path)
    if (std::isalnum(c) || std::string_view("-._~/").find(static_cast<char>(c)) != std::string_view::npos) {
      out += static_cast<char>(c);
    } else {
      constexpr const char *digits = "0123456789ABCDEF";
      out += {'%', digits[c / 16], digits[c % 16]};
    }
  return out;
}

const std::vector<const FileSymbols *> &Server::prelude() {
  if (prelude_.empty())
    for (const EmbeddedFile &embedded : embedded::prelude()) {
      const FileSymbols *one = file(std::string(embedded.path), std::string(embedded.bytes));
      prelude_.push_back(one);
    }
  return prelude_;
}

const FileSymbols *Server::file(const std::string &path, const std::string &text) {
  auto &known = files_[path];
  if (known && known->second.text == text)
    return &known->second;
  // Documents whose symbols point to the old ones get new ones.
  if (known)
    for (auto &[uri, d] : documents_)
      d.symbols.reset();
  known = std::make_unique<std::pair<Sources, FileSymbols>>();
  FileSymbols &out = known->second;
  out.path = path;
  out.text = text;
  out.source = known->first.add(path, text);
  Diagnostics ignored(known->first);
  out.tree = syntax::parse(known->first, out.source, ignored);
  find_symbols(out);
  return &out;
}

const FileSymbols &Server::symbols(Document &document) {
  if (document.symbols)
    return *document.symbols;
  prelude();
  auto out = std::make_shared<FileSymbols>();
  document.sources = Sources();
  out->path = document.path;
  out->text = document.text.text();
  out->source = document.sources.add(document.path, out->text);
  Diagnostics ignored(document.sources);
  out->tree = syntax::parse(document.sources, out->source, ignored);
  out->prelude = prelude_;
  Texts texts = this->texts();
  for (const syntax::Declaration &d : out->tree.declarations)
    if (d.kind == syntax::Declaration::use)
      if (auto used = texts.used(document.path, d.name.text)) {
        const FileSymbols *other = file(used->first, used->second);
        for (const syntax::Name &name : d.names)
          out->imported[name.text] = other;
      }
  find_symbols(*out);
  document.symbols = std::move(out);
  return *document.symbols;
}

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

Json Server::range(const Text &text, int begin, int end) const {
  Place from = text.place(begin), to = text.place(end);
  return {{"start", {{"line", from.line}, {"character", from.column}}},
          {"end", {{"line", to.line}, {"character", to.column}}}};
}

Json Server::location(const FileSymbols &file, Span span) {
  std::string uri = uri_of(file);
  if (uri.empty())
    return nullptr;
  return {{"uri", uri}, {"range", range(Text(file.text), span.begin, span.end)}};
}

std::string Server::note_of(const Document &document, const FileSymbols &file, const Definition &definition) const {
  auto found = document.analysis.notes.find({file.path, definition.qualified});
  return found == document.analysis.notes.end() ? "" : found->second;
}

} // namespace heddle::server
