// Folders that must not outlive the command, whichever way it ends.
#pragma once

#include "dsl/errors/result.h"

#include <string>

namespace heddle {

/// Removes the path, with what is in it, when this object goes, or when remove_leftovers() is called before that.
class RemoveAtExit {
public:
  explicit RemoveAtExit(std::string path);
  RemoveAtExit(RemoveAtExit &&other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  ~RemoveAtExit();

  const std::string &path() const { return path_; }

private:
  std::string path_;
};

/// A new empty folder among the system's temporary files.
Result<RemoveAtExit> temporary_folder();

/// For a command that is being interrupted: removes all that RemoveAtExit objects stand for.
void remove_leftovers();

} // namespace heddle
