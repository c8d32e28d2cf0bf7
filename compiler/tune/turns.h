// What samples of time say. A disturbance makes a sample longer; a clock that stands still for a moment, as a virtual
// machine's may, makes it shorter, so the least of them says no more than the largest.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle::tune {

/// The clock that work of so many threads is timed with. Of one thread it counts its own time, which others' turns on
/// its CPU don't lengthen.
double clock_seconds(int threads);

/// What something takes undisturbed: the lower quartile of its samples, of three the one in the middle; 0 of none.
/// Samples below an eighth of the median don't count.
double undisturbed_seconds(std::vector<double> samples);

/// Candidates that are timed in turns, and how fast the machine was meanwhile.
class Turns {
public:
  /// `work`: operations, or bytes, of one call of any of the candidates.
  Turns(size_t candidates, int threads, double work) : samples_(candidates), threads_(threads), work_(work) {}

  /// With the seconds of an operation on one thread, before and after the turn.
  void begin_turn(double operation);
  void end_turn(double operation);
  /// A candidate's seconds of a call, in the turn that has begun.
  void add(size_t candidate, double seconds) { samples_[candidate].push_back({turns_.size() - 1, seconds}); }

  /// Operations per second of one thread; 0 before the first turn.
  double peak() const;
  /// Turns in which a candidate was timed and the machine was at its peak.
  size_t calm_turns(size_t candidate) const;
  /// Seconds of a call in calm turns, in all turns where there was no calm one; 0 where nothing is known. What claims
  /// more work than the machine's peak by far is not known.
  double seconds(size_t candidate) const;
  /// In all turns.
  double hasty_seconds(size_t candidate) const { return seconds_of(candidate, false); }

private:
  struct Sample {
    size_t turn;
    double seconds;
  };
  bool is_calm(size_t turn) const;
  double seconds_of(size_t candidate, bool calm) const;

  std::vector<std::vector<Sample>> samples_; // by candidate
  std::vector<double> turns_;                // seconds of an operation, before or after, whichever took longer
  std::vector<double> operations_;           // all of them
  int threads_;
  double work_;
};

} // namespace heddle::tune
