// `compare`: which definition of a model is the first that the compiled library computes otherwise than the evaluator
// (or than tensors dumped from elsewhere), and by how much.
//
// A library shows its results only. So the model is compiled once more with further results: the last definition of
// each kernel, which lies in memory between kernels anyway, so that what is fused with what hardly changes. Where one
// of them differs, its kernel is opened: a third library returns every definition in it, which tells a formula that
// is wrong by itself from one that is wrong in company.
#include "compiler/driver/commands.h"
#include "compiler/driver/compare.h"
#include "compiler/driver/reference.h"
#include "compiler/io/unfinished.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <unistd.h>

namespace heddle {

namespace {

/// A definition that can be looked at: a tensor that an entry computes outside of loops.
struct Definition {
  const Tensor *tensor;
  std::string name; // of the result that shows it
};

struct Difference {
  double most = 0, largest = 0; // |a - b|, and the largest finite value of the reference
  std::vector<int64_t> at;
  double got = 0, wanted = 0;
  bool shapes = false; // they differ
  double share() const { return largest > 0 ? most / largest : most; }
};

using Values = TensorMap; // by name of the definition

class Comparison {
public:
  explicit Comparison(const CompareCommand &options) : options_(options) {}

  Status run();

private:
  Status read_reference(const Model &model);
  Result<std::vector<Values>> compiled(const Shown &shown) const;
  Result<std::vector<Values>> of_library(const std::string &path) const;
  Result<const Entry *> entry(const Program &program, size_t call) const;
  /// The first definition that differs, in the order of the entry; its number in `names`, or -1.
  int first_difference(const std::vector<std::string> &names, const Values &got, size_t call, bool tell,
                       Difference &difference);
  std::string place(const Model &model, const Tensor *tensor) const;
  std::vector<const Tensor *> compared(const Entry &entry) const;
  Result<std::string> inside_kernel(const Model &model, const Entry &of, size_t call, const std::string &name);
  Status compare(const Model &model, size_t call, const Values &got, const Values *library);

