// A folder that has a generation_config.json is generated from with that alone; config.json tells it for older ones.
#include "compiler/io/token_ids.h"

#include "compiler/io/input.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace heddle {

using Json = nlohmann::json;

static constexpr const char *names[] = {"decoder_start_token_id", "bos_token_id",        "eos_token_id", "pad_token_id",
                                        "forced_bos_token_id",    "forced_eos_token_id", "bad_words_ids"};

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

Result<std::vector<TokenId>> read_token_ids(const std::string &given) {
  std::string path = given;
  std::error_code ignored;
  if (std::filesystem::is_directory(given, ignored)) {
    path = given + "/generation_config.json";
    if (!std::filesystem::exists(path, ignored))
      path = given + "/config.json";
  }
  Result<std::string> text = read_file(path);
  if (!text)
    return text.error();
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Error{path + ": is not a JSON object"};
  std::vector<TokenId> out;
  for (const char *name : names)
    if (json.contains(name) && !collect(name, json[name], out))
      return Error{path + ": `" + name + "` is neither a token id nor a list of them"};
  return out;
}

Result<TokenId> parse_token_id(const std::string &text) {
  size_t equals = text.find('=');
  int64_t id = 0;
  const char *begin = text.data() + equals + 1, *end = text.data() + text.size();
  if (equals == std::string::npos || equals == 0 || begin == end)
    return Error{"--token " + text + ": write NAME=ID, such as eos_token_id=2"};
  if (auto [at, error] = std::from_chars(begin, end, id); error != std::errc() || at != end)
    return Error{"--token " + text + ": write NAME=ID, such as eos_token_id=2"};
  std::string name = text.substr(0, equals), known;
  for (const char *each : names) {
    if (name == each || (name.starts_with(each) && name.starts_with("bad_words_ids.")))
      return TokenId{name, id};
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  return Error{"--token " + text + ": no token id is called `" + name + "`; there are: " + known};
}

std::vector<TokenId> with_asked(std::vector<TokenId> ids, const std::vector<TokenId> &asked) {
  std::erase_if(ids, [&](const TokenId &id) {
    return std::any_of(asked.begin(), asked.end(), [&](const TokenId &other) { return other.name == id.name; });
  });
  ids.insert(ids.end(), asked.begin(), asked.end());
  return ids;
}

} // namespace heddle
