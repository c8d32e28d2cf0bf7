// Measured times on the page: the observer names each call by its kernel and its first definition, and so do the steps
// of the facts.
#include "compiler/driver/measure.h"
#include "compiler/driver/page_facts.h"
#include "compiler/driver/temporary_library.h"
#include "compiler/tune/roof.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace heddle {

/// The least time of a call, of those that fit half a second.
static Result<double> least_time(RepeatedCall &call) {
  using Clock = std::chrono::steady_clock;
  double least = 0;
  for (auto begin = Clock::now(); std::chrono::duration<double>(Clock::now() - begin).count() < 0.5;) {
    auto ms = call.again();
    if (!ms)
      return ms.error();
    least = least > 0 ? std::min(least, *ms) : *ms;
  }
  return least;
}

/// Gives each step the time of its calls; steps that the observer cannot tell apart share alike.
static void distribute(const std::vector<CallTime> &calls, const PageFacts &facts, PageEntry &page) {
  for (const CallTime &call : calls) {
    std::vector<PageStep *> steps;
    for (PageStep &step : page.steps)
      if (step.kernel >= 0 && facts.kernels[step.kernel].name == call.kernel && step.first == call.definition)
        steps.push_back(&step);
    for (PageStep *step : steps)
      step->ms = call.ms / double(steps.size());
  }
}

static Status measure_entry(Library &library, const std::vector<int64_t> &dims, const PageFacts &facts,
                            PageEntry &page) {
  auto entry = library.entry(page.name);
  if (!entry)
    return entry.error();
  auto inputs = made_up_inputs(library, *entry, dims);
  if (!inputs)
    return inputs.error();
  auto call = RepeatedCall::begin(library, *entry, std::move(*inputs));
  if (!call)
    return call.error();
  auto whole = least_time(*call);
  if (!whole)
    return whole.error();
  page.ms = *whole;
  auto calls = call->time_kernels(/*each=*/true, /*least_seconds=*/1);
  if (!calls)
    return calls.error();
  distribute(*calls, facts, page);
  return Done{};
}

Status measure_page(Model &model, const CompileGoal &goal, int threads, PageFacts &facts) {
  if (Status fits = require_weights(model); !fits)
    return fits;
  Progress progress(Progress::Show::nothing);
  auto made = TemporaryLibrary::make(model, goal, threads, progress);
  if (!made)
    return made.error();
  Library &library = made->library;
  std::vector<int64_t> dims;
  for (const Library::Dim &dim : library.dims())
    for (const auto &[name, value] : facts.dims)
      if (name == dim.name)
        dims.push_back(value);
  Roof roof = measure_roof(library.threads());
  for (PageEntry &entry : facts.entries)
    if (Status measured = measure_entry(library, dims, facts, entry); !measured)
      entry.not_measured = measured.error().message;
  roof.raise(measure_roof(library.threads()));
  facts.roof = PageRoof{roof.f32(), roof.gigabytes, library.threads()};
  return Done{};
}

} // namespace heddle
