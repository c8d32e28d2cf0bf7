// The search for the fastest option of each task, by measurement, with every finished batch kept in the database: it
// may be ended at any moment and goes on where it was. What is measured next depends on what is known and the seed
// alone.
#pragma once

#include "compiler/choose/records.h"
#include "compiler/tune/bench.h"
#include "compiler/tune/database.h"
#include "compiler/tune/task.h"

#include <functional>

namespace heddle::tune {

/// What is known of a task's options.
struct Found {
  std::vector<double> seconds; // of a call, 0: not measured; all on the scale of the first measurement of option 0
  std::vector<std::string> faults;
  std::string failure; // why nothing of the kernel can be measured
  int batches = 0;

  bool known(size_t option) const { return seconds[option] > 0 || !faults[option].empty(); }
  size_t measured() const;
  /// The fastest option, 0 where none is known.
  size_t best() const;
};

class Searcher {
public:
  /// `budget`: seconds of measuring. The name of the search follows from the tasks and the place.
  Searcher(std::vector<Task> tasks, Place place, int64_t seed, Database &database, Bench &bench);

  /// Takes what the database knows; `resume`: also what an earlier search of these tasks has spent.
  Status load(bool resume);
  /// Measures until so many seconds are spent or nothing is left; asks before each batch whether to go on.
  Status run(double budget, const std::function<bool()> &go_on);
  /// Measures the fastest options that this run has found once more, beside option 0: the fastest of many is also the
  /// luckiest. The longer time counts.
  Status verify(double budget, const std::function<bool()> &go_on);
  /// Compilations may use what was measured of these tasks.
  Status confirm(const std::vector<size_t> &tasks);

  const std::vector<Task> &tasks() const { return tasks_; }
  const Found &found(size_t task) const { return found_[task]; }
  double spent() const { return state_.spent; }
  bool finished() const { return state_.finished; } // confirmed before, with nothing left to measure then
  size_t measured_now() const { return measured_now_; }
  size_t measured_elsewhere() const { return measured_elsewhere_; } // of these, by other hosts
  /// Whether some option of a task is not known yet.
  bool is_open(size_t task) const;
  /// Seconds of one run of all entries, by the best options known and by option 0; expected ones count as measured
  /// where nothing is.
  double best_seconds() const;
  double usual_seconds() const;
  /// What became known of a task: the seconds of a call by its best option.
  struct Moment {
    double spent;
    size_t task;
    double seconds;
  };
  const std::vector<Moment> &curve() const { return curve_; }
  double peak() const { return peak_; } // operations per second of one thread
  /// What compilations would go by: of all tasks, or of these.
  std::shared_ptr<const Records> records(const std::vector<size_t> &tasks) const;

private:
  std::optional<size_t> next_task() const;
  std::vector<size_t> next_options(size_t task) const;
  Status measure(size_t task, double limit);
  Record record_of(size_t task, size_t option) const;

  std::vector<Task> tasks_;
  std::vector<Found> found_;
  std::vector<bool> changed_; // tasks that this run has measured options of
  Place place_;
  Database &database_;
  Bench &bench_;
  Search state_;
  std::vector<Moment> curve_;
  size_t measured_now_ = 0, measured_elsewhere_ = 0;
  double peak_ = 0;
};

} // namespace heddle::tune
