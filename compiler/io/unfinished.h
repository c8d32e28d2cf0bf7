// Files and folders that must not outlive the process before they are finished, whichever way it ends: by returning,
// by a signal, by exit().
#pragma once

#include "dsl/errors/result.h"

#include <mutex>
#include <string>

namespace heddle {

/// A new file or folder. It is removed, with what is in it, when this object goes, or when the process ends before
/// that, unless keep() was called. What a process that was killed has left is removed when the next one of the same
/// `beginning` is made.
class Unfinished {
public:
  /// Its path is `beginning` and what makes it unique. Where it cannot be made, path() is empty and errno says why.
  static Unfinished folder(const std::string &beginning);
  static Unfinished file(const std::string &beginning, int &descriptor);
  Unfinished() = default;
  Unfinished(Unfinished &&other) noexcept;
  Unfinished &operator=(Unfinished &&other) noexcept;
  ~Unfinished() { remove(); }

  const std::string &path() const { return path_; }
  void remove();
  /// It has moved to its place.
  void keep();

private:
  template <typename Make> static Unfinished make(const std::string &beginning, Make make);

  std::string path_;
  int lock_ = -1;
};

/// A new empty folder among the system's temporary files ($TMPDIR).
Result<Unfinished> temporary_folder();

/// While this lock is held the process does not end by remove_unfinished(): for steps of which all or none are to be
/// done, and for a message that must not be one about what an interrupt has just removed.
std::unique_lock<std::recursive_mutex> no_end_meanwhile();

/// Removes all that Unfinished objects stand for; from then on no other thread makes, keeps or removes any. For a
/// process that is about to end.
void remove_unfinished();

} // namespace heddle
