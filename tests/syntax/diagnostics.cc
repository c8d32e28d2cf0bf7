// Messages as text: places, source lines, carets, limits; and the pages behind `heddle explain`.
#include "dsl/errors/diagnostics.h"

#include "dsl/syntax/parser.h"
#include "embedded/error_pages.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

/// The message E001 about `part` of `text`, rendered.
std::string about(const std::string &text, const std::string &part, const std::string &label = "") {
  Sources sources;
  int file = sources.add("m.heddle", text);
  Diagnostics diagnostics(sources);
  int begin = static_cast<int>(text.find(part));
  diagnostics.report(Code::E001, {file, begin, begin + static_cast<int>(part.size())}, {"This", "cure"}).label = label;
  return diagnostics.render();
}

std::string padded(std::string help, const std::string &code = "E001") {
  help.resize(std::max<size_t>(help.size() + 2, 70), ' ');
  return help + "heddle explain " + code + "\n";
}
const std::string cure = padded("  help: cure");

TEST(Rendering, a_message_has_place_line_caret_label_cure_and_a_hint) {
  EXPECT_EQ(about("let a = 1\nlet b = c[j - T]\n", "j - T", "goes from -T to -1"),
            "m.heddle:2:11: error[E001]: This has no meaning here\n"
            "  2 | let b = c[j - T]\n"
            "    |           ^^^^^ goes from -T to -1\n" +
                cure);
}

TEST(Rendering, the_gutter_is_as_wide_as_the_line_number) {
  EXPECT_EQ(about(std::string(99, '\n') + "abc", "b"), "m.heddle:100:2: error[E001]: This has no meaning here\n"
                                                       "  100 | abc\n"
                                                       "      |  ^\n" +
                                                           cure);
}

TEST(Rendering, a_long_cure_pushes_the_hint_away) {
  Sources sources;
  int file = sources.add("m.heddle", "abc");
  Diagnostics diagnostics(sources);
  diagnostics.report(Code::E001, {file, 0, 1}, {"This", std::string(70, 'x')});
  EXPECT_EQ(diagnostics.render(), "m.heddle:1:1: error[E001]: This has no meaning here\n  1 | abc\n    | ^\n  help: " +
                                      std::string(70, 'x') + "  heddle explain E001\n");
}

TEST(Rendering, without_a_cure_the_hint_stands_alone) {
  Sources sources;
  int file = sources.add("m.heddle", "abc");
  Diagnostics diagnostics(sources);
  diagnostics.report(Code::E004, {file, 0, 1}, {"`x`", "`a`"});
  EXPECT_EQ(diagnostics.render(),
            "m.heddle:1:1: error[E004]: expected `x`, found `a`\n  1 | abc\n    | ^\n  heddle explain E004\n");
}

TEST(Rendering, without_a_place_only_message_and_cure_are_shown) {
  Sources sources;
  Diagnostics diagnostics(sources);
  diagnostics.report(Code::E001, {}, {"This", "cure"});
  EXPECT_EQ(diagnostics.render(), "error[E001]: This has no meaning here\n" + cure);
}

TEST(Rendering, tabs_become_blanks_under_which_the_caret_still_stands_right) {
  EXPECT_EQ(about("\tlet a\t= b\n", "b"), "m.heddle:1:10: error[E001]: This has no meaning here\n"
                                          "  1 |     let a   = b\n"
                                          "    |               ^\n" +
                                              cure);
}

TEST(Rendering, a_character_of_several_bytes_takes_one_column) {
  EXPECT_EQ(about("let é = \"ü\" + b\n", "b"), "m.heddle:1:17: error[E001]: This has no meaning here\n"
                                               "  1 | let é = \"ü\" + b\n"
                                               "    |               ^\n" +
                                                   cure);
  EXPECT_EQ(about("let é = 1\n", "é"), "m.heddle:1:5: error[E001]: This has no meaning here\n"
                                       "  1 | let é = 1\n"
                                       "    |     ^\n" +
                                           cure);
}

TEST(Rendering, bytes_that_are_no_text_are_replaced) {
  EXPECT_EQ(about("a\xff\xc3 b\x1b[31m\x7f", "b"), "m.heddle:1:5: error[E001]: This has no meaning here\n"
                                                   "  1 | a?? b?[31m?\n"
                                                   "    |     ^\n" +
                                                       cure);
}

TEST(Rendering, a_span_of_several_lines_is_marked_on_its_first) {
  EXPECT_EQ(about("let a = b +\n  c\n", "b +\n  c"), "m.heddle:1:9: error[E001]: This has no meaning here\n"
                                                     "  1 | let a = b +\n"
                                                     "    |         ^^^\n" +
                                                         cure);
}

