// Passes speak through MLIR's diagnostics; the first error of a run becomes the command's message, at its place in
// the model file.
#include "compiler/driver/compile_model.h"

#include "compiler/driver/commands.h"
#include "compiler/driver/page_facts.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/import.h"
#include "compiler/passes/why.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <charconv>

namespace heddle {

using namespace mlir;

Result<std::vector<CompileGoal>> find_compile_goals(const CompileOptions &options) {
  if (options.precision != "f32" && options.precision != "bf16" && options.precision != "int8")
    return Error{"there is no precision `" + options.precision + "`; there are f32, bf16 and int8"};
  std::vector<CompileGoal> out;
  SmallVector<StringRef> words;
  StringRef(options.target).split(words, ',');
  for (StringRef word : words) {
    if (word.starts_with("cuda:"))
      return Error{"--target " + word.str() + " is not built yet; CPUs are: native, x86-64-v3, x86-64-v4, …"};
    Result<Target> target = find_target(word);
    if (!target)
      return target.error();
    if (llvm::none_of(out, [&](const CompileGoal &goal) { return goal.target.name == target->name; }))
      out.push_back({*target, options.precision, options.dims, options.why, options.single_copy});
  }
  // Each target allows all that those below it allow.
  llvm::sort(out, [](const CompileGoal &a, const CompileGoal &b) {
    return a.target.cpu_features() > b.target.cpu_features();
  });
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
    PageFacts facts = page_facts(model, *compiled.back().module, goal.target, {});
    for (const GeneralWork &work : general_work(facts)) {
      const PageSource &at = facts.kernels[work.kernel].reduced_at;
      std::string line = at.path + ":" + std::to_string(at.line) + ": " + general_text(facts, work);
      if (!llvm::is_contained(report.general, line))
        report.general.push_back(std::move(line));
    }
  }
  auto written = write_artifact(job, progress);
  if (!written)
    return Error{first.empty() ? written.error().message : first};
  report.artifact = *written;
  return report;
}

} // namespace heddle
