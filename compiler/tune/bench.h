// Who measures candidates, as the search sees it: one that asks worker processes, and in tests one that makes numbers
// up.
#pragma once

#include "compiler/targets/target.h"
#include "compiler/tune/task.h"

#include <span>

namespace heddle::tune {

struct Outcome {
  double seconds = 0;     // 0: it was not measured
  std::string fault;      // why it can't be
  bool elsewhere = false; // another host has said so
};

struct Batch {
  std::vector<Outcome> outcomes; // of each option
  double wall = 0;               // seconds that this took
  double peak = 0;               // operations per second of one thread, undisturbed
  std::string failure;           // why nothing of the kernel can be measured; empty: it was
};

class Bench {
public:
  virtual ~Bench() = default;
  /// Times these options of a task side by side, the first of which the results of the others are compared with. Ends
  /// within `limit` seconds; what is not finished by then has no outcome.
  virtual Batch measure(const Task &task, std::span<const size_t> options, double limit) = 0;
  /// How many machines measure a batch's options at once, each a share of them.
  virtual size_t width() const { return 1; }
};

/// Measures in processes of its own, which it starts as this program.
class ProcessBench : public Bench {
public:
  ProcessBench(std::string target, int threads) : target_(std::move(target)), threads_(threads) {}
  Batch measure(const Task &task, std::span<const size_t> options, double limit) override;

private:
  std::string target_;
  int threads_;
};

} // namespace heddle::tune
