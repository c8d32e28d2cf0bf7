#include "compiler/driver/usage.h"

#include "compiler/driver/library.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace heddle {

CLI::Validator numbers_from(double least, double most) {
  return CLI::Validator(
      [least, most](std::string &text) -> std::string {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == 0 && value >= least && std::isfinite(value) && (most <= least || value <= most))
          return "";
        auto plain = [](double number) { return std::to_string(int64_t(number)); };
        return "wants a number from " + plain(least) + (most > least ? " to " + plain(most) : " on") + ", not `" +
               text + "`";
      },
      "");
}

std::vector<std::string> words_from_the_last(int argc, char **argv) {
  std::vector<std::string> out;
  for (int i = argc - 1; i > 0; --i) {
    std::string word = argv[i];
    bool empty = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (empty) {
      out.push_back("");
      word.pop_back();
    }
    out.push_back(word);
  }
  return out;
}

std::string words_of(const CLI::App &app, const CLI::Error &error) {
  // A word that is missing is told before one that there is not; who wrote a wrong option wants to know of that.
  if (error.get_name() == "RequiredError" || error.get_exit_code() == int(CLI::ExitCodes::ExtrasError))
    for (const std::string &word : app.remaining(true))
      if (word.size() > 1 && word.starts_with('-'))
        return "there is no option `" + word.substr(0, word.find('=')) + "` here";
  std::string text = error.what();
  if (error.get_name() == "ArgumentMismatch")
    return text.substr(0, text.find(':')) +
           (text.find("At Most") == std::string::npos ? ": wants a value" : ": was given more than once");
  if (size_t at = text.find(" = "); error.get_name() == "ConversionError" && at != std::string::npos)
    return text.substr(text.find("--"), at - text.find("--")) + ": wants a number, not `" + text.substr(at + 3) + "`";
  return text;
}

std::string wrong_first_word(CLI::App &app, const std::string &word) {
  if (word.starts_with('-')) {
    std::string name = word.substr(0, word.find('='));
    return app.get_option_no_throw(name) ? "" : "`" + name + "` stands where the command must be";
  }
  std::vector<CLI::App *> all = app.get_subcommands([](CLI::App *) { return true; });
  bool known = std::any_of(all.begin(), all.end(), [&](CLI::App *command) { return command->get_name() == word; });
  return known ? "" : "there is no command `" + word + "`";
}

std::string empty_option(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && option->get_items_expected_max() > 0)
      for (const std::string &value : option->results())
        if (value.empty())
          return option->get_positional() ? option->get_name(true) : option->get_name();
  for (const CLI::App *command : app.get_subcommands())
    if (std::string name = empty_option(*command); !name.empty())
      return name;
  return "";
}

void LibraryOptions::take(const CLI::App *command, const std::string &path, std::vector<std::string> options) {
  commands_[command] = {&path, std::move(options)};
}

std::string LibraryOptions::wrong() const {
  for (const auto &[command, taken] : commands_) {
    if (!command->parsed() || !is_artifact(*taken.path))
      continue;
    std::vector<std::string> wrong;
    for (const CLI::Option *option : command->get_options()) {
      bool of_library = std::count(taken.options.begin(), taken.options.end(), option->get_name());
      if (option->count() > 0 && !option->get_positional() && !of_library)
        wrong.push_back(option->get_name());
    }
    if (wrong.empty())
      return "";
    std::string names = wrong.front();
    for (size_t i = 1; i < wrong.size(); ++i)
      names += (i + 1 < wrong.size() ? ", " : " and ") + wrong[i];
    return names + (wrong.size() == 1 ? " says" : " say") + " something of a model's source, and " + *taken.path +
           " is a compiled library; give the .heddle file or the Hugging Face folder";
  }
  return "";
}

} // namespace heddle
