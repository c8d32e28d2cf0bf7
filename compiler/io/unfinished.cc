// The list of live paths is the one piece of global state of the compiler: an interrupt has no other way to know them.
// It is never destroyed, since threads may outlast main(). Nothing runs after `kill -9`: what it leaves among the
// system's temporary files is known by its lock, which ended with the process, and the next one removes it.
#include "compiler/io/unfinished.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace heddle {

namespace fs = std::filesystem;

namespace {

struct Live {
  std::recursive_mutex mutex;
  std::set<std::string> paths;
};

constexpr int most_turns = 1000; // of removing what other threads are still adding to
constexpr std::string_view temporary_name = "heddle-scratch-";

} // namespace

static Live &live() {
  static Live *live = new Live;
  return *live;
}

std::unique_lock<std::recursive_mutex> no_end_meanwhile() { return std::unique_lock(live().mutex); }

/// Looking into a folder takes a descriptor, and there may be no more.
static std::atomic<int> spare = -1;
static void spare_one() {
  if (spare < 0)
    spare = open("/", O_PATH | O_CLOEXEC);
}
static void remove_all(const std::string &path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed != std::errc::too_many_files_open || spare < 0)
    return;
  close(spare.exchange(-1));
  fs::remove_all(path, failed);
  spare_one();
}

Unfinished Unfinished::folder(std::string pattern) {
  auto lock = no_end_meanwhile();
  spare_one();
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

Unfinished::Unfinished(Unfinished &&other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

Unfinished &Unfinished::operator=(Unfinished &&other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    lock_ = std::exchange(other.lock_, -1);
  }
  return *this;
}

void Unfinished::remove() {
  if (path_.empty())
    return;
  remove_all(path_);
  keep();
}

void Unfinished::keep() {
  auto lock = no_end_meanwhile();
  live().paths.erase(path_);
  path_.clear();
  if (lock_ >= 0)
    close(std::exchange(lock_, -1));
}

static int open_folder(const std::string &path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void Unfinished::lock() {
  lock_ = open_folder(path_);
  if (lock_ >= 0)
    flock(lock_, LOCK_EX); // a file system that has no locks does without, and nothing is removed there
}

/// Removes what processes have left that are no more.
static void remove_abandoned(const fs::path &base) {
  std::error_code failed;
  for (fs::directory_iterator at(base, failed), end; !failed && at != end; at.increment(failed)) {
    if (!at->path().filename().string().starts_with(temporary_name))
      continue;
    int folder = open_folder(at->path());
    struct stat found{};
    std::error_code ignored;
    if (folder >= 0 && fstat(folder, &found) == 0 && found.st_uid == geteuid() && flock(folder, LOCK_EX | LOCK_NB) == 0)
      fs::remove_all(at->path(), ignored);
    if (folder >= 0)
      close(folder);
  }
}

Result<Unfinished> temporary_folder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error) {
    const char *named = std::getenv("TMPDIR");
    return Error{(named ? named : "/tmp") +
                 std::string(": there is no folder for temporary files; name one by $TMPDIR: ") + error.message()};
  }
  static std::once_flag once;
  std::call_once(once, remove_abandoned, base);
  for (;;) {
    Unfinished out = Unfinished::folder(base / (std::string(temporary_name) + "XXXXXX"));
    if (out.path().empty())
      return Error{base.string() + ": temporary files ($TMPDIR) cannot be written there: " + std::strerror(errno)};
    out.lock();
    if (fs::exists(out.path(), error))
      return out; // else another process has found it before it was locked
  }
}

void remove_unfinished() {
  no_end_meanwhile().release(); // what other threads still do to the list waits for the end
  for (const std::string &path : live().paths) {
    std::error_code failed;
    for (int turn = 0; turn < most_turns && fs::exists(fs::symlink_status(path, failed)); ++turn)
      remove_all(path);
  }
  live().paths.clear();
}

} // namespace heddle
