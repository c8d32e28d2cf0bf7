// Temporary names end in what makes them unique; rename() within one folder is atomic. An existing folder is filled
// file by file, each of them exchanged with the old one, so that a failure can undo what was done.
#include "compiler/io/output.h"

#include "compiler/io/input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace heddle {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string &path, int error) { return {path + ": cannot write: " + std::strerror(error)}; }

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

/// The mode of a new file or folder under the user's umask; mkstemp and mkdtemp give less.
mode_t new_mode(mode_t full) {
  mode_t mask = umask(0);
  umask(mask);
  return full & ~mask;
}

/// The number of an error, or 0.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return count < 0 ? errno : EIO;
    done += static_cast<size_t>(count);
  }
  return 0;
}

Error stays(const std::string &path, const std::string &why, const char *wanted) {
  return Error{path + ": " + why + "; name another " + wanted};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

} // namespace

Result<OutputFile> OutputFile::create(const std::string &path, bool rewrites) {
  OutputFile out;
  out.path_ = out.place_ = path;
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) // what it leads to is replaced, not the link
    if (fs::path real = fs::weakly_canonical(path, ignored); !real.empty())
      out.place_ = real;
  struct stat old{};
  bool exists = stat(out.place_.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode))
    return Error{path + ": is a folder; name a file to write"};
  if (exists && !S_ISREG(old.st_mode))
    return Error{path + ": is not a regular file; name a file to write"};
  if (std::string why = rewrites ? "" : why_it_stays(out.place_); !why.empty())
    return stays(path, why, "file to write");
  out.temporary_ = Unfinished::file(out.place_ + ".heddle-part-", out.descriptor_);
  if (out.temporary_.path().empty())
    return cannot_write(path, errno);
  fchmod(out.descriptor_, exists ? old.st_mode & 07777 : new_mode(0666));
  return out;
}

