// Entries that fail at first are tried again when the others have run: a step of a decoder wants the state that its
// beginning leaves.
#include "compiler/driver/tuned_model.h"

#include "compiler/driver/measure.h"
#include "compiler/tune/turns.h"

#include <algorithm>
#include <chrono>

namespace heddle {

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Result<TrialLibrary> TrialLibrary::make(Model &model, const CompileGoal &goal,
                                        const std::map<std::string, int64_t> &dims, int threads) {
  auto begin = Clock::now();
  Progress progress(Progress::Show::nothing);
  auto made = TemporaryLibrary::make(model, goal, threads, progress);
  if (!made)
    return made.error();
  TrialLibrary out(std::move(*made));
  out.compile_seconds_ = since(begin);
  std::vector<int64_t> values;
  for (const Library::Dim &dim : out.made_.library.dims()) {
    auto known = dims.find(dim.name);
    values.push_back(known == dims.end() ? 1 : known->second);
  }
  auto manifest = out.made_.library.manifest();
  if (!manifest)
    return manifest.error();
  begin = Clock::now();
  std::vector<int> waiting;
  for (int entry = 0; *manifest && entry < int((*manifest)->entries.size()); ++entry)
    if (auto inputs = made_up_inputs(out.made_.library, entry, values)) {
      out.inputs_[entry] = std::move(*inputs);
      waiting.push_back(entry);
    }
  for (bool again = true; again && !waiting.empty();) {
    again = false;
    for (int entry : std::vector<int>(waiting)) {
      std::vector<std::byte> state;
      if (out.made_.library.keeps_state()) {
        auto saved = out.made_.library.save();
        if (!saved)
          return saved.error();
        state = std::move(*saved);
      }
      if (auto results = out.made_.library.run(entry, out.inputs_[entry])) {
        out.states_[entry] = std::move(state);
        out.results_[entry] = std::move(*results);
        out.entries_.push_back(entry);
        std::erase(waiting, entry);
        again = true;
      }
    }
  }
  out.first_seconds_ = since(begin);
  return out;
}

Result<double> TrialLibrary::run(int entry) {
  if (!states_[entry].empty())
    if (Status restored = made_.library.restore(states_[entry]); !restored)
      return restored.error();
  double begin = tune::clock_seconds(threads());
  if (Status ran = made_.library.run_into(entry, inputs_[entry], results_[entry]); !ran)
    return ran.error();
  return tune::clock_seconds(threads()) - begin;
}

Result<Comparison> compare_in_turns(TrialLibrary &before, TrialLibrary &after, double seconds) {
  std::map<int, std::pair<std::vector<double>, std::vector<double>>> taken;
  std::vector<int> entries;
  for (int entry : before.entries())
    if (std::ranges::find(after.entries(), entry) != after.entries().end())
      entries.push_back(entry);
  if (entries.empty())
    return Comparison{};
  // It has lain idle while the search ran, and its memory may have been put away; the other one has just been called.
  for (int entry : entries)
    if (auto warmed = before.run(entry); !warmed)
      return warmed.error();
  Comparison out;
  auto begin = Clock::now();
  // As many rounds as are expected to fit.
  for (; out.rounds == 0 || since(begin) * (out.rounds + 1) / out.rounds <= seconds; ++out.rounds)
    for (int entry : entries) {
      bool turned = out.rounds % 2; // who comes first finds the caches as the other has left them
      auto one = (turned ? after : before).run(entry), two = (turned ? before : after).run(entry);
      if (!one || !two)
        return one ? two.error() : one.error();
      if (turned)
        std::swap(one, two);
      taken[entry].first.push_back(*one);
      taken[entry].second.push_back(*two);
    }
  for (auto &[entry, times] : taken) {
    out.before += tune::undisturbed_seconds(std::move(times.first));
    out.after += tune::undisturbed_seconds(std::move(times.second));
  }
  if (out.before == 0 || out.after == 0)
    out.rounds = 0; // the clock has stood still
  return out;
}

} // namespace heddle
