// What a long command says while it works: one line that is rewritten on a terminal, nothing elsewhere; and how
// long each stage took, for `--timings`.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

class Progress {
public:
  enum class Show { nothing, line };
  explicit Progress(Show show) : show_(show) {}
  ~Progress() { clear(); }

  /// Begins a stage with that many steps; ends the one before.
  void stage(const std::string &name, int64_t steps = 1);
  /// May be called from any thread.
  void step();
  /// Ends the last stage and removes the line.
  void clear();

  /// Seconds per finished stage, in order.
  const std::vector<std::pair<std::string, double>> &timings() const { return timings_; }

private:
  void draw();

  using Clock = std::chrono::steady_clock;
  Show show_;
  std::mutex mutex_;
  std::string name_;
  int64_t done_ = 0, steps_ = 0;
  Clock::time_point begun_, drawn_;
  std::vector<std::pair<std::string, double>> timings_;
};

} // namespace heddle
