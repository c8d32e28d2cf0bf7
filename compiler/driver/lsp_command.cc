// `lsp`: the language server on standard input and output, with the files that it may ask for.
#include "compiler/driver/commands.h"

#include "compiler/io/output.h"
#include "compiler/version.h"
#include "dsl/server/server.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace heddle {

namespace fs = std::filesystem;

static std::optional<std::string> read_text(const std::string &path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored))
    return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? std::optional(text.str()) : std::nullopt;
}

/// A file that is carried inside this program, for an editor to open: written once into the user's cache.
static std::string place_of_carried(const std::string &path, const std::string &text) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::string folder = cache && *cache == '/' ? cache : home && *home == '/' ? std::string(home) + "/.cache" : "";
  if (folder.empty())
    return "";
  fs::path place = fs::path(folder) / "heddle" / version / path;
  if (read_text(place.string()) == text)
    return place.string();
  std::error_code failed;
  fs::create_directories(place.parent_path(), failed);
  return !failed && write_file(place.string(), text) ? place.string() : "";
}

Status lsp_command() {
  server::Hooks hooks;
  hooks.read_text = read_text;
  hooks.carried_model = [](const std::string &name) -> std::optional<std::pair<std::string, std::string>> {
    if (auto model = find_model(name))
      return std::pair(model->model_path, model->model_text);
    return std::nullopt;
  };
  hooks.read_config = read_config;
  hooks.place_of_carried = place_of_carried;
  int status = server::run_stdio(STDIN_FILENO, STDOUT_FILENO, std::move(hooks), version);
  // The thread that reads may still wait for a client that is gone.
  std::fflush(stdout);
  _exit(status);
}

} // namespace heddle
