// {"format": 1, "model": "Bert", "activations": {"bert.embed.norm.y": {"shape": ["B", "S", "768"], "largest": 4.25}}}
#include "compiler/io/scales_file.h"

#include "compiler/io/input.h"
#include "compiler/io/output.h"

#include <nlohmann/json.hpp>

#include <cfloat>

namespace heddle {

using Json = nlohmann::ordered_json;

static constexpr int format = 1;

Result<Scales> read_scales(const std::string &path) {
  auto text = read_file(path);
  if (!text)
    return text.error();
  auto damaged = [&](const std::string &what) {
    return Error{path + ": is no file of `heddle calibrate`, or damaged: " + what};
  };
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return damaged("it is not a JSON object");
  auto version = json.find("format"), model = json.find("model"), activations = json.find("activations");
  if (version == json.end() || !version->is_number_integer())
    return damaged("`format` is missing");
  if (*version != format)
    return Error{path + ": has format " + version->dump() + ", and this Heddle reads " + std::to_string(format) +
                 "; calibrate again"};
  if (model == json.end() || !model->is_string())
    return damaged("`model` is no text");
  if (activations == json.end() || !activations->is_object())
    return damaged("`activations` is no object");
  Scales out{model->get<std::string>(), {}};
  for (const auto &[name, activation] : activations->items()) {
    std::string at = "activations." + name;
    auto shape = activation.is_object() ? activation.find("shape") : activation.end();
    auto largest = activation.is_object() ? activation.find("largest") : activation.end();
    if (shape == activation.end() || !shape->is_array())
      return damaged("`" + at + ".shape` is no list");
    if (largest == activation.end() || !largest->is_number() || !(largest->get<double>() > 0) ||
        largest->get<double>() > FLT_MAX)
      return damaged("`" + at + ".largest` is no number above 0");
    Scales::Activation one{{}, largest->get<double>()};
    for (const Json &extent : *shape) {
      if (!extent.is_string())
        return damaged("`" + at + ".shape` holds what is no text");
      one.shape.push_back(extent.get<std::string>());
    }
    out.activations.emplace(name, std::move(one));
  }
  return out;
}

Status write_scales(const std::string &path, const Scales &scales) {
  Json json = {{"format", format}, {"model", scales.model}, {"activations", Json::object()}};
  for (const auto &[name, activation] : scales.activations)
    json["activations"][name] = {{"shape", activation.shape}, {"largest", activation.largest}};
  return write_file(path, json.dump(1) + "\n");
}

} // namespace heddle
