// A file is parsed when its text is another one; names are resolved anew when any text is, which costs less than to
// know what depends on what.
#include "dsl/server/files.h"

#include "dsl/syntax/parser.h"

#include "embedded/prelude.h"

namespace heddle::server {

void Files::set(Texts texts) {
  texts_ = std::move(texts);
  ++state_;
}

static void parse(Sources &sources, FileSymbols &out, const std::string &path, const std::string &text) {
  sources = Sources();
  out = FileSymbols();
  out.path = path;
  out.text = text;
  out.source = sources.add(path, text);
  Diagnostics diagnostics(sources);
  out.tree = syntax::parse(sources, out.source, diagnostics);
  out.whole = !diagnostics.has_errors();
  declare_symbols(out);
}

const std::vector<const FileSymbols *> &Files::prelude() {
  if (!prelude_.empty())
    return prelude_;
  for (const EmbeddedFile &embedded : embedded::prelude()) {
    File &file = *prelude_files_.emplace_back(std::make_unique<File>());
    parse(file.sources, file.symbols, std::string(embedded.path), std::string(embedded.bytes));
    prelude_.push_back(&file.symbols);
  }
  for (auto &file : prelude_files_) {
    file->symbols.prelude = prelude_;
    resolve_uses(file->symbols);
  }
  return prelude_;
}

Files::File &Files::parsed(const std::string &path, const std::string &text) {
  std::unique_ptr<File> &known = files_[path];
  if (known && known->joined == state_)
    return *known; // others point to it, and the texts are still those
  if (!known || known->symbols.text != text) {
    known = std::make_unique<File>();
    parse(known->sources, known->symbols, path, text);
  }
  return *known;
}

void Files::join(File &first) {
  std::vector<File *> left = {&first};
  while (!left.empty()) {
    File &file = *left.back();
    left.pop_back();
    if (file.joined == state_)
      continue;
    file.joined = state_;
    file.symbols.prelude = prelude();
    file.symbols.imported.clear();
    for (const syntax::Declaration &d : file.symbols.tree.declarations) {
      if (d.kind != syntax::Declaration::use)
        continue;
      auto used = texts_.used(file.symbols.path, d.name.text);
      if (!used)
        continue;
      File &other = parsed(used->first, used->second);
      for (const syntax::Name &name : d.names)
        file.symbols.imported[name.text] = &other.symbols;
      left.push_back(&other);
    }
  }
}

const FileSymbols *Files::find(const std::string &path) {
  auto known = files_.find(path);
  if (known == files_.end() || known->second->joined != state_) {
    auto text = texts_.read(path);
    if (!text)
      return nullptr;
    join(parsed(path, *text));
    known = files_.find(path);
  }
  File &file = *known->second;
  if (file.resolved != state_) {
    file.resolved = state_;
    resolve_uses(file.symbols);
  }
  return &file.symbols;
}

const FileSymbols *Files::declared(const std::string &path) {
  auto text = texts_.read(path);
  return text ? &parsed(path, *text).symbols : nullptr;
}

const FileSymbols *Files::used(const std::string &from, const std::string &name) {
  auto used = texts_.used(from, name);
  if (!used)
    return nullptr;
  return &parsed(used->first, used->second).symbols;
}

} // namespace heddle::server
