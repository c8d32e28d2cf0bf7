// Tree to checked program: names, types, sizes, index ranges, proven reads (docs/language.md, rules 1 to 10).
#pragma once

#include "dsl/check/program.h"
#include "dsl/errors/diagnostics.h"
#include "dsl/syntax/tree.h"

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace heddle {

using Value = SettingValue;

/// Given configuration values. `by_name` has been asked for on the command line, by config name or key: one
/// that no config takes is an error. `by_key` comes from a config.json: what no config takes is ignored.
struct Settings {
  std::map<std::string, Value> by_name;
  std::map<std::string, Value> by_key;
};

struct CheckOptions {
  Settings settings;
  /// Whether a tensor of that name is in the weights file: chooses between alternative names
  /// (`as "bert|"`). Without it the first alternative is taken.
  std::function<bool(const std::string &)> has_weight;
  /// Text of the file that `use NAME` asks for, as a number in Sources; -1 where there is none, `unreadable` for a
  /// folder, say.
  std::function<int(const std::string &name)> find_file;
  static constexpr int unreadable = -2;
  /// Whether also places of definitions that nothing reads are computed, as a witness for what leaves them out.
  bool every_place = false;
  /// For editors: called with what the name at a place stands for, such as "f32[B, S, D = 768]". `what` makes the text;
  /// a place comes again for every call and iteration that passes it.
  std::function<void(Span at, const std::function<std::string()> &what)> note;
};

/// Checks the model of `file` (its last `model`) together with the prelude; where parts of the text could not be read,
/// the rest of it, of which nothing is said that those parts might put right. Returns null when something
/// was reported as an error.
std::unique_ptr<Program> check(Sources &sources, const syntax::File &file, const CheckOptions &options,
                               Diagnostics &diagnostics);

/// Whether a place lies in the prelude, no file of the user's.
bool is_in_prelude(const Sources &sources, Span place);

/// The program as text, one line per stage: `heddle show --stage tree` and the tests.
std::string to_text(const Program &program);

} // namespace heddle
