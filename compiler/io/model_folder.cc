// `model_type` names the model file: restricted-attention is models/restricted_attention/restricted_attention.heddle,
// and the table below has the models that were published under another name. What a Hugging Face config.json leaves
// to be computed from its other fields is put into the settings here.
#include "compiler/io/model_folder.h"

#include "compiler/io/input.h"
#include "embedded/models.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Published {
  std::string_view model_type, model;
};
constexpr Published published[] = {
    {"deit", "vit"},
    {"gpt2", "decoder-lm"},
    {"marian", "transformer"},
    {"torch.nn.MultiheadAttention", "multihead-attention"},
    {"torch.nn.Transformer", "torch-transformer"},
    {"transfo-xl", "transformer-xl"},
};

/// "bert" of "models/bert/bert.heddle"; else "".
std::string type_of(std::string_view path) {
  fs::path p(path);
  std::string name = p.stem().string();
  if (p.extension() != ".heddle" || p.parent_path().filename() != name)
    return "";
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string list_text(const std::vector<std::string> &words) {
  std::string out;
  for (const std::string &word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "none" : out;
}

/// The string that a config.json has under a key.
std::optional<std::string> text_of(const std::map<std::string, Value> &config, const std::string &key) {
  auto found = config.find(key);
  const std::string *text = found == config.end() ? nullptr : std::get_if<std::string>(&found->second.what);
  return text ? std::optional(*text) : std::nullopt;
}

/// The shards that an index names, each once.
Result<std::vector<std::string>> shards(const std::string &path) {
  Result<std::string> text = read_file(path);
  if (!text)
    return text.error();
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return Error{path + ": is no index of weights files: it lacks `weight_map`"};
  std::vector<std::string> out;
  for (const auto &[tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string() || fs::path(shard.get<std::string>()).has_parent_path() ||
        one_line(shard.get<std::string>()) != shard.get<std::string>())
      return Error{path + ": the file of tensor `" + one_line(tensor) + "` is not a file's name"};
    if (std::find(out.begin(), out.end(), shard.get<std::string>()) == out.end())
      out.push_back(shard);
  }
  return out;
}

} // namespace

Result<WeightFiles> WeightFiles::open(const std::string &path) {
  std::string file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const char *name :
         {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"})
      if (file = path + "/" + name; fs::exists(file, ignored))
        break;
    if (!fs::exists(file, ignored))
      return Error{path + ": has no weights: neither model.safetensors nor pytorch_model.bin"};
  }
  WeightFiles out;
  out.path_ = path;
  std::vector<std::string> names = {file};
  if (file.ends_with(".index.json")) {
    Result<std::vector<std::string>> found = shards(file);
    if (!found)
      return found.error();
    names.clear();
    for (const std::string &shard : *found)
      names.push_back((fs::path(file).parent_path() / shard).string());
  }
  for (const std::string &name : names) {
    Result<WeightFile> opened = open_weight_file(name);
    if (!opened)
      return opened.error();
    for (const auto &[tensor, view] : opened->tensors)
      if (!out.tensors_.emplace(tensor, view).second)
        return Error{name + ": the tensor `" + tensor + "` is in another file of " + path + " too"};
    out.files_.push_back(std::move(*opened));
    out.names_.push_back(name);
  }
  if (file.ends_with(".index.json"))
    out.names_.push_back(file);
  return out;
}

WeightFiles WeightFiles::zeros(const std::map<std::string, std::vector<int64_t>> &shapes) {
  WeightFiles out;
  out.path_ = "zeros";
  size_t most = 0;
  for (const auto &[name, shape] : shapes) {
    TensorView &tensor = out.tensors_[name] = {DType::f32, shape, {}};
    most = std::max(most, tensor.count() * byte_width(tensor.dtype));
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(most); // of all of them
  for (auto &[name, tensor] : out.tensors_)
    tensor.bytes = std::span(*bytes).first(tensor.count() * byte_width(tensor.dtype));
  out.files_.push_back({{}, bytes});
  return out;
}

const TensorView *WeightFiles::find(const std::string &name) const {
  auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

bool WeightFiles::has(const std::string &name) const {
  auto at = tensors_.lower_bound(name);
  if (at != tensors_.end() && at->first == name)
    return true;
  at = tensors_.lower_bound(name + ".");
  return at != tensors_.end() && at->first.starts_with(name + ".");
}

bool is_model_folder(const std::string &path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) && fs::exists(path + "/config.json", ignored);
}

std::vector<std::string> model_types() {
  std::vector<std::string> out;
  for (const EmbeddedFile &file : embedded::models())
    if (std::string type = type_of(file.path); !type.empty())
      out.push_back(type);
  size_t models = out.size();
  for (const Published &name : published)
    if (std::find(out.begin(), out.begin() + models, name.model) != out.begin() + models)
      out.emplace_back(name.model_type);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<ModelFolder> find_model(const std::string &model_type) {
  std::string model = model_type;
  for (const Published &name : published)
    if (name.model_type == model_type)
      model = name.model;
  std::replace(model.begin(), model.end(), '_', '-'); // as `use` spells it
  for (const EmbeddedFile &file : embedded::models())
    if (!model.empty() && type_of(file.path) == model)
      return ModelFolder{"", model_type, std::string(file.path), std::string(file.bytes), {}};
  return std::nullopt;
}

std::optional<std::string> carried_file(const std::string &path) {
  for (const EmbeddedFile &file : embedded::models())
    if (file.path == path)
      return std::string(file.bytes);
  return std::nullopt;
}

Result<std::map<std::string, Value>> read_settings(const std::string &path) {
  Result<std::map<std::string, Value>> config = read_config(path);
  if (!config)
    return config.error();
  // transformers saves the labels, from which it counts them, but not their number.
  int64_t labels = std::count_if(config->begin(), config->end(),
                                 [](const auto &setting) { return setting.first.starts_with("id2label."); });
  if (labels > 0)
    config->emplace("num_labels", Value{labels});
  return config;
}

Result<std::map<std::string, Value>> read_folder_settings(const std::string &folder) {
  Result<std::map<std::string, Value>> config = read_settings(folder + "/config.json");
  // The authors of Transformer-XL and transformers differ in what they compute, and tell it by the names of the
  // weights.
  if (config && text_of(*config, "model_type") == "transfo-xl" && !config->contains("saved_by"))
    if (Result<WeightFiles> weights = WeightFiles::open(folder); weights && weights->has("transformer"))
      config->emplace("saved_by", Value{std::string("transformers")});
  return config;
}

Result<ModelFolder> open_model_folder(const std::string &path) {
  std::string file = path + "/config.json";
  Result<std::map<std::string, Value>> config = read_folder_settings(path);
  if (!config)
    return config.error();
  std::optional<std::string> name = text_of(*config, "model_type");
  std::string known = "known are " + list_text(model_types()) + "; or give a model file of your own with --model";
  if (!name)
    return Error{file + ": has no `model_type`, which says what model it is (" + known + ")"};
  std::optional<ModelFolder> out = find_model(*name);
  if (!out)
    return Error{file + ": no model file for the model_type `" + *name + "` (" + known + ")"};
  out->path = path;
  out->config = std::move(*config);
  return std::move(*out);
}

} // namespace heddle
