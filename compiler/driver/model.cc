// `use NAME` is looked for beside the model file, then among the models carried in the compiler.
#include "compiler/driver/model.h"

#include "compiler/driver/commands.h"
#include "compiler/driver/interface_types.h"
#include "compiler/driver/library.h"
#include "compiler/emit/artifact/check_weights.h"
#include "compiler/emit/host/c_names.h"
#include "compiler/io/input.h"
#include "dsl/syntax/parser.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <unistd.h>

namespace heddle {

namespace fs = std::filesystem;

Paint stderr_paint() {
  auto set = [](const char *name) { return std::getenv(name) && *std::getenv(name); };
  const char *terminal = std::getenv("TERM");
  bool shows = terminal && *terminal && std::string_view(terminal) != "dumb";
  return isatty(STDERR_FILENO) && shows && !set("NO_COLOR") ? Paint::terminal : Paint::none; // no-color.org
}

void print_error(const Error &error) {
  bool laid_out = !error.message.empty() && error.message.back() == '\n';
  if (!laid_out)
    std::fprintf(stderr, "%s ", error_word(stderr_paint()).c_str());
  std::string words = laid_out ? error.message : printable(error.message) + "\n"; // it may quote files of others
  std::fwrite(words.data(), 1, words.size(), stderr);
}

/// What MODEL names: its text, and settings and weights where it is a folder.
namespace {
struct Named {
  std::string path, text;
  bool carried = false; // a file of ours, as all that it uses, whatever lies where the command runs
  std::map<std::string, Value> config;
  std::string config_name; // of its file
  std::vector<TokenId> tokens;
  std::string weights;
  std::vector<std::string> files; // that were read, on the disk
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

/// The path of the config.json that --config names: a file, one in a folder, or a preset beside the model file.
static Result<std::string> find_config(const std::string &config, const std::string &model_path) {
  std::error_code ignored;
  if (config.ends_with(".json"))
    return config;
  fs::path presets = fs::path(model_path).parent_path() / "presets";
  std::string preset = (presets / (config + ".json")).string();
  if (fs::exists(preset, ignored))
    return preset;
  if (is_model_folder(config))
    return config + "/config.json";
  if (fs::is_directory(config, ignored))
    return Error{"--config " + config + ": the folder has no config.json"};
  std::string known = preset_names(presets);
  return Error{"--config " + config + ": " + model_path + " has no preset of that name" +
               (known.empty() ? "" : "; there are: " + known) + " (a file's name ends in .json)"};
}

static Status read_model_file(const std::string &path, Named &out) {
  std::error_code failed;
  if (!fs::exists(path, failed))
    return Error{path + (failed ? ": cannot read: " + failed.message() : ": there is no such file or folder")};
  if (fs::path(path).extension() != ".heddle")
    return Error{path + ": a model is a .heddle file or a Hugging Face folder"};
  auto text = read_file(path);
  if (!text)
    return text.error();
  out.path = path;
  out.text = *text;
  return Done{};
}

/// The model file that a folder's config.json names.
static Status find_carried(const std::string &folder, Named &out) {
  if (!is_model_folder(folder))
    return Error{
        why_no_artifact(folder, ": is neither a Hugging Face folder (it has no config.json) nor a .heddle file")};
  auto found = open_model_folder(folder);
  if (!found)
    return found.error();
  out.path = found->model_path;
  out.text = found->model_text;
  out.carried = true;
  return Done{};
}

static std::string library_name_of(const std::string &model_file) {
  return library_name(fs::path(model_file).stem().string());
}

Result<std::string> find_library_name(const ModelOptions &options) {
  if (!options.own.empty() || fs::path(options.path).extension() == ".heddle")
    return library_name_of(options.own.empty() ? options.path : options.own);
  Named named;
  if (Status found = find_carried(options.path, named); !found)
    return found.error();
  return library_name_of(named.path);
}

static Result<Named> find_named(const ModelOptions &options) {
  Named out;
  std::error_code ignored;
  bool folder = fs::is_directory(options.path, ignored);
  if (folder && options.own.empty() && !options.config.empty())
    return Error{"--config goes with a .heddle file; a folder has a config.json of its own (--set changes a setting)"};
  if (!folder && !options.own.empty() && fs::exists(options.path, ignored))
    return Error{"--model goes with a Hugging Face folder, and " + options.path + " is none"};
  Status read = !folder               ? read_model_file(options.path, out)
                : options.own.empty() ? find_carried(options.path, out)
                                      : read_model_file(options.own, out);
  if (!read)
    return read.error();

  std::string config; // the file; tokens: where it stands
  if (!options.config.empty()) {
    auto found = find_config(options.config, out.path);
    if (!found)
      return found.error();
    config = *found;
  } else if (folder) {
    config = options.path + "/config.json";
    if (!fs::exists(config, ignored))
      return Error{options.path + ": is no Hugging Face folder: it has no config.json"};
  }
  if (!config.empty()) {
    bool of_folder = config == options.path + "/config.json" || config == options.config + "/config.json";
    std::string beside = fs::path(config).parent_path().string();
    auto settings = of_folder ? read_folder_settings(beside) : read_settings(config);
    if (!settings)
      return settings.error();
    auto tokens = read_token_ids(of_folder ? beside : config);
    if (!tokens)
      return tokens.error();
    out.config = std::move(*settings);
    out.config_name = fs::path(config).filename().string();
    out.files.push_back(config);
    if (std::string generation = beside + "/generation_config.json"; of_folder && fs::exists(generation, ignored))
      out.files.push_back(generation);
    out.tokens = std::move(*tokens);
  }
  std::vector<TokenId> asked;
  for (const std::string &text : options.tokens) {
    auto token = parse_token_id(text);
    if (!token)
      return token.error();
    asked.push_back(*token);
  }
  out.tokens = with_asked(std::move(out.tokens), asked);
  out.weights = options.weights.empty() && folder ? options.path : options.weights;
  return out;
}

Result<Model> load_model(const ModelOptions &options) {
  auto named = find_named(options);
  if (!named)
    return named.error();
  CheckOptions check_options;
  check_options.settings.by_key = named->config;
  std::vector<std::string> twice;
  for (const std::string &setting : options.settings) {
    auto pair = parse_setting(setting);
    if (!pair)
      return Error{usage_mark + pair.error().message};
    if (!check_options.settings.by_name.emplace(pair->first, pair->second).second)
      twice.push_back(pair->first);
  }
  Model out;
  out.tokens = named->tokens;
  out.config_name = named->config_name;
  out.files = named->files;
  if (!named->carried)
    out.files.insert(out.files.begin(), named->path);
  if (!named->weights.empty() && !options.blank) {
    auto files = WeightFiles::open(named->weights);
    if (!files)
      return files.error();
    out.files.insert(out.files.end(), files->files().begin(), files->files().end());
    out.weights = std::move(*files);
    check_options.has_weight = [&out](const std::string &name) { return out.weights->has(name); };
  }

  out.sources = std::make_unique<Sources>();
  out.diagnostics = std::make_unique<Diagnostics>(*out.sources);
  for (const std::string &name : twice)
    out.diagnostics->report(Code::E048, {}, {"`--set " + name + "=…` is given twice", "leave one of them out"});
  int source = out.sources->add(named->path, named->text);
  check_options.find_file = [&](const std::string &name) {
    std::string beside = (fs::path(named->path).parent_path() / (name + ".heddle")).string();
    if (std::error_code ignored; !named->carried && fs::exists(beside, ignored)) {
      out.files.push_back(beside);
      auto text = read_file(beside);
      return text ? out.sources->add(beside, *text) : CheckOptions::unreadable;
    }
    if (auto text = carried_file(beside))
      return out.sources->add(beside, *text);
    if (auto carried = find_model(name))
      return out.sources->add(carried->model_path, carried->model_text);
    return -1;
  };
  syntax::File file = syntax::parse(*out.sources, source, *out.diagnostics);
  out.program = check(*out.sources, file, check_options,
                      *out.diagnostics); // also what the parser could read of a file with errors
  if (out.diagnostics->has_errors() || !out.program)
    return Error{out.diagnostics->render(10, stderr_paint())};
  if (std::string warnings = out.diagnostics->render(10, stderr_paint()); !warnings.empty())
    std::fputs(warnings.c_str(), stderr);
  if (!options.io.empty())
    if (Status set = set_interface_types(*out.program, options.io); !set)
      return set.error();
  if (options.blank) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const Weight &weight : out.program->weights)
      shapes[weight.names[0]] = weight.stored;
    out.weights = WeightFiles::zeros(shapes);
  }
  out.library_name = library_name_of(named->path);
  return out;
}

std::string origin_of(const Program::Setting &setting, const std::string &config_name) {
  return setting.from == Program::Setting::config  ? config_name
         : setting.from == Program::Setting::asked ? "--set"
                                                   : "default";
}

Status require_weights(const Model &model) {
  if (model.program->weights.empty())
    return Done{};
  if (!model.weights)
    return Error{"the model reads weights, such as `" + model.program->weights[0].names[0] +
                 "`; say where they are with --weights FILE.safetensors"};
  return check_weights(*model.program, *model.sources, *model.weights);
}

} // namespace heddle
