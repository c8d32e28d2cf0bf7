// The last step of a compilation: kernels and host program to objects, objects to a library, and beside it the
// header, the manifest and the packed weights.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/io/model_folder.h"
#include "compiler/targets/target.h"
#include "dsl/errors/result.h"

#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// What the manifest says of a setting.
struct ManifestSetting {
  std::string name, value, from; // value: as `--set` takes it; from: the name of a file, "--set" or "default"
};

struct ArtifactJob {
  mlir::ModuleOp module; // after plan_memory
  std::string name;      // of the library; a C identifier
  Target target;
  const WeightFiles *weights; // null: the model reads none
  std::string output;         // folder
  std::vector<ManifestSetting> settings = {};
};

struct ArtifactReport {
  int64_t library_bytes = 0;
  int64_t weights_bytes = 0;
  int kernels = 0; // compiled functions
};

/// Writes DIR/lib<name>.so, <name>.h, heddle.h, <name>.weights and <name>.json: all of them or none.
Result<ArtifactReport> write_artifact(const ArtifactJob &job, Progress &progress);

} // namespace heddle
