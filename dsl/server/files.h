// The symbols of all files concerned, joined to each other through `use`: of the documents, of what they use, of the
// prelude. They are made when first asked for and again when a text has changed.
#pragma once

#include "dsl/server/symbols.h"
#include "dsl/server/texts.h"

namespace heddle::server {

class Files {
public:
  explicit Files(Texts texts) : texts_(std::move(texts)) {}

  /// From now on the texts are these. Symbols found before are none any more.
  void set(Texts texts);
  const Texts &texts() const { return texts_; }

  /// Null where there is no such file.
  const FileSymbols *find(const std::string &path);
  /// The same, but what the file declares only.
  const FileSymbols *declared(const std::string &path);
  /// The file that `use NAME` in `from` means, what it declares only; null: none.
  const FileSymbols *used(const std::string &from, const std::string &name);
  const std::vector<const FileSymbols *> &prelude();

private:
  struct File {
    Sources sources;
    FileSymbols symbols;
    int joined = -1, resolved = -1; // at which state of the texts
  };
  File &parsed(const std::string &path, const std::string &text);
  /// Declares and joins what the file reaches through `use`, itself included; cycles end.
  void join(File &file);

  Texts texts_;
  int state_ = 0;
  std::map<std::string, std::unique_ptr<File>> files_; // by path
  std::vector<std::unique_ptr<File>> prelude_files_;
  std::vector<const FileSymbols *> prelude_;
};

} // namespace heddle::server
