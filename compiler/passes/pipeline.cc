// The compiler, in order. Each pass stands where its reason says; none reads options. What varies by machine is in
// Target.
#include "compiler/passes/pipeline.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/plan_memory.h"

#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Transforms/Passes.h"

#include <chrono>

namespace heddle::passes {

using namespace mlir;

namespace {

struct PlanMemory : PassWrapper<PlanMemory, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanMemory)
  StringRef getArgument() const override { return "plan_memory"; }
  StringRef getDescription() const override { return "a place for each value between kernels"; }
  void runOnOperation() override {
    if (failed(plan_memory(getOperation())))
      signalPassFailure();
  }
};

using Maker = std::unique_ptr<Pass> (*)(const Target &);

struct Row {
  Maker make;
  Stage stage;
  const char *why_here;
};

std::unique_ptr<Pass> canonical(const Target &) { return createCanonicalizerPass(); }
std::unique_ptr<Pass> share(const Target &) { return createCSEPass(); }
std::unique_ptr<Pass> hoist(const Target &) { return createLoopInvariantCodeMotionPass(); }
template <std::unique_ptr<Pass> (*make)()> std::unique_ptr<Pass> plain(const Target &) { return make(); }

const Row pipeline[] = {
    {canonical, Stage::graph, "folds constants that import wrote as they stood, so that copies can be seen"},
    {plain<split_weights>, Stage::graph, "before simplify, which makes operands of what is read at plain places"},
    {plain<simplify>, Stage::graph, "before sharing: what reads through copies may be equal afterwards"},
    {canonical, Stage::graph, "drops the copies that nothing reads now"},
    {share, Stage::graph, "before fusion, so that equal stages are computed in one kernel only"},
    {hoist, Stage::graph, "after sharing: what no turn of a loop changes is computed in front of it"},
    {plain<slide_states>, Stage::graph, "after sharing: the old value of a part of a state is one slice"},
    {plain<widen_loops>, Stage::graph,
     "after hoisting: what remains in a loop depends on the turn or on what is carried"},
    {plain<form_kernels>, Stage::kernels, "the last pass that sees the whole graph of stages"},
    {plain<outline_kernels>, Stage::kernels, "equal kernels become one: all later work is done once for all layers"},
    {plain<collapse_dims>, Stage::kernels, "before layouts, which name axes of the collapsed shapes"},
    {canonical, Stage::kernels, "reshapes between two kernels that collapse alike cancel out"},
    {share, Stage::kernels, "sizes that the calls compute are computed once"},
    {plain<skip_roundings>, Stage::kernels, "kernels have their shapes: what they keep to themselves is known"},
    {layout_weights, Stage::schedule, "before schedules, which must suit the panels"},
    {choose_schedules, Stage::schedule, "kernels are final: emission may start on any of them"},
    {plain<[]() -> std::unique_ptr<Pass> { return std::make_unique<PlanMemory>(); }>, Stage::schedule,
     "last: a change of any call would change lifetimes"},
};

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

std::optional<Stage> find_stage(std::string_view name) {
  if (name == "graph")
    return Stage::graph;
  if (name == "kernels")
    return Stage::kernels;
  if (name == "schedule")
    return Stage::schedule;
  return std::nullopt;
}

void build_pipeline(OpPassManager &passes, const Target &target, Stage until) {
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
  registerPass(split_weights);
  registerPass(simplify);
  registerPass(widen_loops);
  registerPass(form_kernels);
  registerPass(outline_kernels);
  registerPass(collapse_dims);
  registerPass(skip_roundings);
  registerPass([target] { return layout_weights(target); });
  registerPass([target] { return choose_schedules(target); });
  registerPass([] { return std::make_unique<PlanMemory>(); });
  for (auto [name, until] :
       {std::pair("to-graph", Stage::graph), {"to-kernels", Stage::kernels}, {"to-schedule", Stage::schedule}})
    PassPipelineRegistration<>(name, "the compiler, up to that stage",
                               [target, until](OpPassManager &passes) { build_pipeline(passes, target, until); });
}

} // namespace heddle::passes
