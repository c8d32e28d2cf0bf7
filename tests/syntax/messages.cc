// Wrong programs of each part of the grammar, in messages/*.txt, with their messages as the author sees them: whole,
// with place, source line and cure. Each error has one message, and what follows it is still read.
#include "dsl/syntax/parser.h"
#include "tests/wrong_programs.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

class Messages : public testing::TestWithParam<const char *> {};

TEST_P(Messages, are_the_ones_expected) {
  auto cases =
      tests::read_wrong_programs(std::string(HEDDLE_SOURCE_DIR "/tests/syntax/messages/") + GetParam() + ".txt");
  EXPECT_GE(cases.size(), 15u);
  for (const tests::WrongProgram &c : cases) {
    Sources sources;
    int file = sources.add("model.heddle", c.text);
    Diagnostics diagnostics(sources);
    syntax::parse(sources, file, diagnostics);
    EXPECT_EQ(diagnostics.render(), c.expected) << c.title;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Messages,
                         testing::Values("words", "structure", "declarations", "types_and_places", "statements",
                                         "expressions"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace heddle
