// The list of live paths is the one piece of global state of the compiler: an interrupt has no other way to know them.
// It is never destroyed, since threads may outlast main().
#include "compiler/io/unfinished.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <stdlib.h>
#include <utility>

namespace heddle {

namespace fs = std::filesystem;

namespace {

struct Live {
  std::recursive_mutex mutex;
  std::set<std::string> paths;
};

constexpr int most_turns = 1000; // of removing what other threads are still adding to

} // namespace

static Live &live() {
  static Live *live = new Live;
  return *live;
}

std::unique_lock<std::recursive_mutex> no_end_meanwhile() { return std::unique_lock(live().mutex); }

Unfinished Unfinished::folder(std::string pattern) {
  auto lock = no_end_meanwhile();
  Unfinished out;
  if (mkdtemp(pattern.data()))
    live().paths.insert(out.path_ = pattern);
  return out;
}

Unfinished Unfinished::file(std::string pattern, int &descriptor) {
  auto lock = no_end_meanwhile();
  Unfinished out;
  descriptor = mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor >= 0)
    live().paths.insert(out.path_ = pattern);
  return out;
}

Unfinished::Unfinished(Unfinished &&other) noexcept : path_(std::exchange(other.path_, {})) {}

Unfinished &Unfinished::operator=(Unfinished &&other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

void Unfinished::remove() {
  if (path_.empty())
    return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  keep();
}

void Unfinished::keep() {
  auto lock = no_end_meanwhile();
  live().paths.erase(path_);
  path_.clear();
}

Result<Unfinished> temporary_folder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error)
    return Error{"there is no folder for temporary files ($TMPDIR): " + error.message()};
  std::string pattern = base / "heddle-XXXXXX";
  Unfinished out = Unfinished::folder(pattern);
  if (out.path().empty())
    return Error{base.string() + ": temporary files ($TMPDIR) cannot be written there: " + std::strerror(errno)};
  return out;
}

void remove_unfinished() {
  no_end_meanwhile().release(); // what other threads still do to the list waits for the end
  for (const std::string &path : live().paths) {
    std::error_code failed;
    for (int turn = 0; turn < most_turns && fs::exists(fs::symlink_status(path, failed)); ++turn)
      fs::remove_all(path, failed);
  }
  live().paths.clear();
}

} // namespace heddle
