// Wrong programs and the whole of what their authors read: wrong_programs.txt.
#include "tests/wrong_programs.h"
#include "tests/check/checked.h"

#include <gtest/gtest.h>

#include <set>

namespace heddle::tests {
namespace {

constexpr const char *table = HEDDLE_SOURCE_DIR "/tests/check/wrong_programs.txt";

TEST(WrongPrograms, EachGetsExactlyItsMessages) {
  std::vector<WrongProgram> cases = read_wrong_programs(table);
  EXPECT_GE(cases.size(), 150u);
  for (const WrongProgram &c : cases) {
    CheckOptions options;
    for (const std::string &s : c.settings)
      options.settings.by_name[s.substr(0, s.find('='))] = value_of(s.substr(s.find('=') + 1));
    Checked checked = check_text(c.text, options);
    EXPECT_EQ(checked.messages, c.expected) << c.title;
    EXPECT_EQ(checked.program, nullptr) << c.title;
  }
}

/// Codes that no text can bring out: E079 answers for mistakes of the checker itself.
const std::set<std::string> unreachable = {"E079"};

TEST(WrongPrograms, EveryCodeOfTheCheckerHasACase) {
  std::string all;
  for (const WrongProgram &c : read_wrong_programs(table))
    all += c.expected;
  const std::vector<std::string> codes = {
#define HEDDLE_ERROR(code, severity, message, help) #code,
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
  };
  for (const std::string &code : codes)
    if (code >= "E020" && code < "W" && !unreachable.count(code))
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

TEST(Warnings, StopNothingAndSayWhatIsUnusedOrHidden) {
  std::string all;
  for (const WrongProgram &c : read_wrong_programs(HEDDLE_SOURCE_DIR "/tests/check/warnings.txt")) {
    Checked checked = check_text(c.text);
    EXPECT_EQ(checked.messages, c.expected) << c.title;
    EXPECT_NE(checked.program, nullptr) << c.title;
    all += c.expected;
  }
  for (const char *code : {"W101", "W102", "W103", "W104", "W105"})
    EXPECT_NE(all.find(code), std::string::npos) << code;
}

} // namespace
} // namespace heddle::tests
