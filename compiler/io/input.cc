// A file is opened without waiting and looked at before anything is read of it.
#include "compiler/io/input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle {
namespace {

constexpr size_t most_bytes = 256 << 20; // of what is read as a whole; places in a text are 32-bit numbers

Error cannot_read(const std::string &path) { return {path + ": cannot read: " + std::strerror(errno)}; }

const char *kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/// The files that were read or written, by device and number.
struct Files {
  static Files &all() {
    static Files files;
    return files;
  }
  static std::pair<dev_t, ino_t> identity(const struct stat &info) { return {info.st_dev, info.st_ino}; }

  std::mutex mutex;
  bool stay = false;
  std::map<std::pair<dev_t, ino_t>, const char *> known; // why each stays
  std::set<std::string> planned;                         // places of outputs, which may not be there yet
};

void note(const struct stat &info, const char *why) {
  Files &files = Files::all();
  std::lock_guard lock(files.mutex);
  if (files.stay)
    files.known.insert_or_assign(Files::identity(info), why); // a new file may have the number of one that is gone
}

void note(const std::string &path, const char *why) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0)
    note(info, why);
}

constexpr const char *read_before = "is an input of this command, which its output would replace";
constexpr const char *written_before = "is another output of this command, which this one would replace";

/// A descriptor that closes itself, of a regular file.
class Opened {
public:
  explicit Opened(const std::string &path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat info{};
    if (descriptor_ < 0 || fstat(descriptor_, &info) != 0)
      failed_ = cannot_read(path);
    else if (!S_ISREG(info.st_mode))
      failed_ = Error{path + ": is " + kind_of(info.st_mode) + ", not a regular file"};
    else
      note(info, read_before);
    size_ = static_cast<size_t>(info.st_size);
  }
  Opened(const Opened &) = delete;
  ~Opened() {
    if (descriptor_ >= 0)
      close(descriptor_);
  }
  operator int() const { return descriptor_; }
  size_t size() const { return size_; }
  const Status &status() const { return failed_; }

private:
  int descriptor_;
  size_t size_ = 0;
  Status failed_ = Done{};
};

} // namespace

FilesStay::FilesStay() {
  std::lock_guard lock(Files::all().mutex);
  Files::all().stay = true;
}

FilesStay::~FilesStay() {
  std::lock_guard lock(Files::all().mutex);
  Files::all().stay = false;
  Files::all().known.clear();
  Files::all().planned.clear();
}

void note_input(const std::string &path) { note(path, read_before); }
void note_output(const std::string &path) { note(path, written_before); }

std::string why_it_stays(const std::string &path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0)
    return "";
  Files &files = Files::all();
  std::lock_guard lock(files.mutex);
  auto known = files.known.find(Files::identity(info));
  return known == files.known.end() ? "" : known->second;
}

/// However it is written.
static std::string place_of(const std::string &path) {
  std::error_code failed;
  std::string place = std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  return failed ? path : place;
}

std::string plan_output(const std::string &path) {
  Files &files = Files::all();
  std::lock_guard lock(files.mutex);
  return files.stay && !files.planned.insert(place_of(path)).second ? written_before : "";
}

std::string why_it_is_taken(const std::string &path) {
  Files &files = Files::all();
  std::lock_guard lock(files.mutex);
  return files.planned.count(place_of(path)) ? written_before : "";
}

Result<std::string> read_file(const std::string &path) {
  Opened file(path);
  if (!file.status())
    return file.status().error();
  std::string out(std::min(file.size(), most_bytes) + 1, '\0');
  size_t done = 0;
  for (;;) {
    if (done > most_bytes)
      return Error{path + ": is too large; at most " + std::to_string(most_bytes >> 20) + " MB are read"};
    if (done == out.size()) // to the end, whatever its size was a moment ago; /proc tells 0
      out.resize(done + 4096);
    ssize_t count = read(file, out.data() + done, out.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return cannot_read(path);
    if (count == 0)
      break;
    done += static_cast<size_t>(count);
  }
  out.resize(done);
  return out;
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  Opened file(path);
  if (!file.status())
    return file.status().error();
  MappedFile out;
  size_t size = file.size();
  if (size == 0)
    return out;
  void *data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED)
    return Error{path + ": cannot map: " + std::strerror(errno)};
  out.data_ = std::shared_ptr<const std::byte>(
      static_cast<const std::byte *>(data), [size](const std::byte *at) { munmap(const_cast<std::byte *>(at), size); });
  out.size_ = size;
  return out;
}

} // namespace heddle
