// A folder in the Hugging Face layout: config.json says which model it is and with which settings,
// model.safetensors or pytorch_model.bin (or several files and their index) has the weights. The model files are
// carried inside the compiler, one for each `model_type`.
#pragma once

#include "compiler/io/config.h"
#include "compiler/io/weight_file.h"

namespace heddle {

/// The weights of a model, in one file or several.
class WeightFiles {
public:
  /// A file of weights, an index of several (model.safetensors.index.json), or a folder that has one of them:
  /// model.safetensors, or else pytorch_model.bin.
  static Result<WeightFiles> open(const std::string &path);

  /// Zeros of these shapes, in no file.
  static WeightFiles zeros(const std::map<std::string, std::vector<int64_t>> &shapes);

  /// For messages: the file or folder that was opened.
  const std::string &path() const { return path_; }
  /// All files that were read.
  const std::vector<std::string> &files() const { return names_; }
  const std::map<std::string, TensorView> &tensors() const { return tensors_; }
  const TensorView *find(const std::string &name) const;
  /// Whether some tensor has this name, or a name that begins with it and a dot.
  bool has(const std::string &name) const;

private:
  std::string path_;
  std::vector<std::string> names_;
  std::vector<WeightFile> files_;
  std::map<std::string, TensorView> tensors_;
};

struct ModelFolder {
  std::string path;
  std::string model_type;
  std::string model_path; // of the model file: "models/bert/bert.heddle"
  std::string model_text;
  std::map<std::string, Value> config; // for Settings::by_key
};

/// The settings of a config.json; what it leaves to be computed from others (the number of labels) is put in.
Result<std::map<std::string, Value>> read_settings(const std::string &path);
/// Those of a folder's config.json, with what its weights tell: which program saved them.
Result<std::map<std::string, Value>> read_folder_settings(const std::string &folder);
/// Whether `path` is a folder with a config.json.
bool is_model_folder(const std::string &path);
Result<ModelFolder> open_model_folder(const std::string &path);

/// A model file of that `model_type`, or nothing; and all that there are.
std::optional<ModelFolder> find_model(const std::string &model_type);
std::vector<std::string> model_types();
/// The text of a file beside the carried model files, such as "models/detr/resnet.heddle", or nothing.
std::optional<std::string> carried_file(const std::string &path);

} // namespace heddle