TEST(Rendering, an_empty_span_has_one_caret_also_behind_the_last_character) {
  Sources sources;
  int file = sources.add("m.heddle", "abc\r\n");
  Diagnostics diagnostics(sources);
  diagnostics.report(Code::E001, {file, 3, 3}, {"This", "cure"});
  EXPECT_EQ(diagnostics.render(),
            "m.heddle:1:4: error[E001]: This has no meaning here\n  1 | abc\n    |    ^\n" + cure);
}

TEST(Rendering, of_a_very_long_line_the_part_around_the_mark_is_shown) {
  EXPECT_EQ(about(std::string(500, 'a') + "B" + std::string(500, 'c'), "B"),
            "m.heddle:1:501: error[E001]: This has no meaning here\n"
            "  1 | …" +
                std::string(79, 'a') + "B" + std::string(78, 'c') + "…\n" + "    | " + std::string(80, ' ') + "^\n" +
                cure);
}

TEST(Collecting, messages_come_in_the_order_of_their_places_and_repeats_are_dropped) {
  Sources sources;
  int file = sources.add("m.heddle", "abc");
  Diagnostics diagnostics(sources);
  diagnostics.report(Code::E001, {file, 2, 3}, {"Second", "cure"});
  diagnostics.report(Code::E001, {file, 0, 1}, {"First", "cure"});
  diagnostics.report(Code::E001, {file, 2, 3}, {"Third", "cure"});
  EXPECT_EQ(diagnostics.all().size(), 2u);
  std::string text = diagnostics.render();
  EXPECT_LT(text.find("First"), text.find("Second"));
  EXPECT_EQ(text.find("Third"), std::string::npos);
}

TEST(Collecting, ten_messages_are_shown_and_the_rest_counted) {
  Sources sources;
  int file = sources.add("m.heddle", std::string(20, 'a'));
  Diagnostics diagnostics(sources);
  EXPECT_FALSE(diagnostics.has_errors());
  for (int i = 0; i < 11; ++i)
    diagnostics.report(Code::E001, {file, i, i + 1}, {"This", "cure"});
  EXPECT_TRUE(diagnostics.has_errors());
  EXPECT_TRUE(diagnostics.render().ends_with("and 1 more message\n"));
  diagnostics.report(Code::E001, {file, 12, 13}, {"This", "cure"});
  EXPECT_TRUE(diagnostics.render().ends_with("and 2 more messages\n"));
  EXPECT_EQ(diagnostics.render(12).find("more"), std::string::npos);
}

TEST(Codes, have_names) {
  EXPECT_EQ(code_name(Code::E001), "E001");
  EXPECT_EQ(find_code("E004"), Code::E004);
  EXPECT_FALSE(find_code("E000"));
  EXPECT_FALSE(find_code(""));
}

TEST(Codes, each_has_a_page_that_begins_with_it_and_each_page_a_code) {
  const char *codes[] = {
#define HEDDLE_ERROR(code, severity, message, help) #code,
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
  };
  for (std::string name : codes)
    EXPECT_TRUE(explanation(find_code(name).value()).starts_with("# " + name + ": ")) << name;
  EXPECT_EQ(embedded::error_pages().size(), std::size(codes));
}

/// The text of the `number`th block between fences.
std::string block_of(std::string_view page, int number) {
  size_t begin = 0, end = 0;
  for (int i = 0; i <= number; ++i) {
    begin = page.find("```", i == 0 ? 0 : end + 3);
    if (begin == std::string_view::npos)
      return "";
    begin = page.find('\n', begin) + 1;
    end = page.find("```", begin);
  }
  return std::string(page.substr(begin, end - begin));
}

TEST(Codes, the_pages_of_syntax_show_a_wrong_program_its_messages_and_a_right_one) {
  for (int i = 1; i <= 19; ++i) {
    std::string name = i < 10 ? "E00" + std::to_string(i) : "E0" + std::to_string(i);
    std::string_view page = explanation(find_code(name).value());
    Sources sources;
    Diagnostics diagnostics(sources);
    syntax::parse(sources, sources.add("model.heddle", block_of(page, 0)), diagnostics);
    EXPECT_EQ(diagnostics.render(), block_of(page, 1)) << name;
    EXPECT_NE(diagnostics.render().find("error[" + name + "]"), std::string::npos);
    Diagnostics none(sources);
    syntax::parse(sources, sources.add("right.heddle", block_of(page, 2)), none);
    EXPECT_EQ(none.render(), "") << name;
  }
}

} // namespace
} // namespace heddle
