// `tune`: records in and out of a database as text, and the search for records: the usual library first, then batches
// of candidates until the budget is nearly spent, then the library with what was found beside the usual one.
#include "compiler/driver/commands.h"
#include "compiler/driver/counted.h"
#include "compiler/driver/measure.h"
#include "compiler/driver/records.h"
#include "compiler/driver/signals.h"
#include "compiler/driver/tune_page.h"
#include "compiler/driver/tuned_model.h"
#include "compiler/io/input.h"
#include "compiler/io/output.h"
#include "compiler/io/unfinished.h"
#include "compiler/tune/bench.h"
#include "compiler/tune/database.h"
#include "compiler/tune/hosts.h"
#include "compiler/tune/machine.h"
#include "compiler/tune/search.h"
#include "runtime/cpu_features.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace heddle {

using Clock = std::chrono::steady_clock;

static Status export_records(const tune::Database &database, const std::string &path) {
  auto records = database.all();
  if (!records)
    return records.error();
  std::string text = tune::to_text(*records);
  if (path == "-")
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0
               ? Status(Done{})
               : Status(Error{std::string("standard output: cannot write: ") + std::strerror(errno)});
  if (Status written = write_file(path, text); !written)
    return written;
  std::printf("%s: %s of %s\n", path.c_str(), counted(records->size(), "record").c_str(), database.path().c_str());
  return Done{};
}

/// Seconds of "90s", "5m", "1h", "300".
static Result<double> read_budget(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double by = unit == "h" ? 3600 : unit == "m" ? 60 : unit == "s" || unit.empty() ? 1 : 0;
  if (end == text.c_str() || by == 0 || !(value > 0) || !std::isfinite(value))
    return Error{std::string(usage_mark) + "--budget wants a time such as 90s, 5m or 1h, not `" + text + "`"};
  return value * by;
}

namespace {

/// Ends the process when the time is up, whatever it does then: what was measured is kept already.
class Deadline {
public:
  explicit Deadline(double seconds)
      : thread_([this, seconds](std::stop_token stop) {
          std::unique_lock lock(mutex_);
          if (!over_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; }) &&
              !stop.stop_requested())
            end();
        }) {}

private:
  [[noreturn]] static void end() {
    remove_unfinished();
    if (isatty(STDERR_FILENO))
      std::fputs("\r\033[K", stderr);
    print_error({"the budget is over before the model was compiled and compared: give more than this, such as --budget "
                 "15m; what was measured is kept, and --resume goes on from it"});
    _exit(1);
  }

  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread thread_;
};

/// A search with its limits in time.
class Tuning {
public:
  /// `hosts`: that measure with this one, or null.
  Tuning(const TuneCommand &options, std::string database, tune::Hosts *hosts, Clock::time_point begun)
      : options_(options), path_(std::move(database)), hosts_(hosts), begun_(begun) {}

  Status run();
  tune::Database &database() { return *database_; } // after a run

private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
  Result<std::vector<size_t>> confirm(tune::Searcher &search, const CompileGoal &goal, TrialLibrary &usual);
  void show(const tune::Searcher &search);
  void report(const tune::Searcher &search, const std::vector<size_t> &kept) const;
  std::string sizes_of_call() const; // "B=1 S=128"

  const TuneCommand &options_;
  std::string path_;
  tune::Hosts *hosts_;
  std::optional<tune::Database> database_;
  Clock::time_point begun_;
  double budget_ = 0, reserve_ = 0;
  std::map<std::string, int64_t> dims_;
  std::optional<Model> model_;
  std::vector<std::string> left_out_;
  Comparison compared_;
  std::atomic<bool> asked_ = false; // Ctrl-C
};

} // namespace

static constexpr double for_options = 0.85; // of the time to measure; the rest is for the fastest ones once more
static constexpr double for_turns = 0.8;   // of the time left at the end: a call may take longer than the one before it
static constexpr double clear_gain = 0.97; // of the usual schedule's time: what is closer is not told from chance

/// The line that is rewritten while the search goes on.
void Tuning::show(const tune::Searcher &search) {
  if (!isatty(STDERR_FILENO))
    return;
  double operations = 0;
  size_t measured = 0, all = 0;
  for (size_t i = 0; i < search.tasks().size(); ++i) {
    operations += search.tasks()[i].calls * search.tasks()[i].operations;
    measured += search.found(i).measured();
    all += search.tasks()[i].options.size();
  }
  std::string roof = search.peak() > 0 ? ", roof " + time_text(operations / search.peak() * 1e3) : "";
  std::fprintf(stderr, "\r\033[K%s: %.0f of %.0f s, %zu of %zu candidates; best %s, usual %s%s",
               model_->library_name.c_str(), elapsed(), budget_, measured, all,
               time_text(search.best_seconds() * 1e3).c_str(), time_text(search.usual_seconds() * 1e3).c_str(),
               roof.c_str());
}

