// The list of live paths is the one piece of global state of the compiler: an interrupt has no other way to know them.
// It is never destroyed, since threads may outlast main(). Nothing runs after `kill -9`: what it leaves is known by its
// lock, which ended with the process.
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

constexpr int most_turns = 1000;     // of removing what other threads are still adding to
constexpr size_t unique_letters = 6; // of mkstemp and mkdtemp

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

/// For a lock: a pipe that bears such a name isn't waited for.
static int open_to_lock(const std::string &path) {
  return open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/// Removes what processes have left that are no more.
static void remove_abandoned(const fs::path &beginning) {
  std::error_code failed, ignored;
  std::string prefix = beginning.filename();
  fs::path parent = beginning.parent_path();
  for (fs::directory_iterator at(parent.empty() ? "." : parent, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::string name = at->path().filename();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + unique_letters)
      continue;
    int found = open_to_lock(at->path());
    struct stat status{};
    if (found >= 0 && fstat(found, &status) == 0 && status.st_uid == geteuid() && flock(found, LOCK_EX | LOCK_NB) == 0)
      fs::remove_all(at->path(), ignored);
    if (found >= 0)
      close(found);
  }
}

/// Makes one, and locks it, by which others see that this process lives. Another one may have removed it before.
template <typename Make> Unfinished Unfinished::make(const std::string &beginning, Make make) {
  auto lock = no_end_meanwhile();
  spare_one();
  remove_abandoned(beginning);
  for (;;) {
    Unfinished out;
    std::string path = beginning + std::string(unique_letters, 'X');
    if (!make(path))
      return out;
    live().paths.insert(out.path_ = path);
    out.lock_ = open_to_lock(path);
    if (out.lock_ >= 0)
      flock(out.lock_, LOCK_EX); // a file system that has no locks does without, and nothing is removed there
    else if (int error = errno; error != ENOENT) {
      out.remove();
      errno = error;
      return out;
    }
    if (std::error_code ignored; fs::exists(path, ignored))
      return out;
  }
}

Unfinished Unfinished::folder(const std::string &beginning) {
  return make(beginning, [](std::string &path) { return mkdtemp(path.data()) != nullptr; });
}

Unfinished Unfinished::file(const std::string &beginning, int &descriptor) {
  return make(beginning, [&](std::string &path) {
    if (descriptor >= 0)
      close(descriptor);
    descriptor = mkostemp(path.data(), O_CLOEXEC);
    return descriptor >= 0;
  });
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

Result<Unfinished> temporary_folder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error) {
    const char *named = std::getenv("TMPDIR");
    return Error{(named ? named : "/tmp") +
                 std::string(": there is no folder for temporary files; name one by $TMPDIR: ") + error.message()};
  }
  Unfinished out = Unfinished::folder(base / "heddle-scratch-");
  if (out.path().empty())
    return Error{base.string() + ": temporary files ($TMPDIR) cannot be written there: " + std::strerror(errno)};
  return out;
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
