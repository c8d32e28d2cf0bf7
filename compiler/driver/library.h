// A compiled library, as `run` and `bench` use it: through heddle.h, like any other program.
#pragma once

#include "compiler/io/host_tensor.h"
#include "compiler/io/manifest.h"
#include "dsl/errors/result.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct heddle_model;
struct heddle_session;

namespace heddle {

using TensorMap = std::map<std::string, HostTensor>;

/// Whether `path` is a folder with a library that `heddle compile` wrote.
bool is_artifact(const std::string &path);
/// Of a folder without one: what to tell the user where it holds a static library or an object (`--emit a,o`), else
/// `otherwise`.
std::string why_no_artifact(const std::string &path, const std::string &otherwise);
/// Where such a folder has its manifest.
Result<std::string> manifest_path(const std::string &folder);

class Library {
public:
  struct Value {
    std::string name;
    DType dtype;
    std::vector<int> dims;      // per extent: number of a dim, or negative: fixed or computed
    std::vector<int64_t> fixed; // per extent, where it is fixed
    bool optional = false;
    int64_t below = -1; // index inputs: every element is below it; -1: no bound, or one that dims decide
  };
  struct Dim {
    std::string name;
    int64_t most; // -1: no bound
  };

  /// `target`: of those that the library has; empty: the most demanding one that this machine can run. `alone`: work is
  /// cut for so many threads, however many this machine has, and the calling one does all of it.
  static Result<Library> open(const std::string &path, int threads, const std::string &target = "", bool alone = false);

  const std::vector<Dim> &dims() const { return dims_; }
  std::string name() const;
  std::string target() const;
  int threads() const;
  /// Compares the weights with their checksum.
  Status verify() const;
  /// The manifest beside the library, which must be this library's; nothing where there is none: a library runs
  /// without it.
  Result<std::optional<Manifest>> manifest() const;
  /// The entry's number; of an empty name: the only entry. The message lists those there are.
  Result<int> entry(const std::string &name) const;
  Result<std::vector<Value>> inputs(int entry) const;

  /// Calls `observer` when a kernel of a run begins and has ended; an empty one ends that.
  void observe(std::function<void(const char *kernel, bool begins)> observer);
  /// The same of the tasks of each loop on the CPU, numbered from 0; on the thread that does them.
  void observe_tasks(std::function<void(int task, bool begins)> observer);
  /// One call on this library's session.
  Result<TensorMap> run(int entry, const TensorMap &inputs) const;
  /// The same into results of the right shapes, for a benchmark's loop.
  Status run_into(int entry, const TensorMap &inputs, TensorMap &results) const;
  /// Whether the model has states; what the session keeps in them between calls, and back to it.
  bool keeps_state() const;
  Result<std::vector<std::byte>> save() const;
  Status restore(const std::vector<std::byte> &state) const;

  /// How tokens are chosen: the fields of heddle_generate_options.
  struct Generation {
    int steps = 0, min_steps = 0, beams = 1;
    double length_penalty = 1;
    std::string early_stopping = "false"; // or "true", "never", as transformers has it
    bool sample = false;
    double temperature = 1, top_p = 1;
    int top_k = 0;
    uint64_t seed = 0;
    std::vector<std::pair<std::string, int64_t>> tokens; // ids that replace the model's
  };
  /// `sequences` and `scores` of the texts that follow the inputs.
  Result<TensorMap> generate(const TensorMap &inputs, const Generation &how) const;
  /// `log_probabilities` of the tokens of given texts; the texts of an encoder-decoder are its `labels`.
  Result<TensorMap> score(const TensorMap &inputs, const Generation &how) const;

private:
  Library() = default;
  bool is_described_by(const Manifest &manifest) const;

  std::string path_;
  std::shared_ptr<heddle_model> model_;
  std::shared_ptr<heddle_session> session_;
  std::vector<Dim> dims_;
  std::shared_ptr<std::function<void(const char *, bool)>> observer_; // these two outlive the session's use of them
  std::shared_ptr<std::function<void(int, bool)>> task_observer_;
};

} // namespace heddle
