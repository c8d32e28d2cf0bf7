// Helpers of these tests: text in, checked program or rendered messages out.
#pragma once

#include "dsl/check/check.h"
#include "dsl/check/verify.h"
#include "dsl/syntax/parser.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace heddle::tests {

struct Checked {
  std::unique_ptr<Sources> sources = std::make_unique<Sources>();
  std::unique_ptr<Program> program;
  std::string messages; // rendered; empty where there are none
};

/// `files`: what `use NAME` finds, by name.
inline Checked check_text(const std::string &text, CheckOptions options = {},
                          const std::map<std::string, std::string> &files = {}, const std::string &path = "m.heddle") {
  Checked out;
  int number = out.sources->add(path, text);
  Diagnostics diagnostics(*out.sources);
  syntax::File tree = syntax::parse(*out.sources, number, diagnostics);
  options.find_file = [&](const std::string &name) {
    auto found = files.find(name);
    return found == files.end() ? -1 : out.sources->add(name + ".heddle", found->second);
  };
  out.program = check(*out.sources, tree, options, diagnostics);
  out.messages = diagnostics.render(100);
  if (out.program)
    out.messages += verify(*out.program);
  return out;
}

/// The messages, or the whole text of the program.
inline std::string text_of(const std::string &text, CheckOptions options = {},
                           const std::map<std::string, std::string> &files = {}) {
  Checked checked = check_text(text, std::move(options), files);
  return checked.messages + (checked.program ? to_text(*checked.program) : "");
}

inline std::string read_file(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// What `use` finds in a folder.
inline std::map<std::string, std::string> files_beside(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".heddle")
      files[entry.path().stem()] = read_file(entry.path());
  return files;
}

inline Value value_of(const std::string &text) {
  if (text == "true" || text == "false")
    return {text == "true"};
  if (text.find_first_not_of("-0123456789") == std::string::npos)
    return {int64_t(std::stoll(text))};
  if (text.find_first_not_of("-+.e0123456789") == std::string::npos)
    return {std::stod(text)};
  return {text};
}

} // namespace heddle::tests
