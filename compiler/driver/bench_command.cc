// `bench`: one entry on made-up inputs, whole and kernel by kernel, beside the machine's limits. All three are measured
// in turns, and the best of each counts: what else the machine does only takes away, from whichever runs then. What a
// kernel has to do says the manifest (compiler/emit/artifact/work.h).
#include "compiler/driver/commands.h"
#include "compiler/driver/library.h"
#include "compiler/driver/many_cores.h"
#include "compiler/driver/measure.h"
#include "compiler/io/manifest_formula.h"
#include "compiler/io/output.h"
#include "compiler/tune/roof.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace heddle {

static constexpr int rounds = 4;
static constexpr double call_seconds = 0.5, kernel_seconds = 0.25; // of a round
static constexpr size_t least_calls = 2;
static constexpr int64_t default_dim = 1;

using Clock = std::chrono::steady_clock;

/// The dims' values: those given, else 1.
static Result<std::vector<int64_t>> read_dims(const Library &library, const std::vector<std::string> &words) {
  std::vector<int64_t> out(library.dims().size(), default_dim);
  for (const std::string &word : words) {
    size_t equals = word.find('=');
    std::string name = word.substr(0, equals), names,
                digits = equals == std::string::npos ? "" : word.substr(equals + 1);
    int64_t value = 0;
    auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (failed != std::errc() || end != digits.data() + digits.size() || value < 0 || value > INT32_MAX)
      return Error{std::string(usage_mark) + "--dim wants NAME=N, N at most 2147483647, not `" + word + "`"};
    bool found = false;
    for (size_t i = 0; i < out.size(); ++i) {
      names += (names.empty() ? "" : ", ") + library.dims()[i].name;
      if (library.dims()[i].name != name)
        continue;
      if (int64_t most = library.dims()[i].most; most >= 0 && value > most)
        return Error{"--dim " + word + ": the library allows at most " + std::to_string(most)};
      out[i] = value, found = true;
    }
    if (!found)
      return Error{"there is no dim `" + name + "`; there are: " + names};
  }
  return out;
}

namespace {

struct KernelTime : CallTime {
  KernelTime(const CallTime &time) : CallTime(time) {}

  std::string kind;
  double operations = 0, weights = 0, values = 0;     // of all calls
  bool known = false;                                 // these three
  std::string micro_kernel;                           // that does the operations; empty: not known
  double weights_gigabytes = 0, values_gigabytes = 0; // per second, as fast as such amounts were seen to move
  double bound_ms = 0;                                // what the limits allow; 0: not known
};

} // namespace

/// Fills in what the manifest knows of the kernels.
static void read_work(const Manifest::Target &target, const std::string &entry,
                      const std::map<std::string, double> &dims, std::vector<KernelTime> &kernels) {
  auto works = target.work.find(entry);
  auto value = [&](const std::optional<std::string> &formula) { // none where it is negative
    auto out = formula ? evaluate_formula(*formula, dims) : std::nullopt;
    return out && *out >= 0 ? out : std::nullopt;
  };
  for (KernelTime &kernel : kernels) {
    if (auto kind = target.kernels.find(kernel.kernel); kind != target.kernels.end())
      kernel.kind = kind->second;
    for (const Manifest::Work &work : works == target.work.end() ? std::vector<Manifest::Work>() : works->second) {
      if (work.kernel != kernel.kernel || work.calls != kernel.calls)
        continue; // a loop repeats calls
      auto operations = value(work.operations), weights = value(work.weights_bytes), values = value(work.values_bytes);
      kernel.known = operations && weights && values;
      if (kernel.known)
        kernel.operations = *operations, kernel.weights = *weights, kernel.values = *values;
      for (const Manifest::Work::Multiplies &one : work.multiplies)
        if (kernel.micro_kernel.empty() &&
            std::ranges::all_of(one.when, [&](const std::string &formula) { return value(formula).has_value(); }))
          kernel.micro_kernel = one.micro_kernel;
    }
  }
}

/// How fast amounts of data like the kernels' move, where that is faster than it was before.
static void measure_moving(std::vector<KernelTime> &kernels, int threads) {
  double all_weights = 0;
  for (const KernelTime &kernel : kernels)
    all_weights += kernel.weights;
  double weights = all_weights > 0 ? read_gigabytes(threads, size_t(std::min(all_weights, 128e6))) : 0;
  for (KernelTime &kernel : kernels) {
    kernel.weights_gigabytes = std::max(kernel.weights_gigabytes, weights);
    if (kernel.values > 0)
      kernel.values_gigabytes = std::max(
          kernel.values_gigabytes, copy_gigabytes(threads, size_t(std::min(kernel.values / kernel.calls, 128e6))));
  }
}