  const CompareCommand &options_;
  std::vector<TensorMap> calls_;
  std::vector<Values> wanted_;                              // per call
  std::map<std::string, std::vector<EntryKernel>> kernels_; // of each entry
  double tolerance_ = 0;
  int compared_ = 0;
  double worst_ = 0;
};

/// Of a model that computes in f32.
constexpr double exact_tolerance = 2e-4;

/// What docs/testing.md allows a model of these types. A number that is computed in a narrow type is rounded by one
/// side and perhaps not by the other, and what follows from it differs by that; weights and inputs are the same on
/// both.
double tolerance_of(const Program &program, const std::string &precision) {
  double out = precision == "int8" ? 0.1 : precision == "bf16" ? 4e-2 : precision == "tf32" ? 1e-2 : exact_tolerance;
  for (const Tensor &tensor : program.tensors)
    if (tensor.kind != Tensor::weight && tensor.kind != Tensor::input)
      out = std::max(out, tensor.type == Type::bf16 ? 4e-2 : tensor.type == Type::f16 ? 1e-2 : 0);
  return out;
}

/// Whether each axis of the coarse shape is one or several axes of the fine one, as a dump with merged heads has them.
bool merges_axes(llvm::ArrayRef<int64_t> fine, llvm::ArrayRef<int64_t> coarse) {
  for (int64_t extent : coarse) {
    int64_t merged = 1;
    while (!fine.empty() && (merged < extent || fine.front() == 1)) {
      merged *= fine.front();
      fine = fine.drop_front();
    }
    if (merged != extent)
      return false;
  }
  return llvm::all_of(fine, [](int64_t extent) { return extent == 1; });
}

Difference difference_of(const HostTensor &got, const HostTensor &wanted) {
  Difference out;
  TensorView a = got.view(), b = wanted.view();
  if (a.count() != b.count() || (a.count() > 0 && !merges_axes(a.shape, b.shape) && !merges_axes(b.shape, a.shape))) {
    out.shapes = true;
    out.most = INFINITY;
    return out;
  }
  int64_t worst = -1;
  for (int64_t i = 0; i < b.count(); ++i) {
    double x = read_element(a, i), y = read_element(b, i);
    if (std::isfinite(y))
      out.largest = std::max(out.largest, std::abs(y));
    double here = distance(x, y);
    if (here > out.most) {
      out.most = here;
      worst = i;
    }
  }
  if (worst >= 0) {
    out.got = read_element(a, worst);
    out.wanted = read_element(b, worst);
    for (size_t axis = a.shape.size(); axis-- > 0;) {
      out.at.insert(out.at.begin(), worst % a.shape[axis]);
      worst /= a.shape[axis];
    }
  }
  return out;
}

std::string in_words(const Difference &d, const HostTensor &got, const HostTensor &wanted) {
  if (d.shapes)
    return "has shape " + shape_text(got.shape) + " instead of " + shape_text(wanted.shape);
  char text[200];
  std::snprintf(text, sizeof text, "largest difference %.3g (%.2g of the largest value), at ", d.most, d.share());
  std::string out = text + shape_text(d.at);
  std::snprintf(text, sizeof text, ": %.9g instead of %.9g", d.got, d.wanted);
  return out + text;
}

} // namespace

Result<const Entry *> Comparison::entry(const Program &program, size_t call) const {
  return find_entry(program, entry_of_call(options_.entries, call));
}

/// What the definitions should be: evaluated, or read from the dumps.
Status Comparison::read_reference(const Model &model) {
  if (!options_.against.empty()) {
    for (size_t call = 0; call < options_.against.size(); ++call) {
      auto dump = read_calls({options_.against[call]});
      if (!dump)
        return dump.error();
      auto of = entry(*model.program, call);
      if (!of)
        return of.error();
      std::set<std::string> known;
      for (const Tensor *tensor : definitions_of(**of))
        known.insert(tensor->name);
      for (const Output &output : (*of)->outputs)
        known.insert(output.name);
      Values values;
      for (auto &[name, tensor] : dump->front()) {
        if (!known.count(name))
          return Error{options_.against[call] + ": entry `" + (*of)->name + "` has no definition `" + name +
                       "`; `heddle show MODEL --stage tree` lists those there are"};
        values.emplace(name, std::move(tensor));
      }
      wanted_.push_back(std::move(values));
    }
    return Done{};
  }
  Reference reference(model, true);
  for (size_t call = 0; call < calls_.size(); ++call) {
    auto of = entry(*model.program, call);
    if (!of)
      return of.error();
    auto results = reference.run(**of, calls_[call]);
    if (!results)
      return results.error();
    Values values = reference.kept();
    for (auto &[name, tensor] : *results)
      values.insert_or_assign(name, std::move(tensor));
    wanted_.push_back(std::move(values));
  }
  return Done{};
}

Result<std::vector<Values>> Comparison::of_library(const std::string &path) const {
  auto library = Library::open(path, options_.threads);
  if (!library)
    return library.error();
  std::vector<Values> out;
  for (size_t call = 0; call < calls_.size(); ++call) {
    auto entry = library->entry(entry_of_call(options_.entries, call));
    if (!entry)
      return entry.error();
    auto results = library->run(*entry, calls_[call]);
    if (!results)
      return results.error();
    out.push_back(std::move(*results));
  }
  return out;
}

/// What a library computes that returns the `shown` tensors of each entry besides its results.
Result<std::vector<Values>> Comparison::compiled(const Shown &shown) const {
  auto goal = find_compile_goal(options_.compile);
  if (!goal)
    return goal.error();
  auto model = showing_model(options_.model, shown); // of its own: its entries get further results
  if (!model)
    return model.error();
  auto folder = temporary_folder();
  if (!folder)
    return folder.error();
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  std::string path = folder->path() + "/library";
  if (auto report = compile_model(*model, {*goal}, path, progress); !report)
    return report.error();
  return of_library(path);
}

std::string Comparison::place(const Model &model, const Tensor *tensor) const {
  if (!tensor || !tensor->span.valid())
    return "";
  auto at = model.sources->position(tensor->span.file, tensor->span.begin);
  return model.sources->path(tensor->span.file) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
         ": ";
}

int Comparison::first_difference(const std::vector<std::string> &names, const Values &got, size_t call, bool tell,
                                 Difference &difference) {
  int first = -1;
  for (size_t i = 0; i < names.size(); ++i) {
    auto ours = got.find(names[i]);
    auto theirs = wanted_[call].find(names[i]);
    if (ours == got.end() || theirs == wanted_[call].end())
      continue;
    Difference d = difference_of(ours->second, theirs->second);
    bool differs = !(d.share() <= tolerance_);
    if (tell) {
      ++compared_;
      if (!differs)
        worst_ = std::max(worst_, d.share());
      if (options_.all)
        std::printf("%s %s: %s\n", differs ? "DIFFERS" : "agrees ", names[i].c_str(),
                    in_words(d, ours->second, theirs->second).c_str());
    }
    if (differs && first < 0) {
      first = static_cast<int>(i);
      difference = d;
    }
  }
  return first;
}

/// What lies between kernels, in the order of the entry; beside a dump all that it has.
std::vector<const Tensor *> Comparison::compared(const Entry &entry) const {
  std::vector<const Tensor *> out;
  std::set<std::string> ends;
  if (auto kernels = kernels_.find(entry.name); kernels != kernels_.end())
    for (const EntryKernel &kernel : kernels->second)
      ends.insert(kernel.definitions.back());
  for (const Tensor *tensor : definitions_of(entry))
    if (ends.count(tensor->name) || !options_.against.empty())
      out.push_back(tensor);
  if (!options_.against.empty())
    std::erase_if(out, [&](const Tensor *tensor) {
      return std::none_of(wanted_.begin(), wanted_.end(), [&](const Values &v) { return v.count(tensor->name); });
    });
  return out;
}

/// Compares the definitions of the kernel that computes `name`, which differs: a sentence about the first that does, or
/// an empty one where a kernel has no others.
Result<std::string> Comparison::inside_kernel(const Model &model, const Entry &of, size_t call,
                                              const std::string &name) {
  std::vector<std::string> inside;
  for (const EntryKernel &kernel : kernels_[of.name])
    if (std::find(kernel.definitions.begin(), kernel.definitions.end(), name) != kernel.definitions.end())
      inside = kernel.definitions;
  if (inside.size() < 2 || !options_.against.empty())
    return std::string();
  auto opened = compiled([&](const Entry &entry) {
    std::vector<const Tensor *> out;
    for (const Tensor *tensor : definitions_of(entry))
      if (entry.name == of.name && std::find(inside.begin(), inside.end(), tensor->name) != inside.end())
        out.push_back(tensor);
    return out;
  });
  if (!opened)
    return opened.error();
  Difference difference;
  int within = first_difference(inside, (*opened)[call], call, false, difference);
  std::string members;
  for (const std::string &member : inside)
    members += (members.empty() ? "" : ", ") + member;
  if (within < 0)
    return "\nIts kernel computes " + members +
           "; returned one by one, all of them agree: the fault lies in how they are computed together";
  const Tensor *wrong = nullptr;
  for (const Tensor *tensor : definitions_of(of))
    if (tensor->name == inside[within])
      wrong = tensor;
  return "\nIn its kernel (" + members + ") the first that differs is " + place(model, wrong) + "`" + inside[within] +
         "`: " + in_words(difference, (*opened)[call].at(inside[within]), wanted_[call].at(inside[within]));
}

/// What is to be said of a difference in whole numbers or conditions, which narrow numbers decide otherwise where they
/// nearly tie.
std::string of_ties(const Tensor &tensor, double tolerance) {
  if (is_floating(tensor.type) || tolerance <= exact_tolerance)
    return "";
  return "\nThese are no real numbers: where what decides them nearly ties, narrow numbers may decide otherwise, and "
         "all that follows differs. Compare in f32 to see whether it is that";
}

/// `got`: what the model gives, compiled now; `library`: what the library given gives, null without one.
Status Comparison::compare(const Model &model, size_t call, const Values &got, const Values *library) {
  const Entry &of = **entry(*model.program, call);
  std::string where = calls_.size() > 1 ? "call " + std::to_string(call + 1) + ": " : "";
  std::vector<std::string> names;
  std::map<std::string, const Tensor *> tensors;
  for (const Tensor *tensor : compared(of)) {
    names.push_back(tensor->name);
    tensors[tensor->name] = tensor;
  }
  for (const Output &output : of.outputs) {
    if (std::find(names.begin(), names.end(), output.name) == names.end())
      names.push_back(output.name);
    tensors.emplace(output.name, output.tensor);
  }
  Difference difference;
  if (int first = first_difference(names, got, call, true, difference); first >= 0) {
    const std::string &name = names[first];
    auto inside = inside_kernel(model, of, call, name);
    if (!inside)
      return inside.error();
    return Error{where + place(model, tensors[name]) + "`" + name + "` is the first definition that differs: " +
                 in_words(difference, got.at(name), wanted_[call].at(name)) + *inside +
                 of_ties(*tensors[name], tolerance_)};
  }
  if (!library)
    return Done{};
  if (int first = first_difference(names, *library, call, false, difference); first >= 0)
    return Error{where + "`" + names[first] + "` of " + options_.library +
                 " differs: " + in_words(difference, library->at(names[first]), wanted_[call].at(names[first])) +
                 "; but a library that is compiled from the model now agrees: was " + options_.library +
                 " made of this model, these settings and these weights?"};
  return Done{};
}

Status Comparison::run() {
  auto calls = read_compared_calls(options_);
  if (!calls)
    return calls.error();
  calls_ = std::move(*calls);
  auto model = showing_model(options_.model);
  if (!model)
    return model.error();
  tolerance_ = options_.tolerance.value_or(tolerance_of(*model->program, options_.compile.precision));
  if (Status read = read_reference(*model); !read)
    return read;
  auto goal = find_compile_goal(options_.compile);
  if (!goal)
    return goal.error();
  auto kernels = kernels_of_entries(*model, *goal);
  if (!kernels)
    return kernels.error();
  kernels_ = std::move(*kernels);
  auto got = compiled([&](const Entry &entry) { return compared(entry); });
  if (!got)
    return got.error();
  auto library =
      options_.library.empty() ? Result<std::vector<Values>>(std::vector<Values>()) : of_library(options_.library);
  if (!library)
    return library.error();
  for (size_t call = 0; call < calls_.size(); ++call)
    if (Status same = compare(*model, call, (*got)[call], library->empty() ? nullptr : &(*library)[call]); !same)
      return same;
  std::printf("%s: %d %s; the largest difference is %.2g of the largest value (tolerance %.2g)\n",
              options_.model.path.c_str(), compared_, compared_ == 1 ? "definition agrees" : "definitions agree",
              worst_, tolerance_);
  return Done{};
}

Status compare_command(const CompareCommand &options) {
  return options.parts ? compare_parts(options) : Comparison(options).run();
}

} // namespace heddle
