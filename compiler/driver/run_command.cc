// `run`: through the compiled library, or with --reference through the evaluator. All calls go to one session, and
// results are written when the last call has succeeded.
#include "compiler/driver/commands.h"
#include "compiler/driver/reference.h"
#include "compiler/io/output.h"
#include "compiler/io/unfinished.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace heddle {

namespace {

/// Spans of time in the format of chrome://tracing and Perfetto.
class Trace {
public:
  template <class F> auto span(const std::string &name, F work) {
    auto begin = Clock::now();
    auto result = work();
    add(name, begin);
    return result;
  }
  /// A kernel's begin or end, as the library reports them.
  void kernel(const char *name, bool begins) {
    if (begins)
      kernel_begin_ = Clock::now();
    else
      add(name, kernel_begin_);
  }
  std::string text() const {
    nlohmann::json all = {{"traceEvents", events_}, {"displayTimeUnit", "ms"}};
    return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"; // a path may be no UTF-8
  }

private:
  using Clock = std::chrono::steady_clock;
  void add(const std::string &name, Clock::time_point begin) {
    events_.push_back({{"name", name},
                       {"ph", "X"},
                       {"pid", 1},
                       {"tid", 1},
                       {"ts", micros(begin - start_)},
                       {"dur", micros(Clock::now() - begin)}});
  }
  static double micros(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }
  Clock::time_point start_ = Clock::now(), kernel_begin_;
  nlohmann::json events_ = nlohmann::json::array();
};

} // namespace

static Status finish(const RunCommand &options, const std::vector<TensorMap> &results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (options.out.empty()) {
      if (results.size() > 1)
        std::printf("call %zu\n", i + 1);
      std::printf("%s", summary(results[i]).c_str());
    } else if (Status written = write_tensors(options.out[i], results[i]); !written) {
      return written;
    }
  }
  return Done{};
}

static Status run_library(const RunCommand &options, const std::string &path, const std::vector<TensorMap> &calls,
                          Trace &trace) {
  const std::string &target = options.compile.target;
  auto library = trace.span("load " + path,
                            [&] { return Library::open(path, options.threads, target == "native" ? "" : target); });
  if (!library)
    return library.error();
  if (!options.profile.empty())
    library->observe([&trace](const char *kernel, bool begins) { trace.kernel(kernel, begins); });
  std::vector<TensorMap> results;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto entry = library->entry(entry_of_call(options.entries, i));
    if (!entry)
      return entry.error();
    auto result = trace.span("call " + std::to_string(i + 1), [&] { return library->run(*entry, calls[i]); });
    if (!result)
      return result.error();
    results.push_back(std::move(*result));
  }
  return finish(options, results);
}

static Status run_reference(const RunCommand &options, const std::vector<TensorMap> &calls, Trace &trace) {
  auto model = load_model(options.model);
  if (!model)
    return model.error();
  if (Status fits = require_weights(*model); !fits)
    return fits;
  Reference reference(*model);
  std::vector<TensorMap> results;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto entry = find_entry(*model->program, entry_of_call(options.entries, i));
    if (!entry)
      return entry.error();
    auto result = trace.span("call " + std::to_string(i + 1), [&] { return reference.run(**entry, calls[i]); });
    if (!result)
      return result.error();
    results.push_back(std::move(*result));
  }
  return finish(options, results);
}

/// MODEL: compiled into a folder that goes away afterwards.
static Status run_model(const RunCommand &options, const std::vector<TensorMap> &calls, Trace &trace) {
  auto goal = find_compile_goal(options.compile);
  if (!goal)
    return goal.error();
  auto model = load_model(options.model);
  if (!model)
    return model.error();
  if (Status fits = require_weights(*model); !fits)
    return fits;
  auto folder = temporary_folder();
  if (!folder)
    return folder.error();
  std::string output = folder->path() + "/library";
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  auto report = trace.span("compile", [&] { return compile_model(*model, {*goal}, output, progress); });
  if (!report)
    return report.error();
  return run_library(options, output, calls, trace);
}

Status run_command(const RunCommand &options) {
  bool artifact = is_artifact(options.model.path);
  auto calls = read_calls(options.in, options.entries, "--out", options.out);
  if (!calls)
    return calls.error();
  for (const std::string &path : options.out)
    if (Status place = try_to_write(path); !place)
      return place;
  if (Status place = try_to_write(options.profile); !place)
    return place;
  Trace trace;
  Status done = artifact            ? run_library(options, options.model.path, *calls, trace)
                : options.reference ? run_reference(options, *calls, trace)
                                    : run_model(options, *calls, trace);
  if (done && !options.profile.empty())
    return write_file(options.profile, trace.text());
  return done;
}

} // namespace heddle
