// A checked program through the pipeline: module by module form, then the artifact.
#pragma once

#include "compiler/driver/model.h"
#include "compiler/emit/artifact/artifact.h"
#include "compiler/passes/pipeline.h"
#include "compiler/targets/target.h"
#include "compiler/tune/known_records.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle {

/// What --precision and --keep take.
inline constexpr const char *precisions[] = {"f32", "tf32", "bf16", "int8"};

struct CompileOptions {
  std::string target = "native"; // several with commas between
  std::string precision = "f32";
  std::vector<std::string> keep; // PATH=P: precisions of parts
  std::string scales;            // a file of `heddle calibrate`; empty: scales are found in each call
  std::vector<std::string> dims; // NAME=N: sizes to choose schedules for
  bool why = false;              // print what schedules were chosen from
  bool single_copy = false;      // store no weight in two layouts
  std::string db;                // tuning database; "none": no records; empty: the default one
  std::string machine;           // whose records count; empty: this one's
  std::string cache;             // of kernels that were compiled before; "none": no folder; empty: the default one
};

/// What a model is compiled for.
struct CompileGoal {
  Target target;
  std::string precision;              // of products
  std::vector<std::string> keep = {}; // PATH=P: of those of a part
  std::string scales = "";            // a file of `heddle calibrate`
  std::vector<std::string> dims = {}; // NAME=N: sizes to choose schedules for
  bool why = false;                   // report what schedules were chosen from
  bool single_copy = false;           // store no weight in two layouts
  std::string cache = "";             // folder of kernels that were compiled before; empty: none
  /// The target's, as what they are.
  std::shared_ptr<const tune::KnownRecords> records = nullptr;
  std::vector<std::string> machines = {}; // that there are records of, for the target
};

/// The options' goals, where this version can reach them: one for each target, from the most demanding one on.
Result<std::vector<CompileGoal>> find_compile_goals(const CompileOptions &options);
/// The same for a command that wants one target.
Result<CompileGoal> find_compile_goal(const CompileOptions &options);

/// "B=8" words; every name must be a dim of the program.
Result<std::map<std::string, int64_t>> read_sizes(const std::vector<std::string> &words, const Program &program);

/// The same where every dim must have a value; the message names those that have none.
Result<std::map<std::string, int64_t>> all_sizes(const std::vector<std::string> &words, const Program &program);

/// A tensor's extents as files of scales have them: "B", "S", "768".
std::vector<std::string> shape_words(const Tensor &tensor, const Program &program);

/// A module and the context that owns its types.
struct CompiledModule {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Import and passes, up to the stage. Errors of passes come back with their places.
Result<CompiledModule> compile_module(Model &model, const CompileGoal &goal, passes::PipelineStage stage,
                                      Progress &progress);

struct CompileReport {
  ArtifactReport artifact;
  /// A line for each kernel without a schedule of its own that has a good part of an entry's work.
  std::vector<std::string> general;
  std::string why;                  // the candidates for schedules, for each goal
  std::vector<std::string> records; // for each goal what schedules were measured, where any was
};

/// All of it: MODEL to a folder with one library for all goals.
Result<CompileReport> compile_model(Model &model, const std::vector<CompileGoal> &goals, const std::string &output,
                                    Progress &progress, const ArtifactForm &form = {});

} // namespace heddle
