// Files and folders that must not outlive the process before they are finished, whichever way it ends: by returning,
// by a signal, by exit().
#pragma once

#include "dsl/errors/result.h"

#include <mutex>
#include <string>

namespace heddle {

/// A new file or folder. It is removed, with what is in it, when this object goes, or when the process ends before
/// that, unless keep() was called.
class Unfinished {
public:
  /// `pattern` ends in XXXXXX, which becomes what makes the name unique. Where it cannot be made, path() is empty and
  /// errno says why.
  static Unfinished folder(std::string pattern);
  static Unfinished file(std::string pattern, int &descriptor);
  Unfinished() = default;
  Unfinished(Unfinished &&other) noexcept;
  Unfinished &operator=(Unfinished &&other) noexcept;
  ~Unfinished() { remove(); }

  const std::string &path() const { return path_; }
  void remove();
  /// It has moved to its place.
  void keep();
  /// Of a folder: other processes can tell from now on that this one lives.
  void lock();

private:
  std::string path_;
  int lock_ = -1;
};

/// A new empty folder among the system's temporary files ($TMPDIR). The first one of a process also removes those that
/// killed processes have left there.
Result<Unfinished> temporary_folder();

/// While this lock is held the process does not end by remove_unfinished(): for steps of which all or none are to be
/// done, and for a message that must not be one about what an interrupt has just removed.
std::unique_lock<std::recursive_mutex> no_end_meanwhile();

/// Removes all that Unfinished objects stand for; from then on no other thread makes, keeps or removes any. For a
/// process that is about to end.
void remove_unfinished();

} // namespace heddle
