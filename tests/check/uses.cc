// Files that use one another: each is read once, and a circle gets one message.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

namespace heddle::tests {
namespace {

const std::string model = "model M { entry e(x: real[2]) -> y: real[2] { y[i] = f(x[i]) return y } }\n";

std::string help(const std::string &text) {
  std::string line = "  help: " + text;
  line.resize(std::max<size_t>(line.size() + 1, 70), ' ');
  return line + "heddle explain E055\n";
}

TEST(Uses, a_folder_in_place_of_a_file_is_there_but_cannot_be_read) {
  Sources sources;
  Diagnostics diagnostics(sources);
  int number = sources.add("m.heddle", "use part: f\nmodel M { entry run(x: real) -> y: real { return x } }");
  syntax::File tree = syntax::parse(sources, number, diagnostics);
  CheckOptions options;
  options.find_file = [](const std::string &) { return CheckOptions::unreadable; };
  check(sources, tree, options, diagnostics);
  EXPECT_EQ(diagnostics.render().substr(0, 75),
            "m.heddle:1:5: error[E055]: `part.heddle` beside this file cannot be read\n  ");
}

TEST(Uses, a_file_by_two_ways_is_read_once) {
  Checked checked = check_text("use a: f\nuse b: g\n" + model, {},
                               {{"a", "use c: h\nfn f(x: real) -> real = h(x)\n"},
                                {"b", "use c: h\nfn g(x: real) -> real = h(x)\n"},
                                {"c", "config N = 3\nfn h(x: real) -> real = x * N\n"}});
  EXPECT_EQ(checked.messages, "");
  EXPECT_NE(checked.program, nullptr);
}

TEST(Uses, a_file_that_uses_itself_is_told_once) {
  std::string text = "use m: f\nfn f(x: real) -> real = x\n" + model;
  Checked checked = check_text(text, {}, {{"m", text}});
  EXPECT_EQ(checked.messages, "m.heddle:1:5: error[E055]: `m.heddle` uses itself\n"
                              "  1 | use m: f\n"
                              "    |     ^\n" +
                                  help("leave this out: a file has its own functions and modules"));
  EXPECT_EQ(checked.program, nullptr);
}

TEST(Uses, a_circle_of_files_is_told_once_with_its_files) {
  std::map<std::string, std::string> files = {{"a", "use b: g\nfn f(x: real) -> real = g(x)\n"},
                                              {"b", "use a: f\nfn g(x: real) -> real = x\n"}};
  EXPECT_EQ(check_text("use a: f\n" + model, {}, files).messages,
            "b.heddle:1:5: error[E055]: this closes a circle: `a.heddle`, which uses `b.heddle`, which uses "
            "`a.heddle`\n"
            "  1 | use a: f\n"
            "    |     ^\n" +
                help("move what both need to a file that uses neither"));
  files["b"] = "use m: h\nfn g(x: real) -> real = x\n";
  std::string text = "use a: f\nfn h(x: real) -> real = x\n" + model;
  files["m"] = text;
  EXPECT_EQ(check_text(text, {}, files).messages,
            "b.heddle:1:5: error[E055]: this closes a circle: `m.heddle`, which uses `a.heddle`, which uses "
            "`b.heddle`, which uses `m.heddle`\n"
            "  1 | use m: h\n"
            "    |     ^\n" +
                help("move what both need to a file that uses neither"));
}

TEST(Uses, a_dim_of_two_files_has_the_smaller_of_their_bounds) {
  auto bound = [](const std::string &own, const std::string &used) {
    Checked checked =
        check_text("use a: f\n" + own + "\nmodel M { entry e(x: real[S]) -> y: real[S] { return f(x) } }\n", {},
                   {{"a", used + "\nfn f(x: real[S]) -> real[S] = x\n"}});
    EXPECT_EQ(checked.messages, "");
    return checked.program ? checked.program->dims.at(0).most : std::nullopt;
  };
  EXPECT_EQ(bound("dim S <= 8", "dim S"), 8);
  EXPECT_EQ(bound("dim S", "dim S <= 8"), 8);
  EXPECT_EQ(bound("dim S <= 8", "dim S <= 4"), 4);
  EXPECT_EQ(bound("dim S <= 4", "dim S <= 8"), 4);
  EXPECT_EQ(bound("dim S", "dim S"), std::nullopt);
}

TEST(Uses, a_row_of_files_has_an_end) {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 5000; ++i)
    files["a" + std::to_string(i)] = "use a" + std::to_string(i + 1) + ": f\nfn f(x: real) -> real = x\n";
  EXPECT_EQ(check_text("use a0: f\n" + model, {}, files).messages,
            "a62.heddle:1:5: error[E055]: more than 64 files use one another in a row\n"
            "  1 | use a63: f\n"
            "    |     ^^^\n" +
                help("use fewer files"));
}

} // namespace
} // namespace heddle::tests
