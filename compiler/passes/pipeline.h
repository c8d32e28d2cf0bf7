// The compiler's passes in order, from import's module to the one that emission reads. passes.def tells the story.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace heddle::passes {

/// Where the road can stop, for people who look (`heddle show --stage`).
enum class PipelineStage {
  graph,    // simplified; linalg ops in the entries
  kernels,  // functions, one per kernel; loops collapsed
  schedule, // layouts and schedules chosen, places in memory given: what emission reads
};
/// `graph`, `kernels`, `schedule`.
std::optional<PipelineStage> find_stage(std::string_view name);

/// Adds the passes up to and including `until`.
void build_pipeline(mlir::OpPassManager &passes, const Target &target, PipelineStage until = PipelineStage::schedule);

struct PipelineOptions {
  PipelineStage until = PipelineStage::schedule;
  /// Called after each pass with its name and the seconds it took.
  std::function<void(std::string_view pass, double seconds)> after_pass;
};
/// Runs them, verifying the module after each. Messages go to the context's diagnostic handlers; a failure is a fault
/// of the compiler, and a message names the pass.
mlir::LogicalResult run_pipeline(mlir::ModuleOp module, const Target &target, const PipelineOptions &options = {});

} // namespace heddle::passes
