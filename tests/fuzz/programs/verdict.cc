// The library is the one that `heddle compile` writes, opened twice: with one thread and with two.
#include "tests/fuzz/programs/verdict.h"

#include "compiler/driver/compile_model.h"
#include "compiler/driver/library.h"
#include "compiler/io/safetensors.h"
#include "compiler/io/unfinished.h"
#include "compiler/ir/dialect.h"
#include "dsl/check/round.h"
#include "dsl/check/verify.h"
#include "dsl/syntax/parser.h"
#include "tests/fuzz/programs/bounds.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

namespace heddle::fuzz {

namespace {

/// What the first lines of a program say.
struct Plan {
  struct Call {
    std::string entry;                      // empty: the first
    std::map<std::string, int64_t> numbers; // of dims, and of inputs that the call gives
  };
  std::vector<Call> calls;
  bool whole = false, may_be_refused = false;
  std::string target = "native";
  std::string real = "f32";
  std::string precision = "f32"; // of products
};

Plan plan_of(const std::string &text) {
  Plan plan;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, word;
    words >> hash >> what;
    if (hash != "#")
      continue;
    if (what == "call") {
      plan.calls.emplace_back();
      while (words >> word)
        if (size_t equals = word.find('='); equals != std::string::npos)
          plan.calls.back().numbers[word.substr(0, equals)] = std::atoll(word.c_str() + equals + 1);
        else
          plan.calls.back().entry = word;
    } else if (what == "data") {
      words >> word;
      plan.whole = word == "whole";
    } else if (what == "may") {
      plan.may_be_refused = true;
    } else if (what == "target") {
      words >> plan.target;
    } else if (what == "real") {
      words >> plan.real;
    } else if (what == "precision") {
      words >> plan.precision;
    }
  }
  return plan;
}

/// The same numbers for the same name and salt, in any program: a smaller program keeps its data.
Array numbers(Type type, const std::vector<int64_t> &shape, const std::string &name, int salt, const Plan &plan,
              int64_t below = -1) {
  std::seed_seq seed{size_t(std::hash<std::string>()(name)), size_t(salt)};
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Array out{type, shape, {}};
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  for (int64_t i = 0; i < n; ++i) {
    double value = 0;
    if (type == Type::boolean)
      value = random() % 3 != 0;
    else if (below >= 0)
      value = below ? double(random() % uint64_t(below)) : 0;
    else if (type == Type::i32 || type == Type::i8 || plan.whole)
      value = double(int(random() % 8)) - 3;
    else
      value = float(normal(random) * (salt < 0 ? 0.5 : 1)); // weights are smaller
    out.data.push_back(round_to(type, value));
  }
  return out;
}

std::vector<int64_t> shape_at(const std::vector<Size> &shape, const std::vector<int64_t> &dims) {
  std::vector<int64_t> out;
  for (const Size &size : shape)
    out.push_back(size.evaluate(dims));
  return out;
}

std::string at_text(const std::vector<int64_t> &shape, int64_t flat) {
  std::string out;
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d])
    out = std::to_string(flat % shape[d]) + (out.empty() ? "" : ", ") + out;
  return "[" + out + "]";
}