/// The least time of each kernel that the limits allow: its products at the arithmetic limit of the numbers that it
/// multiplies, or its bytes at the bandwidth that the same amount of data has, whichever takes longer.
static void set_bounds(std::vector<KernelTime> &kernels, const Roof &roof) {
  for (KernelTime &kernel : kernels) {
    const Roof::Products *products = roof.find(kernel.micro_kernel);
    if (!kernel.known || (kernel.operations > 0 && !products))
      continue;
    double moving = (kernel.weights > 0 ? kernel.weights / kernel.weights_gigabytes : 0) +
                    (kernel.values > 0 ? kernel.values / kernel.values_gigabytes : 0);
    kernel.bound_ms = std::max(kernel.operations > 0 ? kernel.operations / products->gflops : 0, moving) / 1e6;
  }
}

static std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// Operations per second of a kernel as a share of what its instruction did in the same run; 0: not known.
static double share_of_peak(const KernelTime &kernel, const Roof &roof) {
  const Roof::Products *products = roof.find(kernel.micro_kernel);
  return kernel.operations > 0 && products ? kernel.operations / kernel.ms / 1e6 / products->gflops : 0;
}

/// `over`: whether anything before was above its limit.
static void print_kernels(const std::vector<KernelTime> &kernels, const Roof &roof, bool over) {
  double all = 0;
  for (const KernelTime &kernel : kernels)
    all += kernel.ms;
  std::printf("\n%-8s %-14s %6s %10s %7s %9s %8s %-9s %8s %8s  %s\n", "kernel", "kind", "calls", "time", "of all",
              "GFLOP/s", "of peak", "by", "GB/s", "of roof", "first computes");
  for (const KernelTime &kernel : kernels) {
    std::printf("%-8s %-14s %6d %10s %6.1f%%", kernel.kernel.c_str(), kernel.kind.c_str(), kernel.calls,
                time_text(kernel.ms).c_str(), 100 * kernel.ms / all);
    long percent = std::lround(100 * kernel.bound_ms / kernel.ms);
    over |= percent > 100;
    std::string share = kernel.bound_ms > 0 ? std::to_string(percent) + "%" : "-";
    std::string flops = kernel.operations > 0 ? one_decimal(kernel.operations / kernel.ms / 1e6) : "-";
    std::string bytes = kernel.known ? one_decimal((kernel.weights + kernel.values) / kernel.ms / 1e6) : "-";
    double of_peak = share_of_peak(kernel, roof);
    std::string peak = of_peak > 0 ? std::to_string(std::lround(100 * of_peak)) + "%" : "-";
    std::string_view instruction = of_peak > 0 ? roof.find(kernel.micro_kernel)->instruction : "";
    std::printf(" %9s %8s %-9.*s %8s %8s  %s\n", flops.c_str(), peak.c_str(), int(instruction.size()),
                instruction.data(), bytes.c_str(), share.c_str(), kernel.definition.c_str());
  }
  if (over)
    std::printf(
        "more than 100%%: what is read lay in a nearer cache than as much data does by itself, or the machine was\n"
        "busier whenever the limit was measured\n");
}

static nlohmann::ordered_json kernels_json(const std::vector<KernelTime> &kernels, const Roof &roof) {
  auto out = nlohmann::ordered_json::array();
  for (const KernelTime &kernel : kernels) {
    out.push_back({{"kernel", kernel.kernel},
                   {"kind", kernel.kind},
                   {"definition", kernel.definition},
                   {"calls", kernel.calls},
                   {"ms", kernel.ms}});
    if (kernel.known) {
      out.back()["gflops"] = kernel.operations / kernel.ms / 1e6;
      out.back()["gigabytes"] = (kernel.weights + kernel.values) / kernel.ms / 1e6;
    }
    if (double of_peak = share_of_peak(kernel, roof); of_peak > 0) {
      out.back()["micro_kernel"] = kernel.micro_kernel;
      out.back()["of_peak"] = of_peak;
    }
    if (kernel.bound_ms > 0)
      out.back()["of_roof"] = kernel.bound_ms / kernel.ms;
  }
  return out;
}

