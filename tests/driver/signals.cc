// What ends the tool: a fault says that it is a bug and ends by its own signal, at once.
#include "compiler/driver/signals.h"

#include <chrono>
#include <csignal>
#include <gtest/gtest.h>

namespace heddle {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEDDLE_FAULTS_ARE_TAKEN
#endif
#endif

TEST(Signals, a_fault_ends_the_process_by_its_signal_at_once) {
#ifdef HEDDLE_FAULTS_ARE_TAKEN
  GTEST_SKIP() << "a sanitizer takes the signals of faults";
#endif
  auto start = std::chrono::steady_clock::now();
  EXPECT_EXIT(
      {
        take_signals();
        volatile int *nowhere = nullptr;
        *nowhere = 1;
      },
      testing::KilledBySignal(SIGSEGV), "heddle has crashed \\(SIGSEGV\\); this is a bug of Heddle");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

} // namespace
} // namespace heddle
