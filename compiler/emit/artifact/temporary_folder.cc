// The list of live paths is the one piece of global state of the compiler: an interrupt has no other way to
// know them.
#include "compiler/emit/artifact/temporary_folder.h"

#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdlib.h>

namespace heddle {

namespace fs = std::filesystem;

static std::mutex mutex;
static std::multiset<std::string> live;

RemoveAtExit::RemoveAtExit(std::string path) : path_(std::move(path)) {
  std::lock_guard lock(mutex);
  live.insert(path_);
}

RemoveAtExit::~RemoveAtExit() {
  if (path_.empty())
    return;
  std::lock_guard lock(mutex);
  live.extract(path_);
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<RemoveAtExit> temporary_folder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error)
    return Error{"there is no folder for temporary files: " + error.message()};
  std::string path = base / "heddle-XXXXXX";
  if (!mkdtemp(path.data()))
    return Error{path + ": cannot be created: " + std::strerror(errno)};
  return RemoveAtExit(path);
}

void remove_leftovers() {
  std::lock_guard lock(mutex);
  for (const std::string &path : live) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
}

} // namespace heddle
