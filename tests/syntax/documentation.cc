// The programs in docs/ and on the pages of the messages are read as they stand there.
#include "dsl/syntax/parser.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace heddle {
namespace {

std::vector<std::string> programs_of(const std::filesystem::path &path) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> out;
  const std::string fence = "```heddle\n";
  for (size_t at = 0; (at = text.find(fence, at)) != std::string::npos;) {
    at += fence.size();
    out.push_back(text.substr(at, text.find("```", at) - at));
  }
  return out;
}

TEST(Documentation, has_programs_that_are_read_without_a_message) {
  std::filesystem::path root = HEDDLE_SOURCE_DIR;
  std::vector<std::filesystem::path> pages;
  for (const auto &entry : std::filesystem::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md")
      pages.push_back(entry.path());
  // The pages of syntax show wrong programs; those of all other messages are right as far as syntax goes.
  for (const auto &entry : std::filesystem::directory_iterator(root / "dsl/errors"))
    if (entry.path().extension() == ".md" && entry.path().filename().string() > "E020")
      pages.push_back(entry.path());
  size_t count = 0;
  for (const std::filesystem::path &page : pages)
    for (const std::string &program : programs_of(page)) {
      Sources sources;
      Diagnostics diagnostics(sources);
      syntax::parse(sources, sources.add(page.filename().string(), program), diagnostics);
      EXPECT_EQ(diagnostics.render(), "") << page;
      ++count;
    }
  EXPECT_GE(count, 100u);
}

} // namespace
} // namespace heddle
