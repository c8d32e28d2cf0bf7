// Times are those of the library's observer, on this thread. Of many runs the least time of a group counts: anything
// else on the machine only takes away.
#include "compiler/driver/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

namespace heddle {

static constexpr size_t least_runs = 2;
static constexpr double tick_ms = 1e-6; // of the clock: no call takes less

using Clock = std::chrono::steady_clock;

static void fill(HostTensor &tensor, int64_t below, std::mt19937 &random) {
  int64_t count = tensor.view().count();
  if (tensor.dtype == DType::f32) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) {
      float value = normal(random);
      std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
    }
    return;
  }
  size_t width = byte_width(tensor.dtype);
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = below > 0 ? int64_t(random() % below) : 1;
    std::memcpy(tensor.bytes.data() + width * i, &value, width);
  }
}

Result<TensorMap> made_up_inputs(const Library &library, int entry, const std::vector<int64_t> &dims) {
  auto inputs = library.inputs(entry);
  if (!inputs)
    return inputs.error();
  std::mt19937 random(1);
  TensorMap out;
  for (const Library::Value &input : *inputs) {
    if (input.optional)
      continue; // its default is the usual case
    HostTensor tensor{input.dtype, {}, {}};
    for (size_t axis = 0; axis < input.dims.size(); ++axis) {
      if (input.dims[axis] < -1)
        return Error{"input `" + input.name + "` has a computed extent; none can be made up yet"};
      tensor.shape.push_back(input.dims[axis] < 0 ? input.fixed[axis] : dims[input.dims[axis]]);
    }
    double count = 1; // the library counts elements in 31 bits
    for (int64_t extent : tensor.shape)
      count *= double(extent);
    if (count > INT32_MAX)
      return Error{"input `" + input.name + "` would be " + shape_text(tensor.shape) +
                   "; a tensor has at most 2147483647 elements"};
    tensor.bytes.resize(tensor.view().count() * byte_width(tensor.dtype));
    fill(tensor, input.below, random);
    out.emplace(input.name, std::move(tensor));
  }
  return out;
}

Result<RepeatedCall> RepeatedCall::begin(Library &library, int entry, TensorMap inputs) {
  RepeatedCall out(library, entry, std::move(inputs));
  if (library.keeps_state()) {
    auto state = library.save();
    if (!state)
      return state.error();
    out.state_ = std::move(*state);
  }
  auto results = library.run(entry, out.inputs_);
  if (!results)
    return results.error();
  out.results_ = std::move(*results);
  return out;
}

Result<double> RepeatedCall::again() {
  if (!state_.empty())
    if (Status restored = library_->restore(state_); !restored)
      return restored.error();
  auto begin = Clock::now();
  if (Status ran = library_->run_into(entry_, inputs_, results_); !ran)
    return ran.error();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

Result<std::vector<CallTime>> RepeatedCall::time_kernels(bool each, double least_seconds) {
  struct Sample {
    std::string key;
    CallTime time;
    double ms = 0; // of this run
  };
  std::vector<Sample> samples;
  Clock::time_point begun;
  library_->observe([&](const char *kernel, bool begins) {
    Clock::time_point now = Clock::now();
    if (begins) {
      begun = Clock::now();
      return;
    }
    std::string_view text = kernel, name = text.substr(0, text.find(' ')), key = each ? text : name;
    auto found = std::find_if(samples.begin(), samples.end(), [&](const Sample &sample) { return sample.key == key; });
    if (found == samples.end())
      found = samples.insert(
          samples.end(),
          {std::string(key), {std::string(name), std::string(text.substr(std::min(text.size(), name.size() + 1)))}});
    ++found->time.calls;
    found->ms += std::chrono::duration<double, std::milli>(now - begun).count();
  });
  std::optional<Error> failed;
  auto begin = Clock::now();
  for (size_t run = 0;
       !failed && (run < least_runs || std::chrono::duration<double>(Clock::now() - begin).count() < least_seconds);
       ++run) {
    for (Sample &sample : samples)
      sample.time.calls = 0, sample.ms = 0;
    if (auto ran = again(); !ran)
      failed = ran.error();
    for (Sample &sample : samples)
      if (sample.time.calls > 0)
        sample.time.ms = std::max(tick_ms, sample.time.ms > 0 ? std::min(sample.time.ms, sample.ms) : sample.ms);
  }
  library_->observe(nullptr);
  if (failed)
    return *failed;
  std::vector<CallTime> out;
  for (Sample &sample : samples)
    out.push_back(std::move(sample.time));
  return out;
}

Result<std::vector<SharedCallTime>> RepeatedCall::time_tasks(double least_seconds) {
  std::vector<SharedCallTime> calls;
  size_t number = 0, loop = 0; // of the kernel that runs, and of the loop in it, from 1
  Clock::time_point kernel_begun, task_begun;
  auto least = [](double &known, Clock::time_point begun) {
    double ms = std::max(tick_ms, std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
    known = known > 0 ? std::min(known, ms) : ms;
  };
  library_->observe([&](const char *kernel, bool begins) {
    if (begins) {
      if (number == calls.size())
        calls.push_back({std::string(std::string_view(kernel).substr(0, std::string_view(kernel).find(' '))), 0, {}});
      loop = 0;
      kernel_begun = Clock::now();
    } else {
      least(calls[number++].ms, kernel_begun);
    }
  });
  library_->observe_tasks([&](int task, bool begins) {
    if (number == calls.size()) // none of a kernel's
      return;
    std::vector<LoopTime> &loops = calls[number].loops;
    if (begins) {
      if (task == 0 && ++loop > loops.size())
        loops.emplace_back();
      LoopTime &times = loops[loop - 1];
      times.resize(std::max(times.size(), size_t(task) + 1));
      task_begun = Clock::now();
    } else {
      least(loops[loop - 1][size_t(task)], task_begun);
    }
  });
  std::optional<Error> failed;
  auto begin = Clock::now();
  for (size_t run = 0;
       !failed && (run < least_runs || std::chrono::duration<double>(Clock::now() - begin).count() < least_seconds);
       ++run) {
    number = 0;
    if (auto ran = again(); !ran)
      failed = ran.error();
  }
  library_->observe(nullptr);
  library_->observe_tasks(nullptr);
  if (failed)
    return *failed;
  return calls;
}

std::string time_text(double ms) {
  char text[32];
  double us = ms * 1000;
  if (us < 10)
    std::snprintf(text, sizeof text, us < 1 ? "%.3f us" : "%.2f us", us);
  else
    std::snprintf(text, sizeof text, us < 1000 ? "%.1f us" : "%.3f ms", us < 1000 ? us : ms);
  return text;
}

} // namespace heddle
