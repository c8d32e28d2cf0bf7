// Files that are read: only regular ones, so that nothing waits for the other end of a FIFO or reads a device.
#pragma once

#include "dsl/errors/result.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace heddle {

/// All bytes of a small file.
Result<std::string> read_file(const std::string &path);

/// A file's bytes, mapped read-only. Where another program shortens the file, access ends in SIGBUS: see
/// compiler/driver/signals.h.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

private:
  std::shared_ptr<const std::byte> data_;
  size_t size_ = 0;
};

/// While one lives, as in each run of the command, no output replaces a file that was read or written since.
class FilesStay {
public:
  FilesStay();
  ~FilesStay();
  FilesStay(const FilesStay &) = delete;
};
/// Says that a file is read, as read_file and MappedFile do, or has been written, as those of output.h do.
void note_input(const std::string &path);
void note_output(const std::string &path);
/// Why no output may replace the file; empty where it may.
std::string why_it_stays(const std::string &path);
/// Says that a file will be written; why not, where another output is to have that place.
std::string plan_output(const std::string &path);
/// Why nothing else may be written there; empty where it may.
std::string why_it_is_taken(const std::string &path);

} // namespace heddle
