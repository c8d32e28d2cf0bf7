// `use`: each file is read once, by whatever ways it is used. A circle is found by the list of the files that are being
// read, each of them used by the one before it.
#include "dsl/check/elaborate.h"
#include "dsl/syntax/parser.h"

#include <algorithm>

namespace heddle::checking {

static constexpr size_t deepest_use = 64;

/// "attention.heddle" of "models/bert/attention.heddle".
static std::string file_name(const std::string &path) { return path.substr(path.rfind('/') + 1); }

FileScope *Elaborator::used_file(const syntax::Name &name) {
  if (auto known = used_files_.find(name.text); known != used_files_.end())
    return known->second;
  int number = options_.find_file ? options_.find_file(name.text) : -1;
  if (number < 0) {
    report(Code::E055, name.span, {"there is no file `" + name.text + ".heddle`", "it is looked for beside this file"});
    return nullptr;
  }
  auto same = std::find_if(loading_.begin(), loading_.end(), [&](const FileScope *file) {
    return sources_.path(file->tree->source) == sources_.path(number);
  });
  if (same != loading_.end()) {
    std::string circle, own = "`" + name.text + ".heddle`";
    for (auto file = same + 1; file != loading_.end(); ++file)
      circle += ", which uses `" + file_name(sources_.path((*file)->tree->source)) + "`";
    if (circle.empty())
      report(Code::E055, name.span, {own + " uses itself", "leave this out: a file has its own functions and modules"});
    else
      report(Code::E055, name.span,
             {"this closes a circle: " + own + circle + ", which uses " + own,
              "move what both need to a file that uses neither"});
    return *same; // what it declares is known: no message about its names follows
  }
  if (loading_.size() >= deepest_use) {
    report(Code::E055, name.span,
           {"more than " + std::to_string(deepest_use) + " files use one another in a row", "use fewer files"});
    return nullptr;
  }
  trees_.push_back(syntax::parse(sources_, number, messages_.diagnostics()));
  return used_files_[name.text] = load(trees_.back(), false);
}

} // namespace heddle::checking
