// From what a command line names (a .heddle file or a Hugging Face folder, settings, weights) to a checked program.
#pragma once

#include "compiler/io/model_folder.h"
#include "compiler/io/token_ids.h"
#include "dsl/check/check.h"
#include "dsl/errors/result.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

struct ModelOptions {
  std::string path;                  // MODEL
  std::string own;                   // a .heddle file, where MODEL is a folder with config.json and weights for it
  std::string config;                // a config.json, a folder with one, or a name in presets/ beside the model file
  std::vector<std::string> settings; // K=V
  std::string weights;               // path; empty: those of the folder, if it is one
  std::vector<std::string> tokens;   // NAME=ID, instead of the folder's
  bool blank = false;                // no weights are read: all are zeros
  std::string io;                    // type of real inputs and results; empty: as the model file says
};

struct Model {
  std::unique_ptr<Sources> sources;
  std::unique_ptr<Diagnostics> diagnostics;
  std::unique_ptr<Program> program;
  std::optional<WeightFiles> weights;
  std::vector<TokenId> tokens;    // of a Hugging Face folder, or as asked for
  std::string config_name;        // of the file that gave settings: "config.json"
  std::vector<std::string> files; // all that was read and is on the disk
  std::string library_name;       // C identifier made of the model file's name
};

/// The name of the model's library, of which nothing is read but, of a folder, which model it is of.
Result<std::string> find_library_name(const ModelOptions &options);

/// Reads and checks the model. A failure's message is ready to print (see print_error).
Result<Model> load_model(const ModelOptions &options);

/// Where a setting's value came from: the name of a file, "--set" or "default".
std::string origin_of(const Program::Setting &setting, const std::string &config_name);

/// Whether the weights hold what the program reads; the remedy where none were given.
Status require_weights(const Model &model);

/// Colours where stderr is a terminal that shows them and NO_COLOR is not set.
Paint stderr_paint();

/// One message on stderr. What diagnostics have laid out already (it ends in a newline) is printed as it is.
void print_error(const Error &error);

} // namespace heddle