OutputFile::OutputFile(OutputFile &&other) noexcept { *this = std::move(other); }

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  if (this != &other) {
    close();
    path_ = std::exchange(other.path_, {});
    place_ = std::exchange(other.place_, {});
    temporary_ = std::move(other.temporary_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

OutputFile::~OutputFile() { close(); }

void OutputFile::close() {
  if (descriptor_ >= 0)
    ::close(std::exchange(descriptor_, -1));
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  if (int error = write_all(descriptor_, bytes))
    return cannot_write(path_, error);
  size_ += bytes.size();
  return Done{};
}

Status OutputFile::write(std::string_view text) { return write(bytes_of(text)); }

Status OutputFile::pad(size_t alignment) {
  return write(std::string((alignment - size_ % alignment) % alignment, '\0'));
}

Status OutputFile::commit() {
  if (fsync(descriptor_) != 0 && errno != EINVAL) // EINVAL: the place has nothing to sync
    return cannot_write(path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0)
    return cannot_write(path_, errno);
  auto lock = no_end_meanwhile();
  if (rename(temporary_.path().c_str(), place_.c_str()) != 0)
    return cannot_write(path_, errno);
  temporary_.keep();
  note_output(place_);
  return Done{};
}

static Status write_text(const std::string &path, std::string_view text, bool rewrites) {
  Result<OutputFile> file = OutputFile::create(path, rewrites);
  if (!file)
    return file.error();
  if (Status status = file->write(text); !status)
    return status;
  return file->commit();
}

Status write_file(const std::string &path, std::string_view text) { return write_text(path, text, false); }
Status rewrite_file(const std::string &path, std::string_view text) { return write_text(path, text, true); }

Status try_to_write(const std::string &path) {
  if (path.empty())
    return Done{};
  auto file = OutputFile::create(path); // and gone
  if (!file)
    return file.error();
  if (std::string why = plan_output(path); !why.empty())
    return stays(path, why, "file to write");
  return Done{};
}

MappedOutput::~MappedOutput() {
  if (!bytes_.empty())
    munmap(bytes_.data(), bytes_.size());
}

Result<OutputFolder> OutputFolder::create(const std::string &path) {
  OutputFolder out;
  out.path_ = without_slash(path);
  std::error_code ignored;
  if (fs::exists(out.path_, ignored) && !fs::is_directory(out.path_, ignored))
    return Error{path + ": is a file; name a folder to write into"};
  if (std::string why = why_it_is_taken(out.path_); !why.empty())
    return stays(path, why, "folder to write into");
  fs::path parent = fs::path(out.path_).parent_path();
  if (!parent.empty())
    fs::create_directories(parent, ignored);
  // Beside an existing folder, not in it: what is not finished is never seen there. In it where it is the root of a
  // file system, from beside which nothing can be renamed into it, or stands in a folder that can't be written.
  struct stat inside{}, outside{};
  std::string name = fs::path(out.path_).filename();
  bool exists = stat(out.path_.c_str(), &inside) == 0;
  bool within = name.empty() || name == "." || name == ".." ||
                (exists && (stat(parent.empty() ? "." : parent.c_str(), &outside) != 0 ||
                            outside.st_dev != inside.st_dev || access(parent.empty() ? "." : parent.c_str(), W_OK)));
  out.temporary_ = Unfinished::folder(out.path_ + (within ? "/.heddle-part-" : ".heddle-part-"));
  if (out.temporary_.path().empty())
    return heddle::cannot_write(path, errno);
  chmod(out.temporary_.path().c_str(), new_mode(0777));
  return out;
}

Error OutputFolder::cannot_write(const std::string &name, int error) const {
  return heddle::cannot_write(path_ + "/" + name, error);
}

Status OutputFolder::write(const std::string &name, std::string_view bytes) { return write(name, bytes, 0666); }

Status OutputFolder::write_program(const std::string &name, std::string_view bytes) { return write(name, bytes, 0777); }

Status OutputFolder::write(const std::string &name, std::string_view bytes, unsigned mode) {
  std::string place = temporary_.path() + "/" + name;
  int descriptor = ::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  int error = descriptor < 0 ? errno : write_all(descriptor, bytes_of(bytes));
  if (descriptor >= 0 && close(descriptor) != 0 && error == 0)
    error = errno;
  return error ? Status(cannot_write(name, error)) : Status(Done{});
}

Result<MappedOutput> OutputFolder::map(const std::string &name, size_t bytes) {
  std::string place = temporary_.path() + "/" + name;
  int descriptor = ::open(place.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return cannot_write(name, errno);
  int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  void *at = MAP_FAILED;
  if (error == 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    error = at == MAP_FAILED ? errno : 0;
  }
  if (error == 0)
    madvise(at, bytes, MADV_HUGEPAGE); // advice: who maps the file after this then reads it by huge pages
  close(descriptor);
  if (error)
    return cannot_write(name, error);
  return MappedOutput({static_cast<std::byte *>(at), bytes});
}

/// All that is in a new folder.
static void note_outputs(const std::string &folder) {
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    note_output(at->path());
}

Status OutputFolder::commit() {
  auto lock = no_end_meanwhile();
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) {
    if (rename(temporary_.path().c_str(), path_.c_str()) == 0) {
      temporary_.keep();
      note_outputs(path_);
      return Done{};
    }
    if (errno != ENOTEMPTY && errno != EEXIST) // another process has made it meanwhile
      return heddle::cannot_write(path_, errno);
  }
  int folder = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return heddle::cannot_write(path_, errno);
  flock(folder, LOCK_EX); // a file system that has no locks does without
  Status done = replace_files();
  close(folder);
  temporary_.remove();
  return done;
}

Status OutputFolder::replace_files() {
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(temporary_.path(), failed), end; !failed && at != end; at.increment(failed))
    files.push_back(at->path());
  if (failed)
    return heddle::cannot_write(path_, failed.value());
  struct Replaced {
    std::string place, old; // a second name of what was there, or nothing
  };
  std::vector<Replaced> replaced;
  for (const fs::path &file : files) {
    std::string place = path_ + "/" + file.filename().string(), why = why_it_stays(place);
    if (why.empty())
      why = why_it_is_taken(place);
    if (!why.empty())
      return stays(place, why, "folder to write into");
  }
  for (const fs::path &file : files) {
    std::string name = file.filename().string(), place = path_ + "/" + name;
    std::string old = temporary_.path() + "/.old-" + name;
    bool kept = link(place.c_str(), old.c_str()) == 0, nothing = !kept && errno == ENOENT;
    if (rename(file.c_str(), place.c_str()) == 0) {
      if (kept || nothing)
        replaced.push_back({place, kept ? old : ""});
      note_output(place);
      continue;
    }
    int error = errno;
    for (const Replaced &one : replaced)
      one.old.empty() ? unlink(one.place.c_str()) : rename(one.old.c_str(), one.place.c_str());
    return cannot_write(name, error);
  }
  return Done{};
}

} // namespace heddle