/// Runs the entries that must run before: E, or E:NAME=N,… with dims of its own.
static Status run_first(Library &library, const BenchCommand &options) {
  for (const std::string &word : options.first) {
    size_t colon = std::min(word.find(':'), word.size());
    auto entry = library.entry(word.substr(0, colon));
    if (!entry)
      return entry.error();
    std::vector<std::string> words = options.dims;
    for (size_t at = colon; at < word.size();) {
      size_t end = std::min(word.find(',', at + 1), word.size());
      words.push_back(word.substr(at + 1, end - at - 1));
      at = end;
    }
    auto dims = read_dims(library, words);
    if (!dims)
      return dims.error();
    auto inputs = made_up_inputs(library, *entry, *dims);
    if (!inputs)
      return inputs.error();
    if (auto ran = library.run(*entry, *inputs); !ran)
      return ran.error();
  }
  return Done();
}

/// What a machine with many cores would take.
static Status foretell(const BenchCommand &options, const Library &library, RepeatedCall &call,
                       const std::map<std::string, std::string> &kinds) {
  if (library.target().starts_with("cuda:"))
    return Error{"--cores: the library computes on a GPU"};
  auto timed = call.time_tasks(rounds * call_seconds);
  if (!timed)
    return timed.error();
  std::vector<SharedKernel> kernels = share_among(*timed, options.cores);
  double alone = 0, shared = 0;
  for (const SharedKernel &kernel : kernels)
    alone += kernel.ms, shared += kernel.shared_ms;
  std::printf(
      "%s cut for %d cores: %s on one, %s on %d, %.1f times as fast; each task done alone, and shared out as the\n"
      "thread pool would. Nothing is said of the memory that cores share, nor of how long they take to wake.\n",
      library.name().c_str(), options.cores, time_text(alone).c_str(), time_text(shared).c_str(), options.cores,
      alone / shared);
  std::printf("\n%-8s %-14s %6s %8s %10s %10s %7s %8s\n", "kernel", "kind", "calls", "tasks", "one core", "shared",
              "of all", "faster");
  auto json = nlohmann::ordered_json::array();
  for (const SharedKernel &kernel : kernels) {
    auto kind = kinds.find(kernel.kernel);
    std::string name = kind == kinds.end() ? "" : kind->second;
    std::printf("%-8s %-14s %6d %8lld %10s %10s %6.1f%% %8.1f\n", kernel.kernel.c_str(), name.c_str(), kernel.calls,
                (long long)kernel.least_tasks, time_text(kernel.ms).c_str(), time_text(kernel.shared_ms).c_str(),
                100 * kernel.shared_ms / shared, kernel.ms / kernel.shared_ms);
    json.push_back({{"kernel", kernel.kernel},
                    {"kind", name},
                    {"calls", kernel.calls},
                    {"tasks", kernel.least_tasks},
                    {"ms", kernel.ms},
                    {"shared_ms", kernel.shared_ms}});
  }
  if (options.json.empty())
    return Done();
  nlohmann::ordered_json all = {{"library", library.name()}, {"target", library.target()},
                                {"cores", options.cores},    {"ms", alone},
                                {"shared_ms", shared},       {"kernels", json}};
  return write_file(options.json, all.dump(2) + "\n");
}

