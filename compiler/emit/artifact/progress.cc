// Redrawn at most every 50 ms, so that fast steps cost nothing.
#include "compiler/emit/artifact/progress.h"

#include <cstdio>

namespace heddle {

static constexpr auto redraw = std::chrono::milliseconds(50);

void Progress::stage(const std::string &name, int64_t steps) {
  clear();
  std::lock_guard lock(mutex_);
  name_ = name;
  done_ = 0;
  steps_ = steps;
  begun_ = Clock::now();
  draw();
}

void Progress::step() {
  std::lock_guard lock(mutex_);
  ++done_;
  if (Clock::now() - drawn_ > redraw)
    draw();
}

void Progress::clear() {
  std::lock_guard lock(mutex_);
  if (name_.empty())
    return;
  timings_.push_back({name_, std::chrono::duration<double>(Clock::now() - begun_).count()});
  name_.clear();
  if (show_ == Show::line)
    std::fprintf(stderr, "\r\033[K");
}

void Progress::draw() {
  if (show_ == Show::nothing)
    return;
  drawn_ = Clock::now();
  if (steps_ > 1)
    std::fprintf(stderr, "\r\033[K%s %lld of %lld", name_.c_str(), (long long)done_, (long long)steps_);
  else
    std::fprintf(stderr, "\r\033[K%s", name_.c_str());
  std::fflush(stderr);
}

} // namespace heddle
