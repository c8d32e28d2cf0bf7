// Which turns were calm is asked of all that is known by then: a turn may turn out to have been a slow one.
#include "compiler/tune/turns.h"

#include <algorithm>
#include <set>

#include <time.h>

namespace heddle::tune {

double clock_seconds(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static constexpr double calm = 0.93; // of the peak
static constexpr double no_time = 8; // a sample so much below the median is a clock's, not the machine's
// Operations to one multiply-add of f32: matrix units do 32, and kernels skip a part of the points counted.
static constexpr double no_machine = 128;

double undisturbed_seconds(std::vector<double> samples) {
  if (samples.empty())
    return 0;
  std::ranges::sort(samples);
  double least = samples[samples.size() / 2] / no_time;
  std::erase_if(samples, [&](double sample) { return sample < least || sample <= 0; });
  return samples.empty() ? 0 : samples[(samples.size() + 1) / 4];
}

void Turns::begin_turn(double operation) {
  turns_.push_back(operation);
  operations_.push_back(operation);
}

void Turns::end_turn(double operation) {
  turns_.back() = std::max(turns_.back(), operation);
  operations_.push_back(operation);
}

double Turns::peak() const {
  double operation = undisturbed_seconds(operations_);
  return operation > 0 ? 1 / operation : 0;
}

bool Turns::is_calm(size_t turn) const { return turns_[turn] * calm <= undisturbed_seconds(operations_); }

size_t Turns::calm_turns(size_t candidate) const {
  std::set<size_t> out;
  for (const Sample &sample : samples_[candidate])
    if (is_calm(sample.turn))
      out.insert(sample.turn);
  return out.size();
}

double Turns::seconds_of(size_t candidate, bool calm) const {
  double least = peak() > 0 ? work_ / (peak() * threads_ * no_machine) : 0;
  std::vector<double> out;
  for (const Sample &sample : samples_[candidate])
    if (sample.seconds >= least && (!calm || is_calm(sample.turn)))
      out.push_back(sample.seconds);
  return undisturbed_seconds(std::move(out));
}

double Turns::seconds(size_t candidate) const {
  double out = seconds_of(candidate, true);
  return out > 0 ? out : hasty_seconds(candidate);
}

} // namespace heddle::tune
