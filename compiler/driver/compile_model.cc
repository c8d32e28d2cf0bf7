// Passes speak through MLIR's diagnostics; the first error of a run becomes the command's message, at its place in
// the model file.
#include "compiler/driver/compile_model.h"

#include "compiler/driver/cache_places.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/page_facts.h"
#include "compiler/driver/records.h"
#include "compiler/io/scales_file.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/import.h"
#include "compiler/ir/precision.h"
#include "compiler/passes/why.h"
#include "dsl/check/nearest.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <set>

namespace heddle {

using namespace mlir;

static bool is_precision(StringRef word) { return llvm::is_contained(precisions, word); }

Result<std::vector<CompileGoal>> find_compile_goals(const CompileOptions &options) {
  if (!is_precision(options.precision))
    return Error{usage_mark +
                 ("there is no precision `" + options.precision + "`; there are f32, tf32, bf16 and int8")};
  bool quantized = options.precision == "int8", rounded = options.precision == "tf32";
  for (const std::string &word : options.keep) {
    auto [path, precision] = StringRef(word).rsplit('=');
    if (path.empty() || !is_precision(precision))
      return Error{usage_mark + ("--keep wants PATH=P, P one of f32, tf32, bf16 and int8, not `" + word + "`")};
    quantized |= precision == "int8", rounded |= precision == "tf32";
  }
  if (!options.scales.empty() && !quantized)
    return Error{usage_mark + ("--scales " + options.scales + ": only int8 has scales; say --precision int8, too")};
  const std::string cache = options.cache.empty() ? cache_place("HEDDLE_CACHE", "heddle/kernels") : options.cache;
  std::vector<CompileGoal> out;
  SmallVector<StringRef> words;
  StringRef(options.target).split(words, ',');
  for (StringRef word : words) {
    Result<Target> target = find_target(word);
    if (!target)
      return word == "native" ? target.error() : Error{usage_mark + target.error().message};
    if (!target->gpu && rounded)
      return Error{usage_mark + ("--target " + word.str() + ": only GPUs have products of tf32; say " +
                                 (options.precision == "tf32" ? "--precision f32" : "--keep PATH=f32") +
                                 ", or name a GPU, such as cuda:sm_80")};
    if (llvm::none_of(out, [&](const CompileGoal &goal) { return goal.target.name == target->name; }))
      out.push_back({*target, options.precision, options.keep, options.scales, options.dims, options.why,
                     options.single_copy, cache == "none" ? "" : cache});
  }
  // GPUs come before CPUs; of either kind the most demanding comes first.
  llvm::sort(out, [](const CompileGoal &a, const CompileGoal &b) {
    auto demand = [](const Target &target) {
      return std::pair(target.gpu ? target.gpu->sm : 0, std::ranges::find(targets(), target.name, &Target::name));
    };
    return demand(a.target) > demand(b.target);
  });
  if (Status added = add_records(out, options.db, options.machine); !added)
    return added.error();
  return out;
}

Result<CompileGoal> find_compile_goal(const CompileOptions &options) {
  auto goals = find_compile_goals(options);
  if (!goals)
    return goals.error();
  if (goals->size() > 1)
    return Error{"--target " + options.target + ": this command takes one target; `heddle compile` takes several"};
  return goals->front();
}

/// "bert.heddle:41:5: error: …" for the first error that passes report.
static std::string render(const mlir::Diagnostic &diagnostic) {
  std::string text;
  llvm::raw_string_ostream out(text);
  Location loc = diagnostic.getLocation();
  loc->walk([&](Location at) {
    auto place = dyn_cast<FileLineColLoc>(at);
    if (!place)
      return WalkResult::advance();
    out << place.getFilename().getValue() << ":" << place.getLine() << ":" << place.getColumn() << ": ";
    return WalkResult::interrupt();
  });
  out << error_word(stderr_paint()) << " " << diagnostic << "\n";
  return text;
}

Result<std::map<std::string, int64_t>> read_sizes(const std::vector<std::string> &words, const Program &program) {
  std::map<std::string, int64_t> out;
  for (const std::string &word : words) {
    size_t equals = word.find('=');
    std::string name = word.substr(0, equals), digits = equals == std::string::npos ? "" : word.substr(equals + 1);
    int64_t size = 0;
    auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (name.empty() || failed != std::errc() || end != digits.data() + digits.size() || size < 0 || size > INT32_MAX)
      return Error{std::string(usage_mark) + "--dim wants NAME=N, N at most 2147483647, not `" + word + "`"};
    std::string known;
    const Dim *found = nullptr;
    for (const Dim &dim : program.dims) {
      found = dim.name == name ? &dim : found;
      known += (known.empty() ? "" : ", ") + dim.name;
    }
    if (!found)
      return Error{"the model has no dim `" + name + "`; " + (known.empty() ? "it has none" : "it has: " + known)};
    if (found->most && size > *found->most)
      return Error{"--dim " + word + ": the model allows at most " + std::to_string(*found->most)};
    if (auto [before, is_new] = out.insert({name, size}); !is_new && before->second != size)
      return Error{"--dim " + word + ": " + name + " was " + std::to_string(before->second) + " before; name one size"};
  }
  return out;
}

Result<std::map<std::string, int64_t>> all_sizes(const std::vector<std::string> &words, const Program &program) {
  auto out = read_sizes(words, program);
  if (!out)
    return out.error();
  std::string missing;
  for (const Dim &dim : program.dims)
    if (!out->contains(dim.name))
      missing += " --dim " + dim.name + "=N";
  if (!missing.empty())
    return Error{"a search is for one size; give it with" + missing};
  return out;
}

/// What a path that the model doesn't have may stand for: one that ends alike, else one of similar spelling.
static std::string nearest_part(StringRef path, const std::set<std::string> &parts) {
  std::string tail = "." + path.str();
  for (const std::string &part : parts)
    if (StringRef(part).ends_with(tail))
      return part;
  return checking::nearest_of(path.str(), {parts.begin(), parts.end()});
}

/// "layers.0=f32" words as {path = precision}; every path must be a part of the program.
static Result<NamedAttrList> read_kept(const std::vector<std::string> &words, const Program &program,
                                       Builder &builder) {
  NamedAttrList out;
  std::set<std::string> parts;
  for (const Tensor &tensor : words.empty() ? std::deque<Tensor>() : program.tensors)
    if (tensor.kind == Tensor::weight || tensor.kind == Tensor::stage)
      for (StringRef path = tensor.name; !path.empty(); path = path.rsplit('.').first)
        if (!parts.insert(path.str()).second || !path.contains('.'))
          break;
  for (const std::string &word : words) {
    auto [path, precision] = StringRef(word).rsplit('=');
    if (!parts.count(path.str())) {
      std::string near = nearest_part(path, parts);
      return Error{"--keep " + word + ": the model has no part `" + path.str() + "`" +
                   (near.empty() ? "" : "; did you mean `" + near + "`?") +
                   "\n`heddle show MODEL --stage tree` lists weights and definitions by their paths"};
    }
    if (Attribute before = out.set(path, builder.getStringAttr(precision));
        before && cast<StringAttr>(before).getValue() != precision)
      return Error{"--keep " + word + ": `" + path.str() + "` was " + cast<StringAttr>(before).str() +
                   " before; name one precision"};
  }
  return out;
}

std::vector<std::string> shape_words(const Tensor &tensor, const Program &program) {
  std::vector<std::string> out, dims = program.dim_names();
  for (const Size &extent : tensor.shape)
    out.push_back(extent.text(dims));
  return out;
}

/// {activation = magnitude} of a file of scales, which must be this program's.
static Result<DictionaryAttr> read_known_scales(const std::string &path, const Program &program, Builder &builder) {
  auto scales = read_scales(path);
  if (!scales)
    return scales.error();
  const char *again = "; `heddle calibrate` makes one for this model";
  if (scales->model != program.name)
    return Error{path + ": has scales of model `" + scales->model + "`, and this is `" + program.name + "`" + again};
  std::map<std::string, const Tensor *> known;
  for (const Tensor &tensor : program.tensors)
    if (tensor.kind == Tensor::stage)
      known[tensor.name] = &tensor;
  for (const Entry &entry : program.entries)
    for (const Input &input : entry.inputs)
      known.emplace(input.name, input.tensor);
  NamedAttrList out;
  for (const auto &[name, activation] : scales->activations) {
    auto found = known.find(name);
    if (found == known.end())
      return Error{path + ": has a scale of `" + name + "`, which this model doesn't compute" + again};
    if (std::vector<std::string> shape = shape_words(*found->second, program); shape != activation.shape)
      return Error{path + ": `" + name + "` has shape [" + llvm::join(activation.shape, ", ") +
                   "] there, and here it is [" + llvm::join(shape, ", ") + "]" + again};
    out.set(name, builder.getF32FloatAttr(float(activation.largest)));
  }
  return out.getDictionary(builder.getContext());
}

Result<CompiledModule> compile_module(Model &model, const CompileGoal &goal, passes::PipelineStage stage,
                                      Progress &progress) {
  DialectRegistry registry;
  ir::register_dialects(registry);
  CompiledModule out;
  out.context = std::make_unique<MLIRContext>(registry);
  out.context->loadAllAvailableDialects(); // import creates ops of any of them
  std::string first;
  ScopedDiagnosticHandler handler(out.context.get(), [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && first.empty())
      first = render(diagnostic);
    return success();
  });

