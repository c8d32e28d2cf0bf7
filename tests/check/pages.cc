// The pages of `heddle explain`: the example gives exactly the message that the page shows, the right way none.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

namespace heddle::tests {
namespace {

/// The blocks between ``` lines, in order.
std::vector<std::string> blocks_of(const std::string &page) {
  std::vector<std::string> blocks;
  std::istringstream in(page);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside)
        blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

/// Settings that a page says the command was given.
std::map<std::string, Value> settings_of(const std::string &page) {
  std::map<std::string, Value> settings;
  if (size_t at = page.find("`--set "); at != std::string::npos && page.find('=', at) < page.find('`', at + 1)) {
    std::string text = page.substr(at + 7, page.find('`', at + 1) - at - 7);
    settings[text.substr(0, text.find('='))] = value_of(text.substr(text.find('=') + 1));
  }
  return settings;
}

TEST(Pages, EveryExampleGivesItsMessageAndEveryCureWorks) {
  int pages = 0;
  const std::vector<Code> codes = {
#define HEDDLE_ERROR(code, severity, message, help) Code::code,
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
  };
  for (Code code : codes) {
    std::string page(explanation(code)), name = code_name(code);
    bool of_the_checker = (name >= "E020" && name != "E079") || name[0] == 'W';
    if (!of_the_checker)
      continue;
    ++pages;
    std::vector<std::string> blocks = blocks_of(page);
    ASSERT_EQ(blocks.size(), 3u) << name << ": a wrong program, its message, a right program";
    CheckOptions options;
    // The last `--set` of the text: the ones before it explain the option.
    std::string text = page.substr(0, page.find("```"));
    if (size_t given = text.rfind("was given `--set "); given != std::string::npos)
      options.settings.by_name = settings_of(text.substr(given));
    EXPECT_EQ(check_text(blocks[0], options, {}, "model.heddle").messages, blocks[1]) << name;
    Checked right = check_text(blocks[2], {}, {}, "model.heddle");
    EXPECT_NE(right.program, nullptr) << name;
    EXPECT_EQ(right.messages, "") << name;
  }
  EXPECT_GE(pages, 50);
}

} // namespace
} // namespace heddle::tests
