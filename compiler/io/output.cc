// Temporary names end in a number that makes them unique; rename() within one folder is atomic. An existing
// folder is filled file by file, each of them atomically.
#include "compiler/io/output.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string reason() { return std::strerror(errno); }
Error cannot(const std::string &what, const std::string &path) { return {path + ": cannot " + what + ": " + reason()}; }

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

} // namespace

Result<OutputFile> OutputFile::create(const std::string &path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return Error{path + ": is a folder; name a file to write"};
  OutputFile out;
  out.path_ = path;
  std::string pattern = path + ".part-XXXXXX";
  out.descriptor_ = mkstemp(pattern.data());
  if (out.descriptor_ < 0)
    return cannot("write", path);
  out.temporary_ = pattern;
  fchmod(out.descriptor_, new_mode(0666));
  return out;
}

OutputFile::OutputFile(OutputFile &&other) noexcept { *this = std::move(other); }

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  if (this != &other) {
    discard();
    path_ = std::exchange(other.path_, {});
    temporary_ = std::exchange(other.temporary_, {});
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
  if (descriptor_ >= 0)
    close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty())
    unlink(temporary_.c_str());
  temporary_.clear();
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return cannot("write", path_);
    done += count;
  }
  size_ += bytes.size();
  return Done{};
}

Status OutputFile::write(std::string_view text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }

Status OutputFile::pad(size_t alignment) {
  return write(std::string((alignment - size_ % alignment) % alignment, '\0'));
}

Status OutputFile::commit() {
  if (fsync(descriptor_) != 0 && errno != EINVAL) // EINVAL: the place has nothing to sync (a pipe)
    return cannot("write", path_);
  int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0 || rename(temporary_.c_str(), path_.c_str()) != 0)
    return cannot("write", path_);
  temporary_.clear();
  return Done{};
}

Status write_file(const std::string &path, std::string_view text) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file)
    return file.error();
  if (Status status = file->write(text); !status)
    return status;
  return file->commit();
}

Result<OutputFolder> OutputFolder::create(const std::string &path) {
  OutputFolder out;
  out.path_ = without_slash(path);
  std::error_code ignored;
  if (fs::exists(out.path_, ignored) && !fs::is_directory(out.path_, ignored))
    return Error{path + ": is a file; name a folder to write into"};
  fs::path parent = fs::path(out.path_).parent_path();
  if (!parent.empty())
    fs::create_directories(parent, ignored);
  // Beside an existing folder, not in it: what is not finished is never seen there.
  std::string pattern = out.path_ + ".part-XXXXXX";
  if (fs::path(out.path_).filename() == "." || fs::path(out.path_).filename() == "..")
    pattern = out.path_ + "/.part-XXXXXX";
  if (!mkdtemp(pattern.data()))
    return cannot("write", path);
  out.temporary_ = pattern;
  chmod(pattern.c_str(), new_mode(0777));
  return out;
}

OutputFolder::OutputFolder(OutputFolder &&other) noexcept { *this = std::move(other); }

OutputFolder &OutputFolder::operator=(OutputFolder &&other) noexcept {
  if (this != &other) {
    discard();
    path_ = std::exchange(other.path_, {});
    temporary_ = std::exchange(other.temporary_, {});
  }
  return *this;
}

OutputFolder::~OutputFolder() { discard(); }

void OutputFolder::discard() {
  std::error_code ignored;
  if (!temporary_.empty())
    fs::remove_all(temporary_, ignored);
  temporary_.clear();
}

Status OutputFolder::commit() {
  std::error_code failed;
  if (!fs::exists(path_, failed)) {
    if (rename(temporary_.c_str(), path_.c_str()) != 0)
      return cannot("write", path_);
    temporary_.clear();
    return Done{};
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry &entry : fs::directory_iterator(temporary_, failed))
    files.push_back(entry.path());
  for (const fs::path &file : files) {
    std::string place = path_ + "/" + file.filename().string();
    if (rename(file.c_str(), place.c_str()) != 0)
      return cannot("write", place);
  }
  discard();
  return Done{};
}

} // namespace heddle
