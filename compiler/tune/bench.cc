// What a worker says last tells what it was doing when it ended. The option that it ended in is left out, and another
// worker measures the others.
#include "compiler/tune/bench.h"

#include "compiler/tune/worker.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <numeric>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::tune {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr double compile_limit = 60, run_limit = 5; // seconds
constexpr double usual_times = 200;                 // a candidate may take, of what option 0 takes
constexpr double memory_beside = 3e9;               // bytes: compiler, code, scratch
constexpr double least_turns = 0.3, most_turns = 3; // seconds of all turns

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A process that reads a job and says what it does.
class Worker {
public:
  explicit Worker(const std::string &job) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0)
      return;
    if (pipe2(out, O_CLOEXEC) != 0) {
      close(in[0]), close(in[1]);
      return;
    }
    std::string word(worker_word);
    char program[] = "heddle";
    char *arguments[] = {program, word.data(), nullptr};
    pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL); // it does not outlive the search
      if (getppid() != parent)
        _exit(1);
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      int nowhere = ::open("/dev/null", O_WRONLY);
      dup2(nowhere, STDERR_FILENO); // a crash is told of by its signal
      execv("/proc/self/exe", arguments);
      _exit(1);
    }
    close(in[0]);
    close(out[1]);
    from_ = out[0];
    for (size_t written = 0; process_ > 0 && written < job.size();) {
      ssize_t count = write(in[1], job.data() + written, job.size() - written);
      if (count < 0 && errno != EINTR)
        break;
      written += count > 0 ? size_t(count) : 0;
    }
    close(in[1]);
  }
  ~Worker() {
    stop();
    if (from_ >= 0)
      close(from_);
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  enum class Heard { line, end, nothing };
  /// The next line, within so many seconds.
  Heard next(std::string &line, double seconds) {
    Clock::time_point begin = Clock::now();
    for (;;) {
      if (size_t end = heard_.find('\n'); end != std::string::npos) {
        line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return Heard::line;
      }
      double left = seconds - since(begin);
      pollfd pipe{from_, POLLIN, 0};
      if (left <= 0)
        return Heard::nothing;
      if (poll(&pipe, 1, int(std::min(left, 1.0) * 1000) + 1) <= 0)
        continue;
      char bytes[4096];
      ssize_t count = read(from_, bytes, sizeof bytes);
      if (count == 0 || (count < 0 && errno != EINTR))
        return Heard::end;
      heard_.append(bytes, count > 0 ? size_t(count) : 0);
    }
  }

  /// Ends it; the status that it ended with by itself, if it has.
  int stop() {
    int status = 0;
    if (process_ > 0) {
      kill(process_, SIGKILL);
      while (waitpid(process_, &status, 0) < 0 && errno == EINTR)
        ;
    }
    process_ = -1;
    return status;
  }
  /// How it ended by itself.
  int wait() {
    int status = 0;
    while (process_ > 0 && waitpid(process_, &status, 0) < 0 && errno == EINTR)
      ;
    process_ = -1;
    return status;
  }

private:
  pid_t process_ = -1;
  int from_ = -1;
  std::string heard_;
};

std::string end_text(int status) {
  if (WIFSIGNALED(status)) {
    const char *name = sigabbrev_np(WTERMSIG(status));
    return "it crashed (SIG" + std::string(name ? name : "?") + ")";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory)
    return "it ran out of memory";
  return "it ended the process";
}

/// What a worker has said of its options.
struct Report {
  std::vector<Outcome> outcomes;
  double peak = 0;
  bool done = false, timed_out = false;
  std::set<size_t> busy;  // with these when it ended
  bool compiling = false; // them, not running
  std::string why;        // it ended
};