std::string dims_text(const std::map<std::string, int64_t> &dims) {
  std::string out;
  for (const auto &[name, value] : dims)
    out += (out.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return out;
}

/// How far outside of its bounds a result may be as a share of the largest one of its tensor: products of narrow
/// factors are off by a share of their terms, and what follows may make more of that, so that only gross faults show.
double slack_of(const std::string &precision) { return precision == "bf16" ? 0.1 : precision == "int8" ? 0.5 : 0; }

/// The bounds with so much slack. What is no real may be any: a small difference decides which is the largest.
Box widened(Box box, double slack) {
  double largest = 0;
  for (const Interval &x : box.data)
    if (x.known())
      for (double end : {std::fabs(x.lo), std::fabs(x.hi)})
        largest = std::isfinite(end) ? std::max(largest, end) : largest;
  for (Interval &x : box.data)
    x.lo -= slack * largest, x.hi += slack * largest;
  return box;
}

/// The first element of a result outside of its bounds.
std::string outside(const std::string &name, const std::vector<double> &got, const Box &box) {
  char text[300];
  for (size_t i = 0; i < got.size() && i < box.data.size(); ++i)
    if (const Interval &want = box.data[i]; !want.contains(got[i])) {
      std::snprintf(text, sizeof text, "%s%s is %.9g, not in [%.9g, %.9g]", name.c_str(),
                    at_text(box.shape, int64_t(i)).c_str(), got[i], want.lo, want.hi);
      return text;
    }
  return "";
}

struct Front {
  Model model;
  std::unique_ptr<Program> reference; // with every place of every definition
  Verdict verdict;                    // of what was seen so far
  bool at_end = false;                // refused, as it may be
};

/// Whether all that is wrong is that nothing proves a place to be inside.
bool only_places(const Diagnostics &diagnostics) {
  for (const Diagnostic &d : diagnostics.all())
    if (d.severity == Severity::error && d.code != Code::E021 && d.code != Code::E022 && d.code != Code::E072)
      return false;
  return true;
}

/// The program's steps without the messages of what they require, which quote it with the spaces and parentheses that
/// it was written with.
std::string computed(const Program &program) {
  const std::string before = " else \"";
  std::string text = to_text(program);
  for (size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
    at += before.size();
    text.erase(at, text.find('"', at) - at);
  }
  return text;
}

Front read(const std::string &text, const Plan &plan) {
  Front out;
  Model &model = out.model;
  model.sources = std::make_unique<Sources>();
  model.diagnostics = std::make_unique<Diagnostics>(*model.sources);
  model.library_name = "fuzz";
  syntax::File tree = syntax::parse(*model.sources, model.sources->add("fuzz.heddle", text), *model.diagnostics);
  CheckOptions options;
  options.find_file = [](const std::string &) { return -1; };
  options.settings.by_name.emplace("real", plan.real);
  if (!model.diagnostics->has_errors())
    model.program = check(*model.sources, tree, options, *model.diagnostics);
  if (!model.program) {
    out.at_end = plan.may_be_refused && only_places(*model.diagnostics);
    out.verdict = {out.at_end ? Verdict::agrees : Verdict::refused, model.diagnostics->render()};
    return out;
  }
  if (std::string wrong = verify(*model.program); !wrong.empty()) {
    out.verdict = {Verdict::refused, "the checked program is none: " + wrong};
    return out;
  }
  CheckOptions whole = options;
  whole.every_place = true;
  Diagnostics told_before(*model.sources);
  out.reference = check(*model.sources, tree, whole, told_before);
  // What the printer writes is the same program, printed as itself.
  std::string once = syntax::print(*model.sources, tree);
  Sources sources;
  Diagnostics diagnostics(sources);
  syntax::File again = syntax::parse(sources, sources.add("printed.heddle", once), diagnostics);
  auto program = diagnostics.has_errors() ? nullptr : check(sources, again, options, diagnostics);
  if (!program)
    out.verdict = {Verdict::unstable, "what was printed is refused: " + diagnostics.render()};
  else if (syntax::print(sources, again) != once)
    out.verdict = {Verdict::unstable, "printed twice, it differs"};
  else if (computed(*program) != computed(*model.program))
    out.verdict = {Verdict::unstable, "printed, it means something else"};
  return out;
}

/// What a call is made with.
struct Call {
  int entry = 0;
  std::map<std::string, int64_t> named;
  std::vector<int64_t> dims;
  std::map<std::string, Array> inputs;
};

/// What a call's line lacks: a dim that is guessed may be another than the one that a state of an earlier call holds.
std::string lacking(const Program &program, const Plan &plan) {
  for (size_t i = 0; i < plan.calls.size(); ++i)
    for (const Dim &dim : program.dims)
      if (!plan.calls[i].numbers.count(dim.name))
        return "line `# call` number " + std::to_string(i + 1) + " lacks the dim " + dim.name + "; write " + dim.name +
               "=N in it";
  return "";
}

std::vector<Call> calls_of(const Program &program, const Plan &plan) {
  std::vector<Call> out;
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    Call call;
    call.named = plan.calls[i].numbers;
    for (size_t e = 0; e < program.entries.size(); ++e)
      if (program.entries[e].name == plan.calls[i].entry)
        call.entry = int(e);
    const Entry &entry = program.entries[call.entry];
    for (const Dim &dim : program.dims)
      call.dims.push_back(call.named.at(dim.name));
    for (const Input &input : entry.inputs) {
      int64_t below = input.below ? input.below->evaluate(call.dims) : -1;
      if (input.initial && i % 2 == 1)
        continue; // left out
      Array array =
          numbers(input.tensor->type, shape_at(input.tensor->shape, call.dims), input.name, int(i), plan, below);
      if (auto given = call.named.find(input.name); given != call.named.end() && !array.data.empty())
        array.data[array.data.size() / 2] = double(given->second);
      call.inputs.emplace(input.name, std::move(array));
    }
    out.push_back(std::move(call));
  }
  return out;
}

