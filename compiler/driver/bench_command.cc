// `bench`: one entry on made-up inputs, timed until the numbers stand still, beside the machine's limits measured in
// the same minute.
#include "compiler/driver/commands.h"
#include "compiler/driver/library.h"
#include "compiler/driver/roof.h"
#include "compiler/io/output.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

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
    std::string name = word.substr(0, equals), names;
    char *end = nullptr;
    int64_t value = equals == std::string::npos ? -1 : std::strtoll(word.c_str() + equals + 1, &end, 10);
    if (value < 0 || !end || *end)
      return Error{std::string(usage_mark) + "--dim wants NAME=N, not `" + word + "`"};
    bool found = false;
    for (size_t i = 0; i < out.size(); ++i) {
      names += (names.empty() ? "" : ", ") + library.dims()[i].name;
      if (library.dims()[i].name == name)
        out[i] = value, found = true;
    }
    if (!found)
      return Error{"there is no dim `" + name + "`; there are: " + names};
  }
  return out;
}

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

static Result<TensorMap> made_up_inputs(const Library &library, int entry, const std::vector<int64_t> &dims) {
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
        return Error{"input `" + input.name + "` has a computed extent; bench cannot make one up yet"};
      tensor.shape.push_back(input.dims[axis] < 0 ? input.fixed[axis] : dims[input.dims[axis]]);
    }
    tensor.bytes.resize(tensor.view().count() * byte_width(tensor.dtype));
    fill(tensor, input.below, random);
    out.emplace(input.name, std::move(tensor));
  }
  return out;
}

Status bench_command(const BenchCommand &options) {
  if (!is_artifact(options.path))
    return Error{options.path + ": is no folder that `heddle compile` wrote; compile the model first"};
  auto library = Library::open(options.path, options.threads);
  if (!library)
    return library.error();
  auto entry = library->entry(options.entry);
  if (!entry)
    return entry.error();
  auto dims = read_dims(*library, options.dims);
  if (!dims)
    return dims.error();
  auto inputs = made_up_inputs(*library, *entry, *dims);
  if (!inputs)
    return inputs.error();
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
  std::printf("%s%s, %d thread%s: min %.3f ms, median %.3f ms (%zu calls)\nthis machine: %.0f GFLOP/s f32, %.1f GB/s\n",
              library->name().c_str(), shape.c_str(), library->threads(), library->threads() == 1 ? "" : "s", times[0],
              median, times.size(), roof.gflops, roof.gigabytes);
  if (!options.json.empty())
    return write_file(options.json, json.dump(2) + "\n");
  return Done{};
}

} // namespace heddle
