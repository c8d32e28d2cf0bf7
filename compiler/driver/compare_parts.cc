// `compare --parts`: what a model loses part by part where products are narrow, and what that saves. The model is
// compiled twice, as asked and in f32, with the last definition of every kernel among its results; both get the same
// calls, and are timed in turns.
//
// An error is carried on: what a part adds is its own less the largest of those that it reads.
#include "compiler/driver/compare.h"
#include "compiler/driver/measure.h"
#include "compiler/driver/reference.h"
#include "compiler/driver/temporary_library.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <unistd.h>

namespace heddle {

namespace {

/// A kernel of the narrow library, named by the last definition in it.
struct Part {
  std::string name;
  std::vector<std::string> definitions;
  bool compared = false;
  double off = 0, size = 0;     // sums of |narrow - exact| and |exact|
  double most = 0, largest = 0; // the largest of both
  double added = 0;             // of the mean, beyond what it reads
  double narrow_ms = 0, exact_ms = 0;

  double mean() const { return off > 0 ? off / size : 0; }
  double worst() const { return most > 0 ? most / largest : 0; }
};

/// One of the two libraries.
struct Side {
  TemporaryLibrary made;
  std::map<std::string, std::vector<EntryKernel>> kernels;
  std::vector<TensorMap> results; // of each call
};

void add_difference(const HostTensor &narrow, const HostTensor &exact, Part &part) {
  TensorView a = narrow.view(), b = exact.view();
  part.compared = true;
  for (int64_t i = 0; i < std::min(a.count(), b.count()); ++i) {
    double x = read_element(a, i), y = read_element(b, i);
    double off = distance(x, y);
    part.off += off;
    part.most = std::max(part.most, off);
    if (std::isfinite(y)) {
      part.size += std::abs(y);
      part.largest = std::max(part.largest, std::abs(y));
    }
  }
}

Result<Side> make_side(const CompareCommand &options, const CompileGoal &goal, const Shown &shown,
                       const std::vector<TensorMap> &calls) {
  auto model = showing_model(options.model, shown);
  if (!model)
    return model.error();
  auto kernels = kernels_of_entries(*model, goal);
  if (!kernels)
    return kernels.error();
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  auto made = TemporaryLibrary::make(*model, goal, options.threads, progress);
  if (!made)
    return made.error();
  Side out{std::move(*made), std::move(*kernels), {}};
  for (size_t call = 0; call < calls.size(); ++call) {
    auto entry = out.made.library.entry(entry_of_call(options.entries, call));
    if (!entry)
      return entry.error();
    auto results = out.made.library.run(*entry, calls[call]);
    if (!results)
      return results.error();
    out.results.push_back(std::move(*results));
  }
  return out;
}

/// The first that the definitions of a call name; null where none does.
Part *part_of(std::vector<Part> &parts, const std::vector<std::string> &definitions) {
  for (auto name = definitions.rbegin(); name != definitions.rend(); ++name)
    for (Part &part : parts)
      if (std::find(part.definitions.begin(), part.definitions.end(), *name) != part.definitions.end())
        return &part;
  return nullptr;
}

/// Times of both sides in turns, the least of each kernel.
Status time_parts(Side (&sides)[2], const std::string &entry, const TensorMap &inputs, std::vector<Part> &parts) {
  constexpr int rounds = 3;
  constexpr double seconds = 0.25;
  std::map<std::pair<std::string, std::string>, double> least[2];
  std::vector<RepeatedCall> repeated;
  for (Side &side : sides) {
    auto number = side.made.library.entry(entry);
    if (!number)
      return number.error();
    auto call = RepeatedCall::begin(side.made.library, *number, inputs);
    if (!call)
      return call.error();
    repeated.push_back(std::move(*call));
  }
  for (int round = 0; round < rounds; ++round)
    for (int side = 0; side < 2; ++side) {
      auto times = repeated[size_t(side)].time_kernels(/*each=*/true, seconds);
      if (!times)
        return times.error();
      for (const CallTime &time : *times) {
        auto [known, is_new] = least[side].try_emplace({time.kernel, time.definition}, time.ms);
        known->second = std::min(known->second, time.ms);
      }
    }
  for (int side = 0; side < 2; ++side)
    for (const auto &[name, ms] : least[side])
      for (const EntryKernel &kernel : sides[side].kernels[entry])
        if (kernel.definitions.front() == name.second) {
          if (Part *part = part_of(parts, kernel.definitions))
            (side == 0 ? part->narrow_ms : part->exact_ms) += ms;
          break;
        }
  return Done{};
}

/// What the stages of a part read of other parts, through definitions that no part ends with.
std::set<const Part *> parts_read(const Part &part, const std::vector<Part> &parts, const Entry &entry) {
  std::map<std::string, const Stage *> stages;
  for (const Step &step : entry.steps)
    if (auto *stage = std::get_if<Stage>(&step.what))
      stages[stage->result->name] = stage;
  std::set<const Part *> out;
  std::set<std::string> seen{part.name};
  std::vector<std::string> open{part.name};
  while (!open.empty()) {
    auto stage = stages.find(open.back());
    open.pop_back();
    if (stage == stages.end())
      continue;
    for (const Expr *node : nodes_of(stage->second->value))
      if (node->op == Expr::read && seen.insert(node->tensor->name).second) {
        auto end = std::find_if(parts.begin(), parts.end(),
                                [&](const Part &other) { return other.compared && other.name == node->tensor->name; });
        if (end == parts.end())
          open.push_back(node->tensor->name);
        else
          out.insert(&*end);
      }
  }
  return out;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share > 0 && share < 0.0001 ? "%.1e %%" : "%.3f %%", 100 * share);
  return text;
}

void print_table(const std::vector<Part> &parts, const std::string &narrow, bool timed) {
  double all = 0, exact = 0;
  size_t width = std::string("definition").size();
  for (const Part &part : parts) {
    all += part.narrow_ms;
    exact += part.exact_ms;
    width = std::max(width, part.name.size());
  }
  std::printf("%-*s %12s %12s %12s", int(width), "definition", "adds", "mean", "largest");
  if (timed)
    std::printf(" %12s %12s %8s", narrow.c_str(), "f32", "share");
  std::printf("\n");
  for (const Part &part : parts) {
    auto error = [&](double share) { return part.compared ? percent(share) : std::string("-"); };
    std::printf("%-*s %12s %12s %12s", int(width), part.name.c_str(), error(part.added).c_str(),
                error(part.mean()).c_str(), error(part.worst()).c_str());
    if (timed)
      std::printf(" %12s %12s %6.1f %%", time_text(part.narrow_ms).c_str(),
                  part.exact_ms > 0 ? time_text(part.exact_ms).c_str() : "-",
                  all > 0 ? 100 * part.narrow_ms / all : 0.0);
    std::printf("\n");
  }
  if (timed)
    std::printf("%-*s %12s %12s %12s %12s %12s %6.1f %%\n", int(width), "all", "", "", "", time_text(all).c_str(),
                time_text(exact).c_str(), 100.0);
}

/// The parts of an entry with their errors over all calls; those that add most come first.
std::vector<Part> compared_parts(const Entry &entry, Side (&sides)[2], const std::vector<size_t> &calls) {
  std::vector<Part> parts;
  for (const EntryKernel &kernel : sides[0].kernels[entry.name])
    if (std::none_of(parts.begin(), parts.end(), [&](Part &p) { return p.name == kernel.definitions.back(); }))
      parts.push_back({.name = kernel.definitions.back(), .definitions = kernel.definitions});
  for (size_t call : calls)
    for (Part &part : parts)
      if (auto narrow = sides[0].results[call].find(part.name), exact = sides[1].results[call].find(part.name);
          narrow != sides[0].results[call].end() && exact != sides[1].results[call].end())
        add_difference(narrow->second, exact->second, part);
  for (Part &part : parts) {
    double read = 0;
    for (const Part *other : parts_read(part, parts, entry))
      read = std::max(read, other->mean());
    part.added = std::isfinite(part.mean()) ? std::max(0.0, part.mean() - read) : std::isfinite(read) ? INFINITY : 0;
  }
  return parts;
}

Status check_options(const CompareCommand &options, const CompileGoal &goal) {
  if (goal.precision == "f32" && goal.keep.empty())
    return Error{std::string(usage_mark) +
                 "--parts says what each part loses by --precision; name one, such as --precision bf16"};
  if (!options.against.empty() || !options.library.empty())
    return Error{std::string(usage_mark) +
                 "--parts compares with the model's own f32; leave --against and --library out"};
  return Done{};
}

} // namespace

