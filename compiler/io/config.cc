// JSON to configuration values. Nested objects become dotted keys, so that a config names one value by one string.
#include "compiler/io/config.h"

#include "compiler/io/input.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace heddle {
namespace {

using Json = nlohmann::json;

constexpr int deepest = 32; // of nested objects; a config.json has two or three

std::optional<Value> scalar_of(const Json &json) {
  if (json.is_boolean())
    return Value{json.get<bool>()};
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return Value{json.get<double>()};
  if (json.is_number_integer())
    return Value{json.get<int64_t>()};
  if (json.is_number())
    return Value{json.get<double>()};
  if (json.is_string())
    return Value{json.get<std::string>()};
  return std::nullopt;
}

/// An empty list stands for each item that is no scalar.
Value list_of(const Json &json) {
  std::vector<Value> list;
  for (const Json &item : json)
    list.push_back(scalar_of(item).value_or(Value{std::vector<Value>()}));
  return Value{std::move(list)};
}

void flatten(const Json &object, const std::string &prefix, int depth, std::map<std::string, Value> &out) {
  for (const auto &[key, json] : object.items()) {
    if (json.is_object() && !json.empty() && depth < deepest)
      flatten(json, prefix + key + ".", depth + 1, out);
    else if (json.is_object())
      out[prefix + key + "."] = Value{};
    else if (json.is_array())
      out[prefix + key] = list_of(json);
    else if (std::optional<Value> value = scalar_of(json))
      out[prefix + key] = std::move(*value);
  }
}

/// A value as written after `--set K=`.
std::optional<Value> written(const std::string &text) {
  if (text == "true" || text == "false")
    return Value{text == "true"};
  const char *begin = text.data(), *end = begin + text.size();
  int64_t whole = 0;
  if (auto [at, status] = std::from_chars(begin, end, whole); at == end && status == std::errc())
    return Value{whole};
  double real = 0;
  if (auto [at, status] = std::from_chars(begin, end, real);
      at == end && status == std::errc() && text.find_first_of("0123456789") != std::string::npos)
    return Value{real};
  if (text == "inf" || text == "-inf")
    return Value{text[0] == '-' ? -HUGE_VAL : HUGE_VAL};
  if (!text.empty() && (text[0] == '"' || text[0] == '[')) {
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_string())
      return scalar_of(json);
    bool scalars = json.is_array() && std::all_of(json.begin(), json.end(), scalar_of);
    return scalars ? std::optional(list_of(json)) : std::nullopt;
  }
  return Value{text};
}

} // namespace

Result<std::map<std::string, Value>> parse_config(const std::string &path, const std::string &text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error &error) { // the only way to learn the place
    int line = 1;
    for (size_t i = 0; i + 1 < error.byte && i < text.size(); ++i)
      line += text[i] == '\n';
    return Error{path + ":" + std::to_string(line) + ": is not valid JSON"};
  } catch (const Json::exception &) { // what is well formed, but does not fit a double
    return Error{path + ": has a number that is too large"};
  }
  if (!json.is_object())
    return Error{path + ": is not a JSON object"};
  std::map<std::string, Value> out;
  flatten(json, "", 0, out);
  return out;
}

Result<std::map<std::string, Value>> read_config(const std::string &path) {
  Result<std::string> text = read_file(path);
  if (!text)
    return text.error();
  return parse_config(path, *text);
}

Result<std::pair<std::string, Value>> parse_setting(const std::string &text) {
  size_t at = text.find('=');
  if (at == 0 || at == std::string::npos)
    return Error{"`--set " + text + "`: write `--set NAME=VALUE`"};
  std::optional<Value> value = written(text.substr(at + 1));
  if (!value || at + 1 == text.size())
    return Error{"`--set " + text + "`: the value is a number, true, false, a string, or a list such as [3, 4]"};
  return std::pair(text.substr(0, at), std::move(*value));
}

std::string to_text(const Value &value) {
  if (const bool *b = std::get_if<bool>(&value.what))
    return *b ? "true" : "false";
  if (const int64_t *i = std::get_if<int64_t>(&value.what))
    return std::to_string(*i);
  if (const double *d = std::get_if<double>(&value.what)) {
    if (std::isinf(*d))
      return *d < 0 ? "-inf" : "inf";
    char buffer[32];
    std::string out(buffer, std::to_chars(buffer, buffer + sizeof buffer, *d).ptr);
    return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
  }
  if (const std::string *s = std::get_if<std::string>(&value.what))
    return Json(*s).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out = "[";
  for (const Value &item : std::get<std::vector<Value>>(value.what))
    out += (out.size() > 1 ? ", " : "") + to_text(item);
  return out + "]";
}

} // namespace heddle
