// A signal's handler may do next to nothing, so a thread of its own does the rest: handlers write to its pipe. Whoever
// is hit by a fault waits there for the end; a thread that is interrupted, or told to end, goes on meanwhile.
#include "compiler/driver/signals.h"

#include "compiler/driver/model.h"
#include "compiler/io/unfinished.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

namespace heddle {

namespace {

struct Event {
  int signal;
  void *address; // SIGBUS: of what could not be read or written
};

constexpr int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int crashes[] = {SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
constexpr int ends[] = {SIGQUIT, SIGXCPU}; // as they are by default, but nothing stays behind
constexpr unsigned most_seconds = 10;      // for tidying up after a fault, which may have hit malloc

int events[2] = {-1, -1};
std::atomic<bool> in_order = false;

} // namespace

static bool is_interrupt(int signal) {
  for (int one : interrupts)
    if (one == signal)
      return true;
  return false;
}

/// Whether the thread can't go on. What another process sends must not stop it: it may hold a lock that tidying up
/// needs.
static bool is_fault(int signal, const siginfo_t *info) {
  if (info->si_code == SI_USER)
    return false;
  for (int one : ends)
    if (one == signal)
      return false;
  return !is_interrupt(signal);
}

static void take(int signal, siginfo_t *info, void *) {
  int before = errno;
  Event event{signal, info->si_addr};
  [[maybe_unused]] ssize_t written = write(events[1], &event, sizeof event);
  if (is_fault(signal, info))
    for (;;)
      pause();
  errno = before;
}

/// The mapped file that has the address; empty where none has.
static std::string file_at(const void *address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    size_t path = line.find('/');
    auto at = reinterpret_cast<unsigned long>(address);
    if (path != std::string::npos && std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && at >= begin && at < end)
      return line.substr(path);
  }
  return "a mapped file";
}

static void clear_progress() {
  if (isatty(STDERR_FILENO))
    std::fputs("\r\033[K", stderr);
}

[[noreturn]] static void end_by(Event event) {
  if (is_interrupt(event.signal)) {
    remove_unfinished();
    clear_progress();
    _exit(128 + event.signal);
  }
  alarm(most_seconds);
  if (event.signal == SIGBUS) {
    std::string path = file_at(event.address);
    remove_unfinished();
    clear_progress();
    print_error({path + ": a part of it is gone: another program has shortened it, or its disk is full or has failed"});
    _exit(1);
  }
  remove_unfinished();
  if (event.signal != SIGQUIT && event.signal != SIGXCPU) {
    clear_progress();
    const char *name = sigabbrev_np(event.signal);
    print_error({"heddle has crashed (SIG" + std::string(name ? name : "?") +
                 "); this is a bug of Heddle, please report it with what you ran"});
  }
  std::signal(event.signal, SIG_DFL);
  kill(getpid(), event.signal);
  for (;;)
    pause();
}

/// A library has called exit(), as LLVM does where it can't go on, and has said why. What other threads still use is
/// not to be destroyed.
static void end_by_exit() {
  if (in_order)
    return;
  remove_unfinished();
  _exit(1);
}

static void take_one(int signal) {
  struct sigaction now{};
  // What the caller ignores stays so (nohup), and so does what a sanitizer has taken.
  if (sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
    return;
  struct sigaction taken{};
  taken.sa_sigaction = take;
  taken.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigaction(signal, &taken, nullptr);
}

void take_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  if (pipe2(events, O_CLOEXEC) != 0)
    return; // no descriptors are left: what follows will say so
  std::thread([] {
    sigset_t all; // faults of this thread end the process at once
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    Event event;
    ssize_t count;
    while ((count = read(events[0], &event, sizeof event)) < 0 && errno == EINTR)
      ;
    if (count == sizeof event)
      end_by(event);
  }).detach();
  static char stack[1 << 16]; // for a thread whose own has overflowed
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  for (int signal : interrupts)
    take_one(signal);
  for (int signal : crashes)
    take_one(signal);
  for (int signal : ends)
    take_one(signal);
  take_one(SIGBUS);
  std::atexit(end_by_exit);
}

void end_in_order() { in_order = true; }

} // namespace heddle
