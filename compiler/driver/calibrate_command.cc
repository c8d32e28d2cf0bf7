// `calibrate`: scales for the activations that `--precision int8` quantizes, from calls on real inputs. The model is
// compiled in f32 with these activations among its results; of each the magnitudes of all calls are counted.
#include "compiler/driver/compare.h"
#include "compiler/driver/reference.h"
#include "compiler/driver/temporary_library.h"
#include "compiler/io/output.h"
#include "compiler/io/scales_file.h"
#include "compiler/ir/precision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <set>
#include <unistd.h>

namespace heddle {

namespace {

/// Magnitudes of an activation, counted by their upper 16 bits: to 2^-7 of themselves.
class Magnitudes {
public:
  void add(const HostTensor &tensor) {
    TensorView view = tensor.view();
    for (int64_t i = 0; i < view.count(); ++i) {
      float magnitude = float(std::abs(read_element(view, i)));
      if (!std::isfinite(magnitude))
        continue;
      ++counts_[std::bit_cast<uint32_t>(magnitude) >> 16];
      ++all_;
      largest_ = std::max(largest_, magnitude);
    }
  }

  /// The least that so many percent of them don't exceed, but for the counting.
  double reaching(double percentile) const {
    double out = largest_;
    if (percentile < 100) {
      double wanted = double(all_) * percentile / 100, below = 0;
      for (uint32_t bin = 0; bin < counts_.size(); ++bin)
        if ((below += double(counts_[bin])) >= wanted) {
          out = std::min<double>(largest_, std::bit_cast<float>((bin + 1) << 16));
          break;
        }
    }
    return std::max(out, least);
  }
  bool any() const { return largest_ > least; }

private:
  static constexpr double least = 1e-30; // what is smaller could as well be 0, and tells no scale

  std::vector<int64_t> counts_ = std::vector<int64_t>(size_t(1) << 15);
  int64_t all_ = 0;
  float largest_ = 0;
};

/// The names of what is quantized.
Result<std::set<std::string>> quantized_activations(Model &model, const Target &target) {
  Progress progress(Progress::Show::nothing);
  auto compiled = compile_module(model, {target, "int8"}, passes::PipelineStage::graph, progress);
  if (!compiled)
    return compiled.error();
  std::set<std::string> out;
  if (auto names = (*compiled->module)->getAttrOfType<mlir::ArrayAttr>(ir::names::quantized))
    for (auto name : names.getAsRange<mlir::StringAttr>())
      out.insert(name.str());
  return out;
}

} // namespace

Status calibrate_command(const CalibrateCommand &options) {
  CompileOptions compile;
  compile.target = options.target;
  auto goal = find_compile_goal(compile);
  if (!goal)
    return goal.error();
  CompareCommand given;
  given.entries = options.entries;
  given.in = options.in;
  auto calls = read_compared_calls(given);
  if (!calls)
    return calls.error();
  auto plain = showing_model(options.model);
  if (!plain)
    return plain.error();
  auto wanted = quantized_activations(*plain, goal->target);
  if (!wanted)
    return wanted.error();
  auto model = showing_model(options.model, [&](const Entry &entry) {
    std::vector<const Tensor *> out = definitions_of(entry);
    std::erase_if(out, [&](const Tensor *tensor) { return !wanted->count(tensor->name); });
    return out;
  });
  if (!model)
    return model.error();
  if (Status place = try_to_write(options.output); !place)
    return place;
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  auto made = TemporaryLibrary::make(*model, *goal, options.threads, progress);
  if (!made)
    return made.error();
  Library &library = made->library;

  std::map<std::string, Magnitudes> seen;
  std::map<std::string, const Tensor *> tensors;
  for (size_t call = 0; call < calls->size(); ++call) {
    auto of = find_entry(*model->program, entry_of_call(options.entries, call));
    if (!of)
      return of.error();
    auto number = library.entry((*of)->name);
    if (!number)
      return number.error();
    auto results = library.run(*number, (*calls)[call]);
    if (!results)
      return results.error();
    for (const Tensor *tensor : definitions_of(**of))
      if (auto values = results->find(tensor->name); wanted->count(tensor->name) && values != results->end()) {
        seen[tensor->name].add(values->second);
        tensors[tensor->name] = tensor;
      }
    for (const Input &input : (*of)->inputs)
      if (auto values = (*calls)[call].find(input.name); wanted->count(input.name) && values != (*calls)[call].end()) {
        seen[input.name].add(values->second);
        tensors[input.name] = input.tensor;
      }
  }
  Scales scales{model->program->name, {}};
  for (const auto &[name, magnitudes] : seen)
    if (magnitudes.any())
      scales.activations[name] = {shape_words(*tensors[name], *model->program),
                                  magnitudes.reaching(options.percentile)};
  if (Status written = write_scales(options.output, scales); !written)
    return written;
  size_t left = wanted->size() - scales.activations.size();
  std::printf("%s: scales of %zu activations from %zu call%s", options.output.c_str(), scales.activations.size(),
              calls->size(), calls->size() == 1 ? "" : "s");
  if (left > 0)
    std::printf("; %zu more %s found in each call: computed in loops or in entries that no call has run, or without a "
                "number but 0",
                left, left == 1 ? "has a scale that is" : "have scales that are");
  std::printf("\n");
  return Done{};
}

} // namespace heddle