Report listen(Worker &worker, size_t options, Clock::time_point begin, double limit) {
  Report out;
  out.outcomes.resize(options);
  double usual = 0;
  while (!out.done) {
    double allowed = out.busy.empty() ? compile_limit
                     : out.compiling  ? compile_limit
                                      : std::max(run_limit, usual_times * usual);
    double left = limit - since(begin);
    std::string text;
    switch (worker.next(text, std::min(allowed, left))) {
    case Worker::Heard::nothing:
      out.timed_out = left <= allowed;
      worker.stop();
      out.why = "it was not done in " + std::to_string(int(allowed)) + " s";
      return out;
    case Worker::Heard::end:
      out.why = end_text(worker.wait());
      return out;
    case Worker::Heard::line:
      break;
    }
    Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    auto number = [&](const char *key) { return line.contains(key) ? int64_t(line[key]) : -1; };
    if (line.is_discarded())
      continue;
    if (int64_t i = number("compiling"); i >= 0) {
      out.busy.insert(size_t(i));
      out.compiling = true;
    } else if (int64_t i = number("compiled"); i >= 0) {
      out.busy.erase(size_t(i));
    } else if (int64_t i = number("running"); i >= 0) {
      out.busy = {size_t(i)};
      out.compiling = false;
    } else if (int64_t i = number("ran"); i >= 0) {
      out.busy.clear();
      usual = i == 0 ? double(line["seconds"]) : usual;
    } else if (int64_t i = number("fault"); i >= 0) {
      out.outcomes[size_t(i)].fault = line["why"];
      out.busy.erase(size_t(i));
    } else if (int64_t i = number("result"); i >= 0) {
      out.outcomes[size_t(i)].seconds = line["seconds"];
    } else if (line.contains("peak")) {
      out.peak = line["peak"];
    } else if (line.contains("done")) {
      out.done = true;
    }
  }
  return out;
}

} // namespace

Batch ProcessBench::measure(const Task &task, std::span<const size_t> options, double limit) {
  Clock::time_point begin = Clock::now();
  Batch out;
  out.outcomes.resize(options.size());
  std::vector<size_t> left(options.size()); // numbers among `options`
  std::iota(left.begin(), left.end(), 0);
  bool serial = false;
  while (since(begin) < limit && (left.size() > 1 || (left.size() == 1 && options.size() == 1))) {
    double all = 0;
    Json texts = Json::array();
    for (size_t i : left) {
      const Option &option = task.options[options[i]];
      texts.push_back(option.text);
      all += option.expected;
    }
    Worker worker(Json{
        {"target", target_},
        {"threads", threads_},
        {"sizes", task.sizes},
        {"scalars", task.scalars},
        {"seconds", std::clamp(40 * all, least_turns, most_turns)},
        {"work", std::max(task.operations, task.bytes)},
        {"weights", task.weights},
        {"memory", uint64_t(memory_beside + 1.5 * task.memory * double(left.size()))},
        {"serial", serial},
        {"options",
         texts}}.dump());
    Report report = listen(worker, left.size(), begin, limit);
    out.peak = std::max(out.peak, report.peak);
    std::vector<size_t> again;
    bool blamed = false;
    for (size_t i = 0; i < left.size(); ++i) {
      Outcome &outcome = out.outcomes[left[i]];
      if (!report.outcomes[i].fault.empty()) {
        outcome = report.outcomes[i];
      } else if (!report.done && !report.timed_out && report.busy.size() == 1 && report.busy.contains(i)) {
        outcome.fault = report.why;
        blamed = true;
      } else {
        outcome = report.outcomes[i];
        again.push_back(left[i]);
      }
    }
    if (!out.outcomes[0].fault.empty())
      out.failure = out.outcomes[0].fault;
    if (report.done || report.timed_out || !out.failure.empty())
      break;
    if (!blamed) {
      if (serial || report.busy.empty()) { // nobody's fault
        out.failure = report.why;
        break;
      }
      serial = true; // several were compiled at once: which one was it?
    }
    left = again;
  }
  out.wall = since(begin);
  return out;
}

} // namespace heddle::tune
