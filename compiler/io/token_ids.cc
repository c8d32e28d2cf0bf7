// A folder that has a generation_config.json is generated from with that alone; config.json tells it for older ones.
#include "compiler/io/token_ids.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace heddle {

using Json = nlohmann::json;

/// An id, or a list of ids, or (bad words) a list of lists of ids. A list of several ids is a phrase, and its ids have
/// a name of their own.
static bool collect(const std::string &name, const Json &json, std::vector<TokenId> &out) {
  if (json.is_null())
    return true;
  if (json.is_number_integer()) {
    out.push_back({name, json.get<int64_t>()});
    return true;
  }
  if (!json.is_array())
    return false;
  int phrases = 0;
  for (const Json &item : json) {
    bool phrase = item.is_array() && item.size() > 1;
    std::string own = phrase ? name + "." + std::to_string(phrases++) : name;
    for (const Json &id : item.is_array() ? item : Json::array({item})) {
      if (!id.is_number_integer())
        return false;
      out.push_back({own, id.get<int64_t>()});
    }
  }
  return true;
}

Result<std::vector<TokenId>> read_token_ids(const std::string &folder) {
  std::string path = folder + "/generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    path = folder + "/config.json";
  std::ifstream in(path, std::ios::binary);
  Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Error{path + ": is not a JSON object"};
  std::vector<TokenId> out;
  for (const char *name : {"decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id",
                           "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids"})
    if (json.contains(name) && !collect(name, json[name], out))
      return Error{path + ": `" + name + "` is neither a token id nor a list of them"};
  return out;
}

} // namespace heddle