/// Of each call: results, or the message that refused it.
/// `again`: every call is made twice (there are no states that would see it).
std::vector<Result<TensorMap>> run_library(const std::string &folder, int threads, const std::vector<Call> &calls,
                                           bool again) {
  std::vector<Result<TensorMap>> out;
  auto library = Library::open(folder, threads);
  for (const Call &call : calls) {
    if (!library) {
      out.push_back(library.error());
      continue;
    }
    TensorMap inputs;
    for (const auto &[name, array] : call.inputs)
      inputs.emplace(name, host_tensor(array));
    auto results = library->run(call.entry, inputs);
    if (results && again) { // over rubbish, so that what is not written shows
      for (auto &[name, tensor] : *results)
        std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte(0xFF));
      if (Status ran = library->run_into(call.entry, inputs, *results); !ran)
        results = ran.error();
    }
    out.push_back(std::move(results));
  }
  return out;
}

/// The kinds of the kernels in a manifest.
std::string kinds_in(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string json = text.str(), out;
  const std::string key = "\"kind\": \"";
  for (size_t at = json.find(key); at != std::string::npos; at = json.find(key, at + 1)) {
    size_t begin = at + key.size();
    out += json.substr(begin, json.find('"', begin) - begin) + " ";
  }
  return out;
}

std::vector<double> values(const HostTensor &tensor) {
  std::vector<double> out(tensor.view().count());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = read_element(tensor.view(), int64_t(i));
  return out;
}

class Examination {
public:
  Examination(const std::string &text, bool compiled)
      : plan_(plan_of(text)), front_(read(text, plan_)), compiled_(compiled) {}

  Verdict run() {
    if (front_.verdict.kind != Verdict::agrees || front_.at_end)
      return front_.verdict;
    if (std::string why = lacking(program(), plan_); !why.empty())
      return {Verdict::refused, why};
    calls_ = calls_of(program(), plan_);
    reference();
    if (verdict_.kind == Verdict::agrees && compiled_)
      library();
    return verdict_;
  }

private:
  const Program &program() const { return *front_.model.program; }
  bool fail(Verdict::Kind kind, const std::string &what) {
    verdict_.kind = kind;
    verdict_.what = what;
    return false;
  }
  Array weight(const Weight &weight) const {
    return numbers(weight.tensor->type, weight.stored, weight.names[0], -1, plan_);
  }

  void reference() {
    Interpreter interpreter(*front_.reference, [&](const std::string &name) -> Result<Array> {
      for (const Weight &w : front_.reference->weights)
        if (w.names[0] == name)
          return weight(w);
      return Error{"no weight"};
    });
    Bounds bounds(*front_.reference, [&](const Weight &w) { return weight(w); });
    for (const Call &call : calls_) {
      const Entry &entry = front_.reference->entries[call.entry];
      auto results = interpreter.run(entry.name, call.inputs);
      messages_.push_back(results ? "" : results.error().message);
      if (!results) {
        if (messages_.back().find("internal error") != std::string::npos) {
          fail(Verdict::evaluator, dims_text(call.named) + ": " + messages_.back());
          return;
        }
        boxes_.emplace_back();
        if (messages_.back().starts_with("entry '" + entry.name + "': ")) // of several requirements either may be told
          for (const std::string &message : bounds.broken(entry, call.dims, call.inputs))
            broken_[boxes_.size() - 1].insert("entry '" + entry.name + "': " + message);
        continue;
      }
      boxes_.push_back(bounds.run(entry, call.dims, call.inputs));
      for (const auto &[name, array] : *results) {
        const Box &box = boxes_.back().at(name);
        for (const Interval &x : box.data)
          ++(x.held() ? verdict_.compared : verdict_.free);
        if (array.shape != box.shape) {
          fail(Verdict::wrong_bounds, name + " has another shape than its bounds");
          return;
        }
        if (std::string where = outside(name, array.data, box); !where.empty()) {
          fail(Verdict::wrong_bounds, "evaluator, " + dims_text(call.named) + ": " + where);
          return;
        }
      }
    }
  }

