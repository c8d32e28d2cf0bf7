// inotify on the folder, not on the files: editors replace a file by another one of its name. Several events of one
// save are one change.
#include "compiler/driver/watch.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <string_view>
#include <sys/inotify.h>
#include <unistd.h>

namespace heddle {

namespace fs = std::filesystem;

static constexpr int settle_ms = 50;

/// Whether what can be read of the descriptor concerns a model.
static bool read_events(int descriptor) {
  alignas(inotify_event) char buffer[16384];
  ssize_t size = read(descriptor, buffer, sizeof buffer);
  bool concerns = false;
  for (ssize_t at = 0; at + ssize_t(sizeof(inotify_event)) <= size;) {
    auto *event = reinterpret_cast<const inotify_event *>(buffer + at);
    std::string_view name = event->len ? std::string_view(event->name) : std::string_view();
    concerns |= name.ends_with(".heddle") || name == "config.json" || (event->mask & IN_Q_OVERFLOW);
    at += sizeof(inotify_event) + event->len;
  }
  return concerns;
}

Status watch_folder(const std::string &path, const std::function<void()> &work) {
  std::error_code ignored;
  std::string folder = fs::is_directory(path, ignored) ? path : fs::path(path).parent_path().string();
  if (folder.empty())
    folder = ".";
  int descriptor = inotify_init1(IN_CLOEXEC);
  if (descriptor < 0 || inotify_add_watch(descriptor, folder.c_str(),
                                          IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) < 0) {
    std::string why = std::strerror(errno);
    if (descriptor >= 0)
      close(descriptor);
    return Error{folder + ": cannot be watched: " + why};
  }
  work(); // after the watch begins, so that no change is missed
  for (;;) {
    bool concerns = read_events(descriptor);
    pollfd more{descriptor, POLLIN, 0};
    while (poll(&more, 1, settle_ms) > 0)
      concerns |= read_events(descriptor);
    if (concerns)
      work();
  }
}

} // namespace heddle
