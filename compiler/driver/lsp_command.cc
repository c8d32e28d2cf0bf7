// `lsp`: the language server on standard input and output, with the files that it may ask for.
#include "compiler/driver/commands.h"

#include "compiler/io/input.h"
#include "compiler/io/output.h"
#include "compiler/version.h"
#include "dsl/server/server.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace heddle {

namespace fs = std::filesystem;

static std::optional<std::string> read_text(const std::string &path) {
  auto text = read_file(path);
  return text ? std::optional(*text) : std::nullopt;
}

static bool is_model_file(const fs::directory_entry &entry) {
  std::error_code ignored;
  return entry.path().extension() == ".heddle" && entry.is_regular_file(ignored);
}

static std::vector<std::string> files_in(const std::string &folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (is_model_file(*at))
      out.push_back(at->path().string());
  return out;
}

/// Hidden folders and those of builds and packages are left out, and a workspace is read up to a size that still gives
/// an answer at once.
static std::vector<std::string> files_below(const std::string &folder) {
  constexpr int most_entries = 20000;
  std::vector<std::string> out;
  std::error_code failed;
  int entries = 0;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failed), end;
       !failed && at != end && ++entries <= most_entries; at.increment(failed)) {
    std::string name = at->path().filename().string();
    std::error_code ignored;
    if (at->is_directory(ignored) && (name.starts_with('.') || name == "build" || name == "node_modules"))
      at.disable_recursion_pending();
    else if (is_model_file(*at))
      out.push_back(at->path().string());
  }
  return out;
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
  return !failed && rewrite_file(place.string(), text) ? place.string() : "";
}

Status lsp_command() {
  server::Hooks hooks;
  hooks.read_text = read_text;
  hooks.files_in = files_in;
  hooks.files_below = files_below;
  hooks.carried_model = [](const std::string &name) -> std::optional<std::pair<std::string, std::string>> {
    if (auto model = find_model(name))
      return std::pair(model->model_path, model->model_text);
    return std::nullopt;
  };
  hooks.read_config = read_config;
  hooks.place_of_carried = place_of_carried;
  auto status = server::run_stdio(stdin, llvm::outs(), std::move(hooks), version);
  if (!status)
    print_error(status.error());
  // The thread that reads may still wait for a client that is gone.
  _exit(status ? *status : 1);
}

} // namespace heddle
