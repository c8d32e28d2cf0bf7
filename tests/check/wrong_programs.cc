// Wrong programs and the whole of what their authors read. The table is wrong_programs.txt: a case is
//   === title | SETTING=VALUE ...
//   program
//   --- expected
//   messages
#include "tests/check/checked.h"

#include <gtest/gtest.h>

#include <set>

namespace heddle::tests {
namespace {

struct Case {
  std::string title, text, expected;
  CheckOptions options;
};

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  std::istringstream in(read_file(HEDDLE_SOURCE_DIR "/tests/check/wrong_programs.txt"));
  std::string *to = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== ")) {
      Case &c = cases.emplace_back();
      c.title = line.substr(4);
      if (size_t bar = c.title.find(" | "); bar != std::string::npos) {
        std::istringstream settings(c.title.substr(bar + 3));
        for (std::string s; settings >> s;)
          c.options.settings.by_name[s.substr(0, s.find('='))] = value_of(s.substr(s.find('=') + 1));
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

TEST(WrongPrograms, EachGetsExactlyItsMessages) {
  std::vector<Case> cases = read_cases();
  EXPECT_GE(cases.size(), 60u);
  for (const Case &c : cases) {
    Checked checked = check_text(c.text, c.options);
    EXPECT_EQ(checked.messages, c.expected) << c.title;
    EXPECT_EQ(checked.program, nullptr) << c.title;
  }
}

/// Codes that no text can bring out: E079 answers for mistakes of the checker itself.
const std::set<std::string> unreachable = {"E079"};

TEST(WrongPrograms, EveryCodeOfTheCheckerHasACase) {
  std::string all;
  for (const Case &c : read_cases())
    all += c.expected;
  const std::vector<std::string> codes = {
#define HEDDLE_ERROR(code, severity, message, help) #code,
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
  };
  for (const std::string &code : codes)
    if (code >= "E020" && code <= "E080" && !unreachable.count(code))
      EXPECT_NE(all.find("[" + code + "]"), std::string::npos) << code << " has no case in wrong_programs.txt";
}

TEST(WrongPrograms, EveryCodeHasItsPage) {
  const std::vector<Code> codes = {
#define HEDDLE_ERROR(code, severity, message, help) Code::code,
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
  };
  for (Code code : codes)
    EXPECT_GT(explanation(code).size(), 80u) << code_name(code);
}

TEST(WrongPrograms, WarningsDoNotStopAProgram) {
  Checked checked = check_text("config D = 3, F = 4\n"
                               "model M { param w: real[D] entry run(x: real[D]) -> y: real[D] { return x } }\n");
  EXPECT_NE(checked.program, nullptr);
  EXPECT_EQ(checked.messages,
            "m.heddle:1:15: warning[W101]: setting `F` is never used\n"
            "  1 | config D = 3, F = 4\n"
            "    |               ^\n"
            "  help: remove it                                                     heddle explain W101\n"
            "m.heddle:2:17: warning[W102]: weight `w` is never used\n"
            "  2 | model M { param w: real[D] entry run(x: real[D]) -> y: real[D] { return x } }\n"
            "    |                 ^\n"
            "  help: remove it                                                     heddle explain W102\n");
}

} // namespace
} // namespace heddle::tests
