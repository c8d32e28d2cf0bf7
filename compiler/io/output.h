// Output that is whole or absent: it is written beside its place and renamed into it when it is complete.
// What is not committed is removed.
#pragma once

#include "dsl/errors/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// One file.
class OutputFile {
public:
  static Result<OutputFile> create(const std::string &path);
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
  void discard();

  std::string path_, temporary_;
  int descriptor_ = -1;
  size_t size_ = 0;
};

Status write_file(const std::string &path, std::string_view text);

/// A folder's several files, by whoever writes them (the linker, too). commit() makes the folder if it is not
/// there, and moves all files into it; files of the same names are replaced, others stay.
class OutputFolder {
public:
  static Result<OutputFolder> create(const std::string &path);
  OutputFolder(OutputFolder &&other) noexcept;
  OutputFolder &operator=(OutputFolder &&other) noexcept;
  ~OutputFolder();

  /// Where to write the file `name` (no folders in it) until the commit.
  std::string file(const std::string &name) const { return temporary_ + "/" + name; }
  const std::string &path() const { return path_; }
  Status commit();

private:
  OutputFolder() = default;
  void discard();

  std::string path_, temporary_;
};

} // namespace heddle