Status Tuning::run() {
  auto budget = read_budget(options_.budget);
  if (!budget)
    return budget.error();
  budget_ = *budget;
  Deadline deadline(budget_);
  CompileOptions without = options_.compile;
  without.db = "none";
  auto goal = find_compile_goal(without);
  if (!goal)
    return goal.error();
  goal->cache.clear(); // the time that it takes is kept back for the end of the search
  if (goal->target.gpu)
    return Error{"--target " + goal->target.name +
                 ": kernels of a GPU are timed where one is; --pack DIR writes a folder that does it"};
  if (goal->target.cpu_features() & ~heddle_host_cpu_features())
    return Error{"--target " + goal->target.name +
                 ": this machine can't run its code, so nothing can be measured here"};
  auto model = load_model(options_.model);
  if (!model)
    return model.error();
  model_ = std::move(*model);
  if (Status fits = require_weights(*model_); !fits)
    return fits;
  auto dims = all_sizes(options_.compile.dims, *model_->program);
  if (!dims)
    return dims.error();
  dims_ = *dims;
  if (Status can = try_to_write(options_.report); !can) // the inputs are known by now
    return can;
  auto database = tune::Database::write(path_);
  if (!database)
    return database.error();
  database_ = std::move(*database);

  Progress progress(Progress::Show::nothing);
  auto module = compile_module(*model_, *goal, passes::PipelineStage::schedule, progress);
  if (!module)
    return module.error();
  tune::Tasks tasks = tune::tasks_of(*module->module, goal->target);
  left_out_ = tasks.left_out;
  auto usual = TrialLibrary::make(*model_, *goal, dims_, options_.threads);
  if (!usual)
    return usual.error();
  // What comes after the search: the library again, and both of them in turns.
  double first = usual->first_seconds();
  reserve_ = 1 + 1.3 * usual->compile_seconds() + std::min(10 * first, 0.15 * budget_ + 4 * first);

  tune::ProcessBench own(goal->target.name, usual->threads());
  std::optional<tune::SharedBench> shared;
  if (hosts_)
    shared.emplace(own, *hosts_, goal->target.name, usual->threads());
  tune::Bench &bench = shared ? static_cast<tune::Bench &>(*shared) : own;
  tune::Searcher search(std::move(tasks.all), {tune::this_machine(), goal->target.name, usual->threads()},
                        options_.seed, *database_, bench);
  if (Status loaded = search.load(options_.resume); !loaded)
    return loaded;
  finish_on_interrupt(&asked_);
  auto go_on = [&] {
    show(search);
    return !asked_ && elapsed() < budget_ - reserve_;
  };
  double left = budget_ - elapsed() - reserve_;
  Status searched = search.run(for_options * left, go_on);
  if (searched)
    searched = search.verify(left, go_on);
  if (isatty(STDERR_FILENO))
    std::fputs("\r\033[K", stderr);
  if (!searched)
    return searched;
  std::vector<size_t> kept;
  if (!search.finished() || search.measured_now() > 0) {
    auto confirmed = confirm(search, *goal, *usual);
    if (!confirmed)
      return confirmed.error();
    kept = *confirmed;
  }
  finish_on_interrupt(nullptr);
  report(search, kept);
  if (options_.report.empty())
    return Done{};
  TuneFacts facts{model_->library_name, sizes_of_call(), tune::this_machine(), goal->target.name,
                  usual->threads(),     compared_,       !kept.empty(),        left_out_};
  return write_file(options_.report, tune_page(search, facts));
}

/// Which tasks' measurements compilations use from now on: of those that gain by them, where the whole model is not
/// slower.
Result<std::vector<size_t>> Tuning::confirm(tune::Searcher &search, const CompileGoal &goal, TrialLibrary &usual) {
  std::vector<size_t> gain;
  for (size_t i = 0; i < search.tasks().size(); ++i)
    if (const tune::Found &found = search.found(i); found.seconds[found.best()] < clear_gain * found.seconds[0])
      gain.push_back(i);
  if (!gain.empty()) {
    CompileGoal tuned = goal;
    tuned.target.records = search.records(gain);
    auto library = TrialLibrary::make(*model_, tuned, dims_, options_.threads);
    if (!library)
      return library.error();
    double first = usual.first_seconds(), left = for_turns * (budget_ - elapsed() - first) - 0.5;
    auto compared = compare_in_turns(usual, *library, std::clamp(left, 0.2, std::max(20.0, 6 * first)));
    if (!compared)
      return compared.error();
    compared_ = *compared;
    // Where no entry can be called by itself, the kernels' own times are all there is.
    if (compared_.rounds > 0 && compared_.after > compared_.before)
      gain.clear();
  }
  if (Status confirmed = search.confirm(gain); !confirmed)
    return confirmed.error();
  return gain;
}

