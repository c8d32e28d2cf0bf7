// What the language itself brings, for editors: built-in functions and a line of help for words.
#pragma once

#include <string>
#include <vector>

namespace heddle::server {

struct BuiltIn {
  std::string name;
  int arguments;
};
const std::vector<BuiltIn> &builtin_functions();

/// What a word of the language means: reducers, built-in functions, types, keywords. Empty: none.
std::string word_help(const std::string &word);

} // namespace heddle::server