  progress.stage("import");
  out.module = ir::import_program(*model.program, *out.context, *model.diagnostics);
  if (!out.module)
    return Error{model.diagnostics->has_errors() ? model.diagnostics->render(10, stderr_paint()) : first};

  Builder builder(out.context.get());
  SmallVector<Attribute> tokens;
  for (const TokenId &token : model.tokens)
    tokens.push_back(builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(token.name)),
                                                builder.getNamedAttr("id", builder.getI64IntegerAttr(token.id))}));
  if (!tokens.empty())
    (*out.module)->setAttr(ir::names::tokens, builder.getArrayAttr(tokens));

  if (goal.precision != "f32")
    (*out.module)->setAttr(ir::names::precision, builder.getStringAttr(goal.precision));

  auto kept = read_kept(goal.keep, *model.program, builder);
  if (!kept)
    return kept.error();
  if (!kept->empty())
    (*out.module)->setAttr(ir::names::keep, kept->getDictionary(out.context.get()));

  if (!goal.scales.empty()) {
    auto scales = read_known_scales(goal.scales, *model.program, builder);
    if (!scales)
      return scales.error();
    (*out.module)->setAttr(ir::names::scales, *scales);
  }

  if (goal.single_copy)
    (*out.module)->setAttr(ir::names::single_copy, builder.getUnitAttr());

  auto dims = read_sizes(goal.dims, *model.program);
  if (!dims)
    return dims.error();
  NamedAttrList expected;
  for (const auto &[name, size] : *dims)
    expected.set(name, builder.getI64IntegerAttr(size));
  if (!expected.empty())
    (*out.module)->setAttr(ir::names::expected, expected.getDictionary(out.context.get()));

  progress.stage("passes");
  passes::PipelineOptions pipeline;
  pipeline.until = stage;
  if (failed(passes::run_pipeline(*out.module, goal.target, pipeline)))
    return Error{first.empty()
                     ? std::string("a pass failed without a message; this is a bug of Heddle, please report it")
                     : first};
  return out;
}

