// Troff with the macros of man(7): one section per command, one tagged paragraph per option.
#include "compiler/driver/manual.h"

#include <CLI/CLI.hpp>

#include <sstream>

namespace heddle {

/// Text of a line: hyphens that can be copied, no request at the line's begin.
static std::string troff(const std::string &text) {
  std::string out;
  for (char c : text) {
    if (out.empty() ? c == '.' || c == '\'' : out.back() == '\n' && (c == '.' || c == '\''))
      out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

static void write_option(std::ostream &out, const CLI::Option &option) {
  std::string names;
  for (const std::string &name : option.get_snames())
    names += (names.empty() ? "\\fB-" : ", \\fB-") + name + "\\fR";
  for (const std::string &name : option.get_lnames())
    names += (names.empty() ? "\\fB--" : ", \\fB--") + name + "\\fR";
  std::string value = option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
  if (option.get_items_expected_max() == 0)
    value.clear();
  if (size_t colon = value.find(':'); colon != value.npos && value.find('{') != value.npos)
    value = value.substr(colon + 1); // "TEXT:{a,b}": only what is allowed
  std::string tag = names;
  if (!value.empty())
    tag += (tag.empty() ? "\\fI" : " \\fI") + value + "\\fR";
  std::string hyphens;
  for (char c : tag)
    hyphens += c == '-' ? "\\-" : std::string(1, c);
  out << ".TP\n" << hyphens << "\n" << troff(option.get_description());
  if (!option.get_default_str().empty())
    out << " (default: " << troff(option.get_default_str()) << ")";
  out << "\n";
}

std::string manual_page(const CLI::App &app, const std::string &version) {
  std::ostringstream out;
  out << ".TH HEDDLE 1 \"\" \"" << troff(version) << "\" \"User Commands\"\n"
      << ".SH NAME\nheddle \\- compiles Transformer models to native libraries\n"
      << ".SH SYNOPSIS\n.B heddle\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n";
  for (char last = 0; char c : app.get_description()) { // an empty line is a paragraph
    out << (c == '\n' && last == '\n' ? ".PP\n" : c == '-' ? "\\-" : std::string(1, c));
    last = c;
  }
  out << "\n.SH OPTIONS\n";
  for (const CLI::Option *option : app.get_options())
    write_option(out, *option);
  out << ".SH COMMANDS\n";
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *sub) { return !sub->get_group().empty(); })) {
    out << ".SS heddle " << troff(command->get_name()) << "\n" << troff(command->get_description()) << ".\n";
    for (const CLI::Option *option : command->get_options())
      if (option->get_name() != "--help" && option->get_name() != "-h,--help")
        write_option(out, *option);
  }
  out << ".SH EXIT STATUS\n"
      << ".TP\n.B 0\nDone.\n"
      << ".TP\n.B 1\nOne message on standard error says what was wrong; results that existed before are untouched.\n"
      << ".TP\n.B 2\nWrong usage.\n"
      << ".TP\n.B 128 + n\nEnded by signal n.\n"
      << ".SH ENVIRONMENT\n"
      << ".TP\n.B NO_COLOR\nIf set, messages have no colours.\n"
      << ".TP\n.B TMPDIR\nWhere temporary files go.\n";
  return out.str();
}

} // namespace heddle