  void library() {
    auto folder = temporary_folder();
    auto target = find_target(plan_.target);
    if (!folder || !target) {
      fail(Verdict::not_compiled, "no folder or target");
      return;
    }
    std::map<std::string, Array> arrays;
    std::vector<HostTensor> tensors;
    std::map<std::string, TensorView> views;
    tensors.reserve(program().weights.size());
    for (const Weight &w : program().weights) {
      tensors.push_back(host_tensor(weight(w)));
      views[w.names[0]] = tensors.back().view();
    }
    std::string path = folder->path() + "/w.safetensors", output = folder->path() + "/out";
    if (!views.empty()) {
      if (Status written = write_safetensors(path, views); !written) {
        fail(Verdict::not_compiled, written.error().message);
        return;
      }
      auto files = WeightFiles::open(path);
      if (!files) {
        fail(Verdict::not_compiled, files.error().message);
        return;
      }
      front_.model.weights = std::move(*files);
    }
    Progress progress(Progress::Show::nothing);
    auto report = compile_model(front_.model, {CompileGoal{*target, plan_.precision}}, output, progress);
    if (!report) {
      fail(Verdict::not_compiled, report.error().message);
      return;
    }
    verdict_.kernels = kinds_in(output + "/fuzz.json");
    bool again = program().states.empty();
    auto one = run_library(output, 1, calls_, again), two = run_library(output, 2, calls_, again);
    for (size_t i = 0; i < calls_.size(); ++i)
      if (!compare(i, one[i], two[i]))
        return;
  }

  bool compare(size_t i, const Result<TensorMap> &one, const Result<TensorMap> &two) {
    std::string when = dims_text(calls_[i].named) + ": ";
    if (!messages_[i].empty()) {
      for (const Result<TensorMap> *result : {&one, &two}) {
        if (*result)
          return fail(Verdict::call_failed, when + "only the evaluator refuses: " + messages_[i]);
        if (result->error().message != messages_[i] && !broken_[i].count(result->error().message))
          return fail(Verdict::call_failed, when + "the evaluator refuses with \"" + messages_[i] +
                                                "\", the library with \"" + result->error().message + "\"");
      }
      return true;
    }
    if (!one)
      return fail(Verdict::call_failed, when + "only the library refuses: " + one.error().message);
    if (!two)
      return fail(Verdict::call_failed, when + "refused with two threads: " + two.error().message);
    for (const auto &[name, box] : boxes_[i]) {
      const HostTensor &result = one->at(name);
      if (result.shape != box.shape)
        return fail(Verdict::mismatch, when + name + " has shape " + shape_text(result.shape));
      Box allowed = widened(box, slack_of(plan_.precision));
      if (std::string where = outside(name, values(result), allowed); !where.empty())
        return fail(Verdict::mismatch, when + where);
      if (const HostTensor &other = two->at(name); result.bytes != other.bytes) {
        auto a = values(result), b = values(other);
        size_t at = 0;
        while (at + 1 < a.size() && (a[at] == b[at] || (a[at] != a[at] && b[at] != b[at])))
          ++at;
        return fail(Verdict::threads, when + name + " has other bits with two threads: element " + std::to_string(at) +
                                          " is " + std::to_string(a[at]) + " and " + std::to_string(b[at]));
      }
    }
    return true;
  }

  Plan plan_;
  Front front_;
  bool compiled_;
  std::vector<Call> calls_;
  std::vector<std::string> messages_;              // of the evaluator's refusals, per call
  std::map<size_t, std::set<std::string>> broken_; // what else they may say
  std::vector<std::map<std::string, Box>> boxes_;
  Verdict verdict_;
};

} // namespace

const char *kind_name(Verdict::Kind kind) {
  constexpr const char *names[] = {"agrees",       "refused",  "unstable", "evaluator", "not-compiled", "call-failed",
                                   "wrong-bounds", "mismatch", "threads",  "crash",     "hang"};
  return names[kind];
}

Verdict examine(const std::string &text, bool compile) { return Examination(text, compile).run(); }

} // namespace heddle::fuzz