std::string Tuning::sizes_of_call() const {
  std::string out;
  for (const auto &[name, value] : dims_)
    out += (out.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return out;
}

void Tuning::report(const tune::Searcher &search, const std::vector<size_t> &kept) const {
  std::string name = model_->library_name + (dims_.empty() ? "" : " ") + sizes_of_call();
  size_t measured = 0, all = 0, useless = 0;
  for (size_t i = 0; i < search.tasks().size(); ++i) {
    const tune::Found &found = search.found(i);
    measured += found.measured();
    all += search.tasks()[i].options.size() > 1 ? search.tasks()[i].options.size() : 0;
    useless += size_t(std::ranges::count_if(found.faults, [](const std::string &fault) { return !fault.empty(); }));
  }
  if (compared_.rounds > 0)
    std::printf("%s: %s before, %s with what was measured (%.3f), %s\n", name.c_str(),
                time_text(compared_.before * 1e3).c_str(), time_text(compared_.after * 1e3).c_str(),
                compared_.after / compared_.before, kept.empty() ? "not kept" : "kept");
  else if (search.measured_now() > 0 && kept.empty())
    std::printf("%s: no kernel has a schedule that is 3 %% faster than the usual one\n", name.c_str());
  std::string elsewhere = hosts_ ? " (" + std::to_string(search.measured_elsewhere()) + " by " +
                                       counted(size_t(hosts_->count()) - 1, "other process") + ")"
                                 : "";
  std::printf("%s: %zu of %zu candidates of %s measured, %zu of them now%s, %zu of no use; %.0f s\n", name.c_str(),
              measured, all, counted(search.tasks().size(), "kernel").c_str(), search.measured_now(), elsewhere.c_str(),
              useless, elapsed());
  for (size_t i = 0; i < search.tasks().size(); ++i) {
    const tune::Task &task = search.tasks()[i];
    const tune::Found &found = search.found(i);
    std::string at = tune::sizes_text(task.sizes),
                of = "  " + task.kernel + " " + task.kind + (at.empty() ? "" : " " + at);
    if (size_t best = found.best(); best > 0)
      std::printf("%s: %s -> %s, %s\n", of.c_str(), time_text(found.seconds[0] * 1e3).c_str(),
                  time_text(found.seconds[best] * 1e3).c_str(), task.options[best].row.c_str());
    for (size_t option = 0; option < task.options.size(); ++option)
      if (!found.faults[option].empty())
        std::printf("%s: %s: %s\n", of.c_str(), task.options[option].row.c_str(), found.faults[option].c_str());
    if (!found.failure.empty())
      std::printf("%s: not measured: %s\n", of.c_str(), found.failure.c_str());
  }
  for (const std::string &kernel : left_out_)
    std::printf("  %s: not measured: its sizes change from call to call\n", kernel.c_str());
}

Status tune_command(const TuneCommand &options) {
  auto begun = Clock::now();
  const std::string &db = options.compile.db;
  bool searches = !options.model.path.empty(), imports = !options.import_from.empty();
  auto wrong = [](const std::string &what) { return Error{usage_mark + what}; };
  if (db == "none")
    return wrong("--db none: a search keeps its records in a file; name one");
  if (!options.pack.empty() && !searches)
    return wrong("--pack " + options.pack + ": wants a MODEL, whose kernels are to be timed");
  if (!options.pack.empty())
    return pack_candidates(options);
  if (!searches && !imports && options.export_to.empty())
    return wrong("tune wants a MODEL, or --import or --export");
  if (options.export_to == "-" && (searches || imports))
    return wrong("--export -: standard output has what the search or the import says; name a file");
  if (options.report == "-")
    return wrong("--report -: a page is a file; name one");
  auto hosts = tune::Hosts::join();
  if (!hosts)
    return hosts.error();
  if (*hosts && (*hosts)->self() > 0) {
    tune::measure_for_others(**hosts);
    return Done{};
  }
  std::vector<tune::Record> imported;
  if (imports) {
    auto text = read_file(options.import_from);
    auto records = text ? tune::read_records(*text, options.import_from) : text.error();
    if (!records)
      return text ? Error{records.error().message + "\n"} : records.error(); // has its place
    imported = std::move(*records);
  }
  auto path = database_to_use(db);
  if (!path)
    return path.error();
  if (Status can = try_to_write(options.export_to == "-" ? "" : options.export_to); !can)
    return can;
  if (imports || !searches) {
    auto database = imports ? tune::Database::write(*path) : tune::Database::read(*path);
    if (!database)
      return database.error();
    if (imports) {
      if (Status added = database->add(imported, /*confirmed=*/true); !added)
        return added;
      std::printf("%s: %s from %s\n", path->c_str(), counted(imported.size(), "record").c_str(),
                  options.import_from.c_str());
    }
    if (!searches)
      return options.export_to.empty() ? Status(Done{}) : export_records(*database, options.export_to);
  }
  Tuning search(options, *path, hosts->get(), begun);
  if (Status done = search.run(); !done)
    return done;
  return options.export_to.empty() ? Status(Done{}) : export_records(search.database(), options.export_to);
}

} // namespace heddle
