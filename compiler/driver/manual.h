// What is made from the command's own table of words and options, so that it can't lag behind `--help`: completion for
// shells and a manual page.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace heddle {

/// The values that an option or positional word takes, by its name ("--target"); those that CLI11 checks it knows
/// itself.
using KnownValues = std::map<std::string, std::vector<std::string>>;

/// A script for `shell`: bash, zsh or fish.
std::string shell_completion(const CLI::App &app, const std::string &shell, const KnownValues &values);

/// heddle(1), for `man`.
std::string manual_page(const CLI::App &app, const std::string &version);

} // namespace heddle
