// The child writes one record per program: kind, counts, length of the text, text.
#include "tests/fuzz/programs/attempt.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::fuzz {

namespace {

struct Record {
  int64_t kind, compared, free, kernels, length; // the first `kernels` bytes of the text are about them
  double seconds;
};

void write_all(int to, const void *bytes, size_t size) {
  for (const char *at = static_cast<const char *>(bytes); size > 0;) {
    ssize_t wrote = write(to, at, size);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote <= 0)
      _exit(0); // nobody listens any more
    at += wrote;
    size -= size_t(wrote);
  }
}

} // namespace

Worker::Worker(std::vector<uint64_t> seeds, std::function<std::string(uint64_t)> text_of, bool compile)
    : seeds_(std::move(seeds)), text_of_(std::move(text_of)), compile_(compile) {}

Worker::~Worker() { stop(); }

void Worker::start() {
  int ends[2];
  if (pipe(ends) != 0)
    return;
  std::fflush(nullptr);
  child_ = fork();
  if (child_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); // the campaign decides
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    for (uint64_t seed : seeds_) {
      std::clock_t begun = std::clock();
      Verdict verdict = examine(text_of_(seed), compile_);
      std::string text = verdict.kernels + verdict.what;
      Record record{verdict.kind,         verdict.compared,
                    verdict.free,         int64_t(verdict.kernels.size()),
                    int64_t(text.size()), double(std::clock() - begun) / CLOCKS_PER_SEC};
      write_all(ends[1], &record, sizeof record);
      write_all(ends[1], text.data(), text.size());
    }
    _exit(0);
  }
  close(ends[1]);
  pipe_ = ends[0];
  buffer_.clear();
  lost_by_ = nullptr;
}

void Worker::stop() {
  if (pipe_ >= 0)
    close(pipe_);
  pipe_ = -1;
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  child_ = -1;
}

/// CPU that a process has used, in seconds.
static double cpu_of(pid_t process) {
  clockid_t clock;
  timespec used = {};
  if (clock_getcpuclockid(process, &clock) == 0)
    clock_gettime(clock, &used);
  return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
}

/// Whether each thread of a process sleeps: one that is ready to run, stopped, or reads memory back from disk, waits
/// for the machine and not for the program.
static bool sleeps(pid_t process) {
  std::error_code gone;
  for (std::filesystem::directory_iterator at("/proc/" + std::to_string(process) + "/task", gone), end;
       !gone && at != end; at.increment(gone)) {
    std::string stat;
    std::getline(std::ifstream(at->path() / "stat"), stat);
    size_t name = stat.rfind(") "); // it may hold parentheses, too
    if (name != stat.npos && stat[name + 2] != 'S')
      return false;
  }
  return true;
}

bool Worker::fill() {
  // What counts is the time that the child gets, not what passes: the machine may be busy, and both may be stopped.
  pollfd wait{pipe_, POLLIN, 0};
  double begun = cpu_of(child_), last = begun;
  for (int idle = 0;;) {
    int ready = poll(&wait, 1, 1000);
    if (ready > 0)
      break;
    if (ready < 0 && errno != EINTR)
      return false;
    double now = cpu_of(child_);
    idle = now > last || !sleeps(child_) ? 0 : idle + 1;
    last = now;
    if (now - begun > seconds_per_program || idle > seconds_per_program) {
      lost_by_ = now - begun > seconds_per_program ? " s of CPU" : " s in which every thread slept";
      return false;
    }
  }
  char bytes[4096];
  ssize_t got = ::read(pipe_, bytes, sizeof bytes);
  if (got <= 0)
    return false;
  buffer_.append(bytes, size_t(got));
  return true;
}

std::optional<Worker::Finished> Worker::next() {
  if (seeds_.empty())
    return std::nullopt;
  if (child_ < 0)
    start();
  uint64_t seed = seeds_.front();
  Record record{};
  auto whole = [&] {
    if (buffer_.size() < sizeof record)
      return false;
    std::memcpy(&record, buffer_.data(), sizeof record);
    return buffer_.size() >= sizeof record + size_t(record.length);
  };
  while (!whole())
    if (!fill()) {
      Finished lost{seed, {}};
      lost.verdict.kind = lost_by_ ? Verdict::hang : Verdict::crash;
      int status = 0;
      if (!lost_by_ && waitpid(child_, &status, 0) == child_)
        child_ = -1;
      lost.verdict.what = lost_by_              ? "no answer within " + std::to_string(seconds_per_program) + lost_by_
                          : WIFSIGNALED(status) ? std::string("died of ") + strsignal(WTERMSIG(status))
                                                : "ended with status " + std::to_string(WEXITSTATUS(status));
      stop();
      seeds_.erase(seeds_.begin());
      return lost;
    }
  std::string text = buffer_.substr(sizeof record, size_t(record.length));
  size_t kernels = size_t(record.kernels);
  Finished out{seed,
               {Verdict::Kind(record.kind), text.substr(kernels), record.compared, record.free, text.substr(0, kernels),
                record.seconds}};
  buffer_.erase(0, sizeof record + size_t(record.length));
  seeds_.erase(seeds_.begin());
  return out;
}

Verdict attempt(const std::string &text, bool compile) {
  Worker worker({0}, [&](uint64_t) { return text; }, compile);
  return worker.next()->verdict;
}

} // namespace heddle::fuzz
