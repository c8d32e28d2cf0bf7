// Runs the list of passes.def. No pass reads options: what varies by machine is in Target.
#include "compiler/passes/pipeline.h"
#include "compiler/passes/passes.h"

#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Transforms/Passes.h"

#include <chrono>

namespace heddle::passes {

using namespace mlir;

namespace {

struct Row {
  std::unique_ptr<Pass> (*make)(const Target &);
  PipelineStage stage;
  bool ours;
  const char *why_here;
};

const Row pipeline[] = {
#define HEDDLE_PASS(name, stage, why) {[](const Target &) { return name(); }, PipelineStage::stage, true, why},
#define HEDDLE_TARGET_PASS(name, stage, why) {name, PipelineStage::stage, true, why},
#define UPSTREAM_PASS(maker, stage, why) {[](const Target &) { return maker(); }, PipelineStage::stage, false, why},
#include "compiler/passes/passes.def"
#undef HEDDLE_PASS
#undef HEDDLE_TARGET_PASS
#undef UPSTREAM_PASS
};

constexpr std::pair<const char *, PipelineStage> stages[] = {
    {"graph", PipelineStage::graph}, {"kernels", PipelineStage::kernels}, {"schedule", PipelineStage::schedule}};

/// Times each pass.
class Stopwatch : public PassInstrumentation {
public:
  explicit Stopwatch(const std::function<void(std::string_view, double)> &report) : report_(report) {}
  void runBeforePass(Pass *, Operation *) override { start_ = Clock::now(); }
  void runAfterPass(Pass *pass, Operation *) override {
    std::chrono::duration<double> taken = Clock::now() - start_;
    report_(pass->getArgument(), taken.count());
  }

private:
  using Clock = std::chrono::steady_clock;
  const std::function<void(std::string_view, double)> &report_;
  Clock::time_point start_;
};

} // namespace

std::optional<PipelineStage> find_stage(std::string_view name) {
  for (auto [text, stage] : stages)
    if (name == text)
      return stage;
  return std::nullopt;
}

void build_pipeline(OpPassManager &passes, const Target &target, PipelineStage until) {
  for (const Row &row : pipeline)
    if (row.stage <= until)
      passes.addPass(row.make(target));
}

LogicalResult run_pipeline(ModuleOp module, const Target &target, const PipelineOptions &options) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(true);
  if (options.after_pass)
    passes.addInstrumentation(std::make_unique<Stopwatch>(options.after_pass));
  build_pipeline(passes, target, options.until);
  return passes.run(module);
}

void register_passes(const Target &target) {
  for (const Row &row : pipeline)
    if (row.ours)
      registerPass([make = row.make, target] { return make(target); });
  for (auto [name, until] : stages)
    PassPipelineRegistration<>(std::string("to-") + name, "the compiler, up to that stage",
                               [target, until](OpPassManager &passes) { build_pipeline(passes, target, until); });
}

std::string passes_page() {
  std::string out = "# The passes, in order\n\n"
                    "Made by `heddle-opt --passes` from `compiler/passes/passes.def`. `heddle show MODEL --stage S` "
                    "prints the module after "
                    "the\nlast pass of a stage, `heddle-opt` runs any of Heddle's own alone.\n\n"
                    "| pass | what it makes | stage | why it stands here |\n|---|---|---|---|\n";
  for (const Row &row : pipeline) {
    std::unique_ptr<Pass> pass = row.make(targets().front());
    out += "| `" + pass->getArgument().str() + "` | " + (row.ours ? pass->getDescription().str() : "MLIR's own") +
           " | " + stages[size_t(row.stage)].first + " | " + row.why_here + " |\n";
  }
  return out;
}

} // namespace heddle::passes
