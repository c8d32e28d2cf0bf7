// One check of a document for an editor: the messages with their places in every file concerned, and what each defined
// name turned out to be. Made from copies of all texts, so it may run beside the conversation.
#pragma once

#include "dsl/check/check.h"
#include "dsl/errors/result.h"
#include "dsl/server/symbols.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle::server {

/// What the server asks of the program that it lives in.
struct Hooks {
  /// A file's text.
  std::function<std::optional<std::string>(const std::string &path)> read_text;
  /// Path and text of a model that `use NAME` finds where no file of that name stands beside the document.
  std::function<std::optional<std::pair<std::string, std::string>>(const std::string &name)> carried_model;
  /// The values of a config.json.
  std::function<Result<std::map<std::string, Value>>(const std::string &path)> read_config;
  /// Where a file that the program carries inside (of the prelude) can be opened; empty: nowhere.
  std::function<std::string(const std::string &path, const std::string &text)> place_of_carried;
};

/// Texts as they are in the editor, over those on the disk.
class Texts {
public:
  Texts(const Hooks &hooks, std::map<std::string, std::string> open) : hooks_(hooks), open_(std::move(open)) {}
  std::optional<std::string> read(const std::string &path) const;
  /// The file that `use NAME` of the file at `from` means: its path and text.
  std::optional<std::pair<std::string, std::string>> used(const std::string &from, const std::string &name) const;
  /// The settings beside a file: its config.json. Absent: none. An unreadable one is said in `error`.
  std::map<std::string, Value> config(const std::string &path, std::string &error) const;

private:
  const Hooks &hooks_;
  std::map<std::string, std::string> open_;
};

struct Finding {
  std::string path; // of the file it is in
  int begin = 0, end = 0;
  Diagnostic diagnostic;
  std::string fix; // the text that cures it, in place of fix_begin .. fix_end; empty: none is known
  int fix_begin = 0, fix_end = 0;
};

struct Analysis {
  std::string path;
  int version = 0;
  std::vector<Finding> findings;
  std::string config_error;
  /// By file and qualified name of the definition: what it is. The first call or turn speaks for all.
  std::map<std::pair<std::string, std::string>, std::string> notes;
};

Analysis analyse(const std::string &path, const std::string &text, int version, const Texts &texts);

/// The folder of a path.
std::string folder_of(const std::string &path);

} // namespace heddle::server
