// Pieces of work on several threads, also where threads cannot be made.
#include "compiler/emit/artifact/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace heddle::test {

TEST(Parallel, does_each_piece_once) {
  std::vector<std::atomic<int>> done(1000);
  for_each_parallel(done.size(), [&](int64_t i) { return ++done[i] == 1; });
  for (const std::atomic<int> &times : done)
    EXPECT_EQ(times, 1);
}

TEST(Parallel, gives_the_caller_what_a_piece_throws) {
  std::atomic<int> done = 0;
  auto work = [&](int64_t i) {
    if (i == 7)
      throw std::runtime_error("the seventh");
    return ++done > 0;
  };
  EXPECT_THROW(for_each_parallel(100000, work), std::runtime_error);
  EXPECT_LT(done, 100000);
}

/// Bytes of the process's address space.
static rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

/// The exit status of a process with that much more address space: 0 where all pieces were done.
static int status_within(rlim_t more) {
  pid_t child = fork();
  if (child == 0) {
    rlim_t most = address_space() + more;
    rlimit limit{most, most};
    std::atomic<int> done = 0;
    if (setrlimit(RLIMIT_AS, &limit) == 0)
      for_each_parallel(100, [&](int64_t) { return ++done > 0; });
    _exit(done == 100 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Parallel, does_it_with_the_threads_that_can_be_made) {
  if (usable_cpus() == 1)
    GTEST_SKIP() << "one CPU needs no further thread";
  for (rlim_t more = 0; more <= 40 << 20; more += 4 << 20) // a stack takes 8 MiB
    EXPECT_EQ(status_within(more), 0) << (more >> 20) << " MiB more";
}

} // namespace heddle::test
