// `bench`: one entry on made-up inputs, timed until the numbers stand still, then kernel by kernel, beside the
// machine's limits measured in the same minute. What a kernel has to do says the manifest
// (compiler/emit/artifact/work.h).
#include "compiler/driver/commands.h"
#include "compiler/driver/library.h"
#include "compiler/driver/measure.h"
#include "compiler/driver/roof.h"
#include "compiler/io/manifest_formula.h"
#include "compiler/io/output.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace heddle {

static constexpr double least_seconds = 2;
static constexpr size_t least_calls = 5;
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
  std::string kind;
  double operations = 0, weights = 0, values = 0; // of all calls
  bool known = false;                             // these three
  double bound_ms = 0;                            // what the limits allow
};

} // namespace

/// Fills in what the manifest knows of the kernels.
static void read_work(const Manifest::Target &target, const std::string &entry,
                      const std::map<std::string, double> &dims, std::vector<KernelTime> &kernels) {
  auto works = target.work.find(entry);
  auto value = [&](const std::optional<std::string> &formula) {
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
    }
  }
}

/// The least time of each kernel that the limits allow: its products at the arithmetic limit, or its bytes at the
/// bandwidth that the same amount of data has, whichever takes longer.
static void set_bounds(std::vector<KernelTime> &kernels, const Roof &roof, int threads) {
  double all_weights = 0;
  for (const KernelTime &kernel : kernels)
    all_weights += kernel.weights;
  double weights_gigabytes = all_weights > 0 ? read_gigabytes(threads, size_t(std::min(all_weights, 128e6))) : 1;
  for (KernelTime &kernel : kernels) {
    if (!kernel.known)
      continue;
    double values_gigabytes =
        kernel.values > 0 ? copy_gigabytes(threads, size_t(std::min(kernel.values / kernel.calls, 128e6))) : 1;
    double moving = kernel.weights / weights_gigabytes + kernel.values / values_gigabytes;
    kernel.bound_ms = std::max(kernel.operations / roof.gflops, moving) / 1e6;
  }
}

static std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

static void print_kernels(const std::vector<KernelTime> &kernels) {
  double all = 0;
  bool over = false; // more than the limit
  for (const KernelTime &kernel : kernels)
    all += kernel.ms;
  std::printf("\n%-8s %-14s %6s %10s %7s %9s %8s %8s  %s\n", "kernel", "kind", "calls", "time", "of all", "GFLOP/s",
              "GB/s", "of roof", "first computes");
  for (const KernelTime &kernel : kernels) {
    std::printf("%-8s %-14s %6d %10s %6.1f%%", kernel.kernel.c_str(), kernel.kind.c_str(), kernel.calls,
                time_text(kernel.ms).c_str(), 100 * kernel.ms / all);
    long percent = kernel.known ? std::lround(100 * kernel.bound_ms / kernel.ms) : 0;
    std::string share = kernel.known ? std::to_string(percent) + "%" : "-";
    over |= percent > 100;
    std::string flops = kernel.operations > 0 ? one_decimal(kernel.operations / kernel.ms / 1e6) : "-";
    std::string bytes = kernel.known ? one_decimal((kernel.weights + kernel.values) / kernel.ms / 1e6) : "-";
    std::printf(" %9s %8s %8s  %s\n", flops.c_str(), bytes.c_str(), share.c_str(), kernel.definition.c_str());
  }
  if (over)
    std::printf("more than 100%%: what the kernel reads lay in a nearer cache than as much data does by itself, or the "
                "machine\nwas busier while its limit was measured\n");
}

static nlohmann::ordered_json kernels_json(const std::vector<KernelTime> &kernels) {
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
      out.back()["of_roof"] = kernel.bound_ms / kernel.ms;
    }
  }
  return out;
}

