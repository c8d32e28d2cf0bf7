// `use NAME` is looked for beside the model file, then among the models carried in the compiler.
#include "compiler/driver/model.h"

#include "compiler/emit/artifact/check_weights.h"
#include "dsl/syntax/parser.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace heddle {

namespace fs = std::filesystem;

void print_error(const Error &error) {
  bool laid_out = !error.message.empty() && error.message.back() == '\n';
  std::fprintf(stderr, laid_out ? "%s" : "error: %s\n", error.message.c_str());
}

static Result<std::string> read_text(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || fs::is_directory(path) || !(text << in.rdbuf()))
    if (!in || fs::is_directory(path) || fs::file_size(path) != 0)
      return Error{path + ": cannot be read"};
  return text.str();
}

static std::string identifier(const std::string &name) {
  std::string out;
  for (unsigned char c : name)
    out += std::isalnum(c) ? char(std::tolower(c)) : '_';
  if (out.empty() || std::isdigit((unsigned char)out[0]))
    out = "model_" + out;
  return out;
}

/// What MODEL names: its text, and settings and weights where it is a folder.
namespace {
struct Named {
  std::string path, text;
  bool carried = false; // a file of ours, as all that it uses, whatever lies where the command runs
  std::map<std::string, Value> config;
  std::vector<TokenId> tokens;
  std::string weights;
};
} // namespace

/// The names in presets/ beside a model file.
static std::string preset_names(const fs::path &folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto &file : fs::directory_iterator(folder, ignored))
    if (file.path().extension() == ".json")
      names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  std::string out;
  for (const std::string &name : names)
    out += (out.empty() ? "" : ", ") + name;
  return out;
}

static Result<std::map<std::string, Value>> find_config(const ModelOptions &options) {
  std::error_code ignored;
  if (options.config.ends_with(".json"))
    return read_settings(options.config);
  fs::path presets = fs::path(options.path).parent_path() / "presets";
  std::string preset = (presets / (options.config + ".json")).string();
  if (fs::exists(preset, ignored))
    return read_settings(preset);
  std::string known = preset_names(presets);
  return Error{"--config " + options.config + ": " + options.path + " has no preset of that name" +
               (known.empty() ? "" : "; there are: " + known) + " (a file's name ends in .json)"};
}

static Result<Named> find_named(const ModelOptions &options) {
  Named out;
  out.weights = options.weights;
  std::error_code ignored;
  if (fs::is_directory(options.path, ignored)) {
    if (!options.config.empty())
      return Error{
          "--config goes with a .heddle file; a folder has a config.json of its own (--set changes a setting)"};
    if (!is_model_folder(options.path))
      return Error{options.path + ": is neither a Hugging Face folder (it has no config.json) nor a .heddle file"};
    auto folder = open_model_folder(options.path);
    if (!folder)
      return folder.error();
    out.path = folder->model_path;
    out.text = folder->model_text;
    out.carried = true;
    out.config = folder->config;
    auto tokens = read_token_ids(options.path);
    if (!tokens)
      return tokens.error();
    out.tokens = std::move(*tokens);
    if (out.weights.empty())
      out.weights = options.path;
    return out;
  }
  if (!fs::exists(options.path, ignored))
    return Error{options.path + ": there is no such file or folder"};
  if (fs::path(options.path).extension() != ".heddle")
    return Error{options.path + ": a model is a .heddle file or a Hugging Face folder"};
  out.path = options.path;
  auto text = read_text(options.path);
  if (!text)
    return text.error();
  out.text = *text;
  if (!options.config.empty()) {
    auto config = find_config(options);
    if (!config)
      return config.error();
    out.config = std::move(*config);
  }
  return out;
}

Result<Model> load_model(const ModelOptions &options) {
  auto named = find_named(options);
  if (!named)
    return named.error();
  CheckOptions check_options;
  check_options.settings.by_key = named->config;
  for (const std::string &setting : options.settings) {
    auto pair = parse_setting(setting);
    if (!pair)
      return pair.error();
    check_options.settings.by_name.insert_or_assign(pair->first, pair->second);
  }
  Model out;
  out.tokens = named->tokens;
  if (!named->weights.empty()) {
    auto files = WeightFiles::open(named->weights);
    if (!files)
      return files.error();
    out.weights = std::move(*files);
    check_options.has_weight = [&out](const std::string &name) { return out.weights->has(name); };
  }

  out.sources = std::make_unique<Sources>();
  out.diagnostics = std::make_unique<Diagnostics>(*out.sources);
  int source = out.sources->add(named->path, named->text);
  check_options.find_file = [&](const std::string &name) {
    std::string beside = (fs::path(named->path).parent_path() / (name + ".heddle")).string();
    if (!named->carried)
      if (auto text = read_text(beside))
        return out.sources->add(beside, *text);
    if (auto text = carried_file(beside))
      return out.sources->add(beside, *text);
    if (auto carried = find_model(name))
      return out.sources->add(carried->model_path, carried->model_text);
    return -1;
  };
  syntax::File file = syntax::parse(*out.sources, source, *out.diagnostics);
  if (!out.diagnostics->has_errors())
    out.program = check(*out.sources, file, check_options, *out.diagnostics);
  if (out.diagnostics->has_errors() || !out.program)
    return Error{out.diagnostics->render()};
  if (std::string warnings = out.diagnostics->render(); !warnings.empty())
    std::fputs(warnings.c_str(), stderr);
  out.library_name = identifier(fs::path(named->path).stem().string());
  return out;
}

Status require_weights(const Model &model) {
  if (model.program->weights.empty())
    return Done{};
  if (!model.weights)
    return Error{"the model reads weights, such as `" + model.program->weights[0].names[0] +
                 "`; say where they are with --weights FILE.safetensors"};
  return check_weights(*model.program, *model.weights);
}

} // namespace heddle
