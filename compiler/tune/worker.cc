// Candidates are compiled on all CPUs, checked one by one, and timed in turns. Between turns the machine's own peak is
// looked at: a turn in which it is low was disturbed, and does not count.
#include "compiler/tune/worker.h"

#include "compiler/emit/artifact/parallel.h"
#include "compiler/tune/candidate.h"
#include "compiler/tune/roof.h"
#include "compiler/tune/turns.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>

#include <sys/resource.h>
#include <unistd.h>

namespace heddle::tune {

namespace {

using Json = nlohmann::json;

constexpr size_t least_turns = 5;
constexpr int most_turns = 60;
constexpr int turns_for_all = 3;        // from then on those that are far behind rest
constexpr double far_behind = 1.2;      // of the fastest
constexpr double least_sample = 100e-6; // seconds of calls of one candidate in a turn
constexpr long peak_rounds = 20000;     // some 100 us

void say(const Json &line) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::string text = line.dump() + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

double wall() { return clock_seconds(0); }

/// Takes everything out of the caches, by reading twice what the last one holds, at most 128 MiB.
class Sweep {
public:
  Sweep() : bytes_(std::clamp(2 * sysconf(_SC_LEVEL3_CACHE_SIZE), 32L << 20, 128L << 20), 1) {}
  void operator()() const {
    for (size_t at = 0; at < bytes_.size(); at += 64)
      static_cast<void>(static_cast<const volatile char &>(bytes_[at]));
  }

private:
  std::vector<char> bytes_;
};

struct Timed {
  size_t number;
  double once; // seconds of a call, roughly
};

class Job {
public:
  explicit Job(const Json &job)
      : target_(*find_target(job.at("target").get<std::string>())), threads_(job.at("threads")),
        seconds_(job.at("seconds")), work_(job.at("work")), sizes_(job.at("sizes")), scalars_(job.at("scalars")),
        serial_(job.value("serial", false)), cold_(job.value("weights", 0.0) > double(target_.l2)) {
    for (const Json &text : job.at("options"))
      texts_.push_back(text);
    candidates_.resize(texts_.size());
  }

  void run() {
    auto compile = [&](int64_t i) {
      say({{"compiling", i}});
      auto candidate = std::make_unique<Candidate>();
      Status made = candidate->compile(texts_[size_t(i)], target_, threads_);
      if (made)
        candidates_[size_t(i)] = std::move(candidate);
      else
        say({{"fault", i}, {"why", made.error().message}});
      say({{"compiled", i}});
      return true;
    };
    if (serial_)
      for (int64_t i = 0; i < int64_t(texts_.size()); ++i)
        compile(i);
    else
      for_each_parallel(int64_t(texts_.size()), compile);
    for (size_t i = 0; i < texts_.size(); ++i)
      check(i);
    take_turns();
    say({{"done", true}});
  }

private:
  void fault(size_t i, const std::string &why) {
    say({{"fault", i}, {"why", why}});
    candidates_[i].reset();
  }

  void check(size_t i) {
    if (!candidates_[i] || !candidates_[0])
      return;
    Candidate &candidate = *candidates_[i];
    say({{"running", i}});
    Status ready = candidate.prepare(sizes_, scalars_);
    if (!ready)
      return fault(i, ready.error().message);
    candidate.spoil_results();
    double begin = wall(); // never less than it takes
    int status = candidate.run();
    double once = wall() - begin;
    if (status != 0)
      return fault(i, "it failed with status " + std::to_string(status));
    if (std::string wrong = i ? candidate.difference(*candidates_[0]) : ""; !wrong.empty())
      return fault(i, wrong);
    say({{"ran", i}, {"seconds", once}});
    timed_.push_back({i, once});
  }

  void take_samples(Timed &one, Turns &turns) {
    int calls = cold_ ? 1 : std::clamp(int(least_sample / std::max(one.once, 1e-9)), 1, 1000);
    for (int part = 0; part < (calls > 1 ? 2 : 1); ++part) {
      double begin = clock_seconds(threads_);
      for (int call = 0; call < calls; ++call)
        candidates_[one.number]->run();
      turns.add(one.number, (clock_seconds(threads_) - begin) / calls);
    }
    if (double known = turns.hasty_seconds(one.number); known > 0)
      one.once = known;
  }

  void take_turns() {
    if (timed_.empty() || timed_[0].number != 0)
      return;
    Turns turns(candidates_.size(), threads_, work_);
    std::optional<Sweep> sweep;
    if (cold_)
      sweep.emplace();
    double begin = wall();
    for (int turn = 0; turn < most_turns; ++turn) {
      say({{"turn", turn}});
      if (sweep)
        (*sweep)();
      double fastest = 1e9;
      for (const Timed &one : timed_)
        fastest = std::min(fastest, one.once);
      auto is_behind = [&](const Timed &one) { return one.number != 0 && one.once >= far_behind * fastest; };
      turns.begin_turn(operation());
      for (Timed &one : timed_)
        if (turn < turns_for_all || !is_behind(one))
          take_samples(one, turns);
      turns.end_turn(operation());
      bool enough = true;
      for (const Timed &one : timed_)
        enough &= turns.calm_turns(one.number) >= least_turns || is_behind(one);
      if (wall() - begin > seconds_ * (enough ? 1 : 3))
        break;
    }
    for (const Timed &one : timed_)
      say({{"result", one.number}, {"seconds", turns.seconds(one.number)}});
    say({{"peak", turns.peak()}});
  }

  /// Seconds of an operation on one thread, now.
  static double operation() {
    double begin = clock_seconds(1);
    double operations = multiply("fma", peak_rounds);
    return (clock_seconds(1) - begin) / operations;
  }

  Target target_;
  int threads_;
  double seconds_, work_;
  std::vector<int64_t> sizes_, scalars_;
  bool serial_;
  bool cold_; // weights come from memory: in a model those of the other kernels have been read since the last call
  std::vector<std::string> texts_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::vector<Timed> timed_;
};

} // namespace

int run_worker() {
  std::signal(SIGINT, SIG_IGN); // the search's to answer
  rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  try {
    Json job = Json::parse(std::string(std::istreambuf_iterator<char>(std::cin), {}));
    rlimit memory{job.at("memory").get<rlim_t>(), job.at("memory").get<rlim_t>()};
    setrlimit(RLIMIT_DATA, &memory);
    Job(job).run();
    std::fflush(stdout);
    _exit(0); // threads of the candidates' pools may still run
  } catch (const std::bad_alloc &) {
    _exit(out_of_memory);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "heddle: a worker of the tuner got no job: %s\n", error.what());
    _exit(1);
  }
}

} // namespace heddle::tune
