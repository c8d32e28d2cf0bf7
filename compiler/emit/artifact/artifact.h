// The last step of a compilation: kernels and host program to objects, objects to a library, and beside it the
// header, the manifest and the packed weights.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/emit/host/weights_layout.h"
#include "compiler/io/model_folder.h"
#include "dsl/errors/result.h"

namespace heddle {

/// What the manifest says of a setting.
struct ManifestSetting {
  std::string name, value, from; // value: as `--set` takes it; from: the name of a file, "--set" or "default"
};

/// Which files carry the code, and whether it carries the weights.
struct ArtifactForm {
  bool shared = true;   // lib<name>.so
  bool archive = false; // lib<name>.a, of one object
  bool object = false;  // <name>.o: shows <name>_* and nothing else, so that several link into one program
  bool ptx = false;     // <name>.sm_80.ptx for each GPU
  bool embed_weights = false;
  std::string ptxas = ""; // NVIDIA's assembler, for machine code beside the PTX; "": none
};

struct ArtifactJob {
  std::vector<TargetModule> modules; // one model, from the most demanding target on
  std::string name;                  // of the library; a C identifier
  const WeightFiles *weights;        // null: the model reads none
  std::string output;                // folder
  std::vector<ManifestSetting> settings = {};
  ArtifactForm form = {};
  std::string cache = {}; // folder with kernels that were compiled before; "": none
};

struct ArtifactReport {
  /// What a target has in the library.
  struct Part {
    std::string target;
    int kernels = 0; // as the manifest lists them: each may have code for several sizes
    int64_t weights_bytes = 0;
    int64_t shared_bytes = 0; // of these, what a target before it has, too
    int64_t copied_bytes = 0; // of these, second copies of weights
  };
  std::vector<std::pair<std::string, int64_t>> libraries; // name and bytes of each file with code
  int64_t weights_bytes = 0;
  std::vector<Part> parts; // in the order of the job's modules
};

/// Writes the library, <name>.h, heddle.h, <name>.pc, <name>.json, beside a shared library <name>_model.py and, unless
/// they are in the library, <name>.weights to the folder: all of them or none.
Result<ArtifactReport> write_artifact(const ArtifactJob &job, Progress &progress);

} // namespace heddle
