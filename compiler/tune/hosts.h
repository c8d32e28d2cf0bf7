// Several processes that search together, each on a host of its own: the first one searches and has the database, the
// others measure what it asks for. A batch is shared out among them; the usual schedule is measured by each, so that
// all times come on one scale.
#pragma once

#include "compiler/tune/bench.h"

#include <memory>

namespace heddle::tune {

/// Messages between them, by number; 0 is the process that searches.
class Hosts {
public:
  virtual ~Hosts() = default;
  virtual int count() const = 0;
  virtual int self() const = 0;
  virtual void send(int to, const std::string &text) = 0;
  virtual std::string receive(int from) = 0; // empty: the other one is at its end

  /// The processes that mpirun has started with this one; null where it has started one, or where nobody did. Fails
  /// where their machines are not of one kind.
  static Result<std::unique_ptr<Hosts>> join();
};

/// Measures a batch on all of them, as number 0. `own`: what measures here.
class SharedBench : public Bench {
public:
  SharedBench(Bench &own, Hosts &hosts, std::string target, int threads)
      : own_(own), hosts_(hosts), target_(std::move(target)), threads_(threads) {}
  Batch measure(const Task &task, std::span<const size_t> options, double limit) override;
  size_t width() const override { return size_t(hosts_.count()); }

private:
  Bench &own_;
  Hosts &hosts_;
  std::string target_;
  int threads_;
};

/// Measures what number 0 asks for, until its end.
void measure_for_others(Hosts &hosts);

} // namespace heddle::tune
