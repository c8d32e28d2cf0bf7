// A signal's handler may do next to nothing, so a thread of its own does the rest: handlers write to its pipe. Whoever
// is hit by a fault waits there for the end; a thread that is interrupted, or told to end, goes on meanwhile.
#include "compiler/driver/signals.h"

#include "compiler/driver/model.h"
#include "compiler/io/unfinished.h"

#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace heddle {

namespace {

struct Event {
  int signal;    // no_memory: none
  void *address; // SIGBUS: of what could not be read or written
};
constexpr int no_memory = 0;

constexpr int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int crashes[] = {SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
constexpr int ends[] = {SIGQUIT, SIGXCPU}; // as they are by default, but nothing stays behind
constexpr unsigned most_seconds = 10;      // for tidying up after a fault, which may have hit malloc

int events[2] = {-1, -1};
std::atomic<bool> in_order = false;
std::atomic<std::atomic<bool> *> finishes = nullptr;

constexpr size_t reserve_bytes = 8 << 20; // for a message and tidying up where memory has run out
std::atomic<void *> reserve = nullptr;

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

/// An allocation of any thread that fails ends the command: libraries don't expect one to, and some abort.
static void take_no_memory() {
  std::free(reserve.exchange(nullptr));
  Event event{no_memory, nullptr};
  [[maybe_unused]] ssize_t written = write(events[1], &event, sizeof event);
  for (;;)
    pause();
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
  if (event.signal == no_memory) {
    clear_progress();
    print_error({"there is not enough memory for this"}); // first: what follows may wait for a lock of the thread
    remove_unfinished();
    _exit(1);
  }
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
  sigset_t own; // every other thread may block it, and this one does: whoever is hit waits in its handler
  sigemptyset(&own);
  sigaddset(&own, event.signal);
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  raise(event.signal);
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

static void wait_for_events() {
  sigset_t all; // faults of this thread end the process at once
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  Event event;
  ssize_t count;
  while ((count = read(events[0], &event, sizeof event)) == sizeof event || (count < 0 && errno == EINTR)) {
    std::atomic<bool> *asked = finishes;
    if (count > 0 && (event.signal != SIGINT || !asked || asked->exchange(true)))
      end_by(event);
  }
}

/// LLVM has found that it can't go on: no thread can be made, say.
static void take_fatal_error(void *, const char *why, bool) {
  auto lock = no_end_meanwhile();
  clear_progress();
  print_error({"LLVM cannot go on: " + std::string(why)});
  remove_unfinished();
  _exit(1);
}

void take_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  llvm::install_fatal_error_handler(take_fatal_error);
  if (pipe2(events, O_CLOEXEC) != 0)
    return; // no descriptors are left: what follows will say so
  try {
    std::thread(wait_for_events).detach();
  } catch (const std::system_error &) {
    return; // no memory is left, or too many threads run: likewise
  }
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
  reserve = std::malloc(reserve_bytes);
  std::set_new_handler(take_no_memory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { take_no_memory(); });
}

void finish_on_interrupt(std::atomic<bool> *asked) { finishes = asked; }

void end_in_order() { in_order = true; }

} // namespace heddle
