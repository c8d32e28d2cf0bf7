// What is wrong with the words of a command line, said as what is wanted: CLI11's own words often say what it did.
#pragma once

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

namespace heddle {

/// Numbers from `least` to `most`, neither of which is NaN; without a `most` any that are finite.
CLI::Validator numbers_from(double least, double most = 0);

/// The words of a command line from the last to the first, as CLI11 takes them. Of `--name=` it would take the next
/// word for the value.
std::vector<std::string> words_from_the_last(int argc, char **argv);

/// What CLI11 has found wrong with the command's words.
std::string words_of(const CLI::App &app, const CLI::Error &error);

/// What is to be said of the first word, for which CLI11 would only say that a command is missing; "": nothing.
std::string wrong_first_word(CLI::App &app, const std::string &word);

/// An option that was given without a value, as `-o "$UNSET"` does; "" where there is none.
std::string empty_option(const CLI::App &app);

/// Commands that take a model or a compiled library, and the options that say something of a library.
class LibraryOptions {
public:
  /// `path` is filled by the command line.
  void take(const CLI::App *command, const std::string &path, std::vector<std::string> options);
  /// What is to be said where a library was given, and options that say something of a model's source; "": nothing.
  std::string wrong() const;

private:
  struct Taken {
    const std::string *path;
    std::vector<std::string> options;
  };
  std::map<const CLI::App *, Taken> commands_;
};

} // namespace heddle
