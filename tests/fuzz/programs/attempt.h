// A program examined in a process of its own: what crashes or hangs there is a verdict here.
#pragma once

#include "tests/fuzz/programs/verdict.h"

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace heddle::fuzz {

constexpr int seconds_per_program = 120; // of CPU, or asleep

/// A child that examines programs one after the other and tells of each.
class Worker {
public:
  /// `text_of` gives the program of a number; it is called in the child.
  Worker(std::vector<uint64_t> seeds, std::function<std::string(uint64_t)> text_of, bool compile);
  ~Worker();
  Worker(const Worker &) = delete;

  struct Finished {
    uint64_t seed;
    Verdict verdict;
  };
  /// Waits for the next verdict; nothing when all are told. After a crash or hang the rest goes on in a new child.
  std::optional<Finished> next();

private:
  void start();
  void stop();
  bool fill(); // reads from the pipe; false at its end or after too long a wait

  std::vector<uint64_t> seeds_; // those not told yet
  std::function<std::string(uint64_t)> text_of_;
  bool compile_;
  const char *lost_by_ = nullptr; // what the last program had too much of, while it gave no answer
  pid_t child_ = -1;
  int pipe_ = -1;
  std::string buffer_;
};

Verdict attempt(const std::string &text, bool compile);

} // namespace heddle::fuzz