Result<CompileReport> compile_model(Model &model, const std::vector<CompileGoal> &goals, const std::string &output,
                                    Progress &progress, const ArtifactForm &form) {
  ArtifactJob job{{}, model.library_name, model.weights ? &*model.weights : nullptr, output};
  job.form = form;
  job.cache = goals.front().cache;
  for (const Program::Setting &setting : model.program->settings)
    job.settings.push_back({setting.name, to_text(setting.value), origin_of(setting, model.config_name)});
  std::vector<CompiledModule> compiled;
  std::vector<std::unique_ptr<ScopedDiagnosticHandler>> handlers;
  std::string first;
  CompileReport report;
  for (const CompileGoal &goal : goals) {
    auto one = compile_module(model, goal, passes::PipelineStage::schedule, progress);
    if (!one)
      return one.error();
    compiled.push_back(std::move(*one));
    MLIRContext *context = compiled.back().context.get();
    handlers.push_back(std::make_unique<ScopedDiagnosticHandler>(context, [&](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && first.empty())
        first = render(diagnostic);
      return success();
    }));
    job.modules.push_back({*compiled.back().module, goal.target});
    if (goal.why)
      report.why += (goals.size() > 1 ? "for " + goal.target.name + "\n" : "") +
                    passes::why_schedules(*compiled.back().module, goal.target);
    if (std::string line = records_line(*compiled.back().module, goal); !line.empty())
      report.records.push_back(line + (goals.size() > 1 ? ", for " + goal.target.name : ""));
    for (std::string &line : general_lines(page_facts(model, *compiled.back().module, goal.target, {})))
      if (!llvm::is_contained(report.general, line))
        report.general.push_back(std::move(line));
  }
  auto written = write_artifact(job, progress);
  if (!written)
    return Error{first.empty() ? written.error().message : first};
  report.artifact = *written;
  return report;
}

} // namespace heddle
