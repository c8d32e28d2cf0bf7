// The files that an editor's question may concern: as they are in the editor, over those on the disk, over those that
// the program carries inside.
#pragma once

#include "dsl/check/check.h"
#include "dsl/errors/result.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle::server {

/// What the server asks of the program that it lives in.
struct Hooks {
  /// A file's text.
  std::function<std::optional<std::string>(const std::string &path)> read_text;
  /// The model files of a folder, and those of the folders below it, too.
  std::function<std::vector<std::string>(const std::string &folder)> files_in, files_below;
  /// Path and text of a model that `use NAME` finds where no file of that name stands beside the document.
  std::function<std::optional<std::pair<std::string, std::string>>(const std::string &name)> carried_model;
  /// The values of a config.json.
  std::function<Result<std::map<std::string, Value>>(const std::string &path)> read_config;
  /// Where a file that the program carries inside (of the prelude) can be opened; empty: nowhere.
  std::function<std::string(const std::string &path, const std::string &text)> place_of_carried;
};

class Texts {
public:
  using Open = std::map<std::string, std::shared_ptr<const std::string>>; // by path

  Texts(const Hooks &hooks, Open open) : hooks_(&hooks), open_(std::move(open)) {}
  std::optional<std::string> read(const std::string &path) const;
  /// The file that `use NAME` of the file at `from` means: its path and text.
  std::optional<std::pair<std::string, std::string>> used(const std::string &from, const std::string &name) const;
  /// The settings beside a file: its config.json. Absent: none. An unreadable one is said in `error`.
  std::map<std::string, Value> config(const std::string &path, std::string &error) const;
  /// The model files of the folder that `path` lies in, itself included: only they can `use` it.
  std::vector<std::string> beside(const std::string &path) const;
  /// The model files of these folders and below them, and all open ones.
  std::vector<std::string> below(const std::vector<std::string> &folders) const;
  /// The same with another text for one file.
  Texts with(const std::string &path, std::string text) const;

private:
  const Hooks *hooks_;
  Open open_;
};

/// The folder of a path.
std::string folder_of(const std::string &path);

} // namespace heddle::server