Status compare_parts(const CompareCommand &options) {
  auto goal = find_compile_goal(options.compile);
  if (!goal)
    return goal.error();
  if (Status good = check_options(options, *goal); !good)
    return good;
  auto calls = read_compared_calls(options);
  if (!calls)
    return calls.error();
  auto plain = showing_model(options.model);
  if (!plain)
    return plain.error();
  auto kernels = kernels_of_entries(*plain, *goal);
  if (!kernels)
    return kernels.error();
  Shown ends = [&](const Entry &entry) {
    std::vector<const Tensor *> out;
    for (const Tensor *tensor : definitions_of(entry))
      for (const EntryKernel &kernel : (*kernels)[entry.name])
        if (kernel.definitions.back() == tensor->name && !std::count(out.begin(), out.end(), tensor))
          out.push_back(tensor);
    return out;
  };
  CompileGoal exact = *goal;
  exact.precision = "f32";
  exact.keep.clear();
  auto narrow_side = make_side(options, *goal, ends, *calls);
  if (!narrow_side)
    return narrow_side.error();
  auto exact_side = make_side(options, exact, ends, *calls);
  if (!exact_side)
    return exact_side.error();
  Side sides[2] = {std::move(*narrow_side), std::move(*exact_side)};

  for (const Entry &entry : plain->program->entries) {
    std::vector<size_t> own;
    for (size_t call = 0; call < calls->size(); ++call)
      if (auto of = find_entry(*plain->program, entry_of_call(options.entries, call)); of && *of == &entry)
        own.push_back(call);
    if (own.empty())
      continue;
    std::vector<Part> parts = compared_parts(entry, sides, own);
    Status timed = time_parts(sides, entry.name, (*calls)[own.front()], parts);
    std::stable_sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) { return a.added > b.added; });
    if (plain->program->entries.size() > 1)
      std::printf("entry %s\n", entry.name.c_str());
    print_table(parts, goal->precision == "f32" ? "kept" : goal->precision, bool(timed));
    if (!timed)
      std::printf("no times: %s\n", timed.error().message.c_str());
  }
  return Done{};
}

} // namespace heddle