Status bench_command(const BenchCommand &options) {
  if (!is_artifact(options.path))
    return Error{why_no_artifact(options.path, ": is no folder that `heddle compile` wrote; compile the model first")};
  bool foretold = options.cores > 0;
  auto library =
      Library::open(options.path, foretold ? options.cores : options.threads, options.target, /*alone=*/foretold);
  if (!library)
    return library.error();
  auto entry = library->entry(options.entry);
  if (!entry)
    return entry.error();
  if (Status place = try_to_write(options.json); !place)
    return place;
  auto dims = read_dims(*library, options.dims);
  if (!dims)
    return dims.error();
  auto manifest = library->manifest();
  if (!manifest)
    return manifest.error();
  auto inputs = made_up_inputs(*library, *entry, *dims);
  if (!inputs)
    return inputs.error();
  if (Status ran = run_first(*library, options); !ran)
    return ran;
  auto call = RepeatedCall::begin(*library, *entry, std::move(*inputs)); // also the first of the warm-up calls
  if (!call)
    return call.error();

  const Manifest::Target *target = *manifest ? (*manifest)->find(library->target()) : nullptr;
  if (foretold)
    return foretell(options, *library, *call, target ? target->kernels : std::map<std::string, std::string>());
  std::map<std::string, double> sizes;
  for (size_t i = 0; i < dims->size(); ++i)
    sizes[library->dims()[i].name] = double((*dims)[i]);
  Roof roof;
  std::vector<double> times;
  std::vector<KernelTime> kernels;
  for (int round = 0; round < rounds; ++round) {
    roof.raise(measure_roof(library->threads()));
    size_t calls = times.size();
    for (auto begin = Clock::now(); times.size() < calls + least_calls ||
                                    std::chrono::duration<double>(Clock::now() - begin).count() < call_seconds;) {
      auto ms = call->again();
      if (!ms)
        return ms.error();
      times.push_back(*ms);
    }
    auto timed = call->time_kernels(/*each=*/false, kernel_seconds);
    if (!timed)
      return timed.error();
    if (kernels.empty()) {
      kernels.assign(timed->begin(), timed->end());
      if (target)
        read_work(*target, (*manifest)->entries[*entry].name, sizes, kernels);
    }
    for (size_t i = 0; i < std::min(kernels.size(), timed->size()); ++i)
      kernels[i].ms = std::min(kernels[i].ms, (*timed)[i].ms);
    measure_moving(kernels, library->threads());
  }
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  set_bounds(kernels, roof);
  double operations = 0, bound_ms = 0; // of all products
  for (const KernelTime &kernel : kernels) {
    const Roof::Products *products = roof.find(kernel.micro_kernel);
    operations += kernel.operations;
    if (kernel.operations > 0)
      bound_ms += products ? kernel.operations / products->gflops / 1e6 : INFINITY;
  }
  std::string limits;
  for (const Roof::Products &products : roof.products)
    if (&products == &roof.products.front() || std::ranges::any_of(kernels, [&](const KernelTime &kernel) {
          return kernel.operations > 0 && kernel.micro_kernel == products.micro_kernel;
        }))
      limits += std::to_string(std::lround(products.gflops)) + " GFLOP/s " + std::string(products.type) +
                (&products == &roof.products.front() ? "" : " (" + std::string(products.instruction) + ")") + ", ";

  std::string shape;
  nlohmann::ordered_json json = {{"library", library->name()},
                                 {"target", library->target()},
                                 {"threads", library->threads()},
                                 {"dims", nlohmann::ordered_json::object()},
                                 {"calls", times.size()},
                                 {"min_ms", times[0]},
                                 {"median_ms", median},
                                 {"peak_gflops", roof.f32()},
                                 {"read_gigabytes", roof.gigabytes}};
  for (size_t i = 0; i < dims->size(); ++i) {
    shape += " " + library->dims()[i].name + "=" + std::to_string((*dims)[i]);
    json["dims"][library->dims()[i].name] = (*dims)[i];
  }
  std::printf("%s%s, %d thread%s: min %s, median %s (%zu calls)\nthis machine: %s%.1f GB/s\ncode for %s\n",
              library->name().c_str(), shape.c_str(), library->threads(), library->threads() == 1 ? "" : "s",
              time_text(times[0]).c_str(), time_text(median).c_str(), times.size(), limits.c_str(), roof.gigabytes,
              library->target().c_str());
  bool limited = std::isfinite(bound_ms); // else nobody has measured what some product is limited by
  long percent = limited ? std::lround(100 * bound_ms / times[0]) : 0;
  if (operations > 0)
    std::printf("products: %.3g %s, %.1f GFLOP/s%s\n",
                operations / (operations < 1e6   ? 1e3
                              : operations < 1e9 ? 1e6
                                                 : 1e9),
                operations < 1e6   ? "kFLOP"
                : operations < 1e9 ? "MFLOP"
                                   : "GFLOP",
                operations / times[0] / 1e6,
                limited ? (", " + std::to_string(percent) + "% of the limit").c_str() : "");
  print_kernels(kernels, roof, percent > 100);
  json["operations"] = operations;
  json["kernels"] = kernels_json(kernels, roof);
  if (!options.json.empty())
    return write_file(options.json, json.dump(2) + "\n");
  return Done{};
}

} // namespace heddle
