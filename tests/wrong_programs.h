// Tables of wrong programs with the whole of what their authors read. A case is
//   === title | SETTING=VALUE ...
//   program
//   --- expected
//   messages
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace heddle::tests {

struct WrongProgram {
  std::string title, text, expected;
  std::vector<std::string> settings; // NAME=VALUE
};

inline std::vector<WrongProgram> read_wrong_programs(const std::string &path) {
  std::vector<WrongProgram> cases;
  std::ifstream in(path);
  std::string *to = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== ")) {
      WrongProgram &c = cases.emplace_back();
      c.title = line.substr(4);
      if (size_t bar = c.title.find(" | "); bar != std::string::npos) {
        std::istringstream settings(c.title.substr(bar + 3));
        for (std::string s; settings >> s;)
          c.settings.push_back(s);
      }
      to = &c.text;
    } else if (line == "--- expected") {
      to = &cases.back().expected;
    } else if (to) {
      *to += line + "\n";
    }
  }
  return cases;
}

} // namespace heddle::tests
