// Output that is whole or absent: it is written beside its place and renamed into it when it is complete.
// What is not committed is removed. A file that the command has read or written before (input.h) is
// not replaced, unless it is said to be rewritten. Places are regular files, new or old, or folders: a device or a FIFO
// is refused.
#pragma once

#include "compiler/io/unfinished.h"
#include "dsl/errors/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace heddle {

/// One file.
class OutputFile {
public:
  static Result<OutputFile> create(const std::string &path, bool rewrites = false);
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  /// Zero bytes up to the next multiple of `alignment`.
  Status pad(size_t alignment);
  size_t size() const { return size_; }
  /// Syncs it to disk and gives it its name.
  Status commit();

private:
  OutputFile() = default;
  void close();

  std::string path_, place_; // as the user wrote it, and where symbolic links lead
  Unfinished temporary_;
  int descriptor_ = -1;
  size_t size_ = 0;
};

Status write_file(const std::string &path, std::string_view text);
/// Whether that has a place, which is found out before long work whose result would be lost; an empty path is none to
/// write.
Status try_to_write(const std::string &path);
/// Writes in the place of a file that was read for it.
Status rewrite_file(const std::string &path, std::string_view text);

/// Bytes of a file of known size, mapped for writing.
class MappedOutput {
public:
  explicit MappedOutput(std::span<std::byte> bytes) : bytes_(bytes) {}
  MappedOutput(MappedOutput &&other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedOutput(const MappedOutput &) = delete;
  ~MappedOutput();

  std::span<std::byte> bytes() const { return bytes_; }

private:
  std::span<std::byte> bytes_;
};

/// A folder's several files. commit() makes the folder if it is not there, and moves all files into it; files of the
/// same names are replaced, others stay. Where that fails half-way the old ones come back. Two processes that commit
/// to one folder do so one after the other.
class OutputFolder {
public:
  static Result<OutputFolder> create(const std::string &path);

  const std::string &path() const { return path_; }
  /// `name` has no folders in it.
  Status write(const std::string &name, std::string_view bytes);
  /// The same, to be run.
  Status write_program(const std::string &name, std::string_view bytes);
  /// Its blocks are reserved: a full disk shows here, not when the bytes are written.
  Result<MappedOutput> map(const std::string &name, size_t bytes);
  Status commit();

private:
  OutputFolder() = default;
  Status write(const std::string &name, std::string_view bytes, unsigned mode);
  Status replace_files();
  Error cannot_write(const std::string &name, int error) const;

  std::string path_;
  Unfinished temporary_;
};

} // namespace heddle