Status bench_command(const BenchCommand &options) {
  if (!is_artifact(options.path))
    return Error{options.path + ": is no folder that `heddle compile` wrote; compile the model first"};
  auto library = Library::open(options.path, options.threads, options.target);
  if (!library)
    return library.error();
  auto entry = library->entry(options.entry);
  if (!entry)
    return entry.error();
  auto dims = read_dims(*library, options.dims);
  if (!dims)
    return dims.error();
  auto manifest = library->manifest();
  if (!manifest)
    return manifest.error();
  auto inputs = made_up_inputs(*library, *entry, *dims);
  if (!inputs)
    return inputs.error();
  for (const std::string &name : options.first) {
    auto before = library->entry(name);
    if (!before)
      return before.error();
    auto given = made_up_inputs(*library, *before, *dims);
    if (!given)
      return given.error();
    if (auto ran = library->run(*before, *given); !ran)
      return ran.error();
  }
  auto results = library->run(*entry, *inputs); // also the first of the warm-up calls
  if (!results)
    return results.error();

  Roof roof = measure_roof(library->threads());
  std::vector<double> times;
  for (auto begin = Clock::now();
       times.size() < least_calls || std::chrono::duration<double>(Clock::now() - begin).count() < least_seconds;) {
    auto call = Clock::now();
    if (Status ran = library->run_into(*entry, *inputs, *results); !ran)
      return ran;
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - call).count());
  }
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];

  auto kernel_times = time_calls(*library, *entry, *inputs, *results, /*each=*/false);
  if (!kernel_times)
    return kernel_times.error();
  std::vector<KernelTime> kernels;
  for (CallTime &time : *kernel_times)
    kernels.push_back({std::move(time)});
  Roof after = measure_roof(library->threads()); // a busy machine has shown less than it can
  roof = {std::max(roof.gflops, after.gflops), std::max(roof.gigabytes, after.gigabytes)};
  std::map<std::string, double> sizes;
  for (size_t i = 0; i < dims->size(); ++i)
    sizes[library->dims()[i].name] = double((*dims)[i]);
  double operations = 0;
  if (const Manifest::Target *target = *manifest ? (*manifest)->find(library->target()) : nullptr) {
    read_work(*target, (*manifest)->entries[*entry].name, sizes, kernels);
    set_bounds(kernels, roof, library->threads());
  }
  for (const KernelTime &kernel : kernels)
    operations += kernel.operations;

  std::string shape;
  nlohmann::ordered_json json = {{"library", library->name()},
                                 {"target", library->target()},
                                 {"threads", library->threads()},
                                 {"dims", nlohmann::ordered_json::object()},
                                 {"calls", times.size()},
                                 {"min_ms", times[0]},
                                 {"median_ms", median},
                                 {"peak_gflops", roof.gflops},
                                 {"read_gigabytes", roof.gigabytes}};
  for (size_t i = 0; i < dims->size(); ++i) {
    shape += " " + library->dims()[i].name + "=" + std::to_string((*dims)[i]);
    json["dims"][library->dims()[i].name] = (*dims)[i];
  }
  std::printf("%s%s, %d thread%s: min %s, median %s (%zu calls)\nthis machine: %.0f GFLOP/s f32, %.1f GB/s\n"
              "code for %s\n",
              library->name().c_str(), shape.c_str(), library->threads(), library->threads() == 1 ? "" : "s",
              time_text(times[0]).c_str(), time_text(median).c_str(), times.size(), roof.gflops, roof.gigabytes,
              library->target().c_str());
  if (operations > 0)
    std::printf("products: %.3g %s, %.1f GFLOP/s, %.0f%% of the limit\n",
                operations / (operations < 1e6   ? 1e3
                              : operations < 1e9 ? 1e6
                                                 : 1e9),
                operations < 1e6   ? "kFLOP"
                : operations < 1e9 ? "MFLOP"
                                   : "GFLOP",
                operations / times[0] / 1e6, operations / times[0] / 1e6 / roof.gflops * 100);
  print_kernels(kernels);
  json["operations"] = operations;
  json["kernels"] = kernels_json(kernels);
  if (!options.json.empty())
    return write_file(options.json, json.dump(2) + "\n");
  return Done{};
}

} // namespace heddle
