// The file's form stands in tables, one per kind of object: which members, which of them must be there, and what each
// is. A member that no table knows is left alone: a later version may have written it.
#include "compiler/io/manifest.h"

#include "compiler/io/input.h"
#include "compiler/io/manifest_formula.h"

#include <nlohmann/json.hpp>

#include <span>

namespace heddle {
namespace {

using Json = nlohmann::json;

constexpr int64_t largest = int64_t(1) << 53; // whole numbers that JSON keeps

/// What a member must be, as a message says it.
struct Kind {
  const char *text;
  bool (*is)(const Json &);
};

bool is_whole(const Json &json) {
  return json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t(largest)) &&
         json.get<int64_t>() >= 0 && json.get<int64_t>() <= largest;
}

constexpr Kind text = {"a text", [](const Json &json) { return json.is_string(); }};
constexpr Kind whole = {"a whole number", [](const Json &json) { return is_whole(json); }};
constexpr Kind signed_whole = {"a whole number", [](const Json &json) { return json.is_number_integer(); }};
constexpr Kind number = {"a number", // JSON has no infinity: null
                         [](const Json &json) { return json.is_number() || json.is_null(); }};
constexpr Kind flag = {"true or false", [](const Json &json) { return json.is_boolean(); }};
constexpr Kind formula = {"a formula over dims", [](const Json &json) {
                            return json.is_string() && is_formula(json.get_ref<const std::string &>());
                          }};
constexpr Kind extent = {"a whole number or a formula over dims",
                         [](const Json &json) { return is_whole(json) || json.is_string(); }};
constexpr Kind object = {"an object", [](const Json &json) { return json.is_object(); }};
constexpr Kind list = {"a list", [](const Json &json) { return json.is_array(); }};

/// A member of an object: one value, or a list or an object whose items have a kind, and members where they are
/// objects.
struct Member {
  const char *name;
  const Kind &kind;
  bool needed = true;
  const Kind *items = nullptr;
  std::span<const Member> members = {};
};

constexpr Member dim_members[] = {{"name", text}, {"most", whole, false}};
constexpr Member value_members[] = {{"name", text},
                                    {"dtype", text},
                                    {"shape", list, true, &extent},
                                    {"below", text, false},
                                    {"default", number, false},
                                    {"initial", number, false}};
constexpr Member use_members[] = {{"name", text}, {"reads", flag}, {"updates", flag}, {"in_place", flag}};
constexpr Member multiplies_members[] = {{"micro_kernel", text}, {"when", list, false, &formula}};
constexpr Member work_members[] = {{"kernel", text},
                                   {"calls", whole},
                                   {"operations", formula, false},
                                   {"multiplies", list, false, &object, multiplies_members},
                                   {"weights_bytes", formula, false},
                                   {"values_bytes", formula, false}};
constexpr Member entry_members[] = {{"name", text},
                                    {"inputs", list, true, &object, value_members},
                                    {"results", list, true, &object, value_members},
                                    {"states", list, false, &object, use_members},
                                    {"requires", list, false, &text},
                                    {"work", list, true, &object, work_members}};
constexpr Member row_members[] = {{"symbol", text},
                                  {"variant", text},
                                  {"params", object, true, &signed_whole},
                                  {"micro_kernel", text, false},
                                  {"when", text, false}};
constexpr Member kernel_members[] = {
    {"name", text}, {"kind", text}, {"calls", whole}, {"schedule", list, true, &object, row_members}};
constexpr Member entry_work_members[] = {{"name", text}, {"work", list, true, &object, work_members}};
constexpr Member lower_target_members[] = {{"target", text},
                                           {"kernels", list, true, &object, kernel_members},
                                           {"entries", list, true, &object, entry_work_members}};
constexpr Member manifest_members[] = {{"name", text},
                                       {"compiler", text},
                                       {"build", text},
                                       {"target", text},
                                       {"precision", text},
                                       {"kept", object, false, &text},
                                       {"scales", object, false, &number},
                                       {"dims", list, true, &object, dim_members},
                                       {"entries", list, true, &object, entry_members},
                                       {"states", list, false, &object, value_members},
                                       {"tokens", object, false, &list},
                                       {"kernels", list, true, &object, kernel_members},
                                       {"lower_targets", list, false, &object, lower_target_members},
                                       {"weights_bytes", whole}};

/// The first thing that is wrong with an object's members, or "".
std::string wrong_members(const Json &json, const std::string &where, std::span<const Member> members);

std::string wrong_value(const Json &json, const std::string &where, const Kind &kind, std::span<const Member> members) {
  if (!kind.is(json))
    return "`" + where + "` is not " + kind.text;
  return json.is_object() ? wrong_members(json, where + ".", members) : "";
}

std::string wrong_members(const Json &json, const std::string &where, std::span<const Member> members) {
  for (const Member &member : members) {
    auto found = json.find(member.name);
    std::string at = where + member.name;
    if (found == json.end()) {
      if (member.needed)
        return "`" + at + "` is missing";
      continue;
    }
    if (!member.kind.is(*found))
      return "`" + at + "` is not " + member.kind.text;
    if (!member.items)
      continue;
    size_t place = 0;
    for (const auto &[key, item] : found->items()) {
      std::string own = found->is_array() ? "[" + std::to_string(place++) + "]" : "." + key;
      if (std::string wrong = wrong_value(item, at + own, *member.items, member.members); !wrong.empty())
        return wrong;
    }
  }
  return "";
}

std::vector<std::string> names_of(const Json &list) {
  std::vector<std::string> out;
  for (const Json &item : list)
    out.push_back(item["name"]);
  return out;
}

std::vector<Manifest::Work> work_of(const Json &list) {
  std::vector<Manifest::Work> out;
  for (const Json &work : list) {
    Manifest::Work one{work["kernel"], work["calls"]};
    for (auto [name, formula] : {std::pair("operations", &one.operations),
                                 {"weights_bytes", &one.weights_bytes},
                                 {"values_bytes", &one.values_bytes}})
      if (work.contains(name))
        *formula = work[name].get<std::string>();
    if (work.contains("multiplies"))
      for (const Json &by : work["multiplies"])
        one.multiplies.push_back({by["micro_kernel"], by.value("when", std::vector<std::string>())});
    out.push_back(std::move(one));
  }
  return out;
}

/// Of the whole manifest, whose first target it describes, or of one of its `lower_targets`.
Manifest::Target target_of(const Json &json) {
  Manifest::Target out{json["target"], {}, {}};
  for (const Json &kernel : json["kernels"])
    out.kernels.emplace(kernel["name"], kernel["kind"]);
  for (const Json &entry : json["entries"])
    out.work.emplace(entry["name"], work_of(entry["work"]));
  return out;
}

/// Of a manifest that the tables have passed.
Manifest manifest_of(const Json &json) {
  Manifest out;
  out.name = json["name"];
  out.build = json["build"];
  out.dims = names_of(json["dims"]);
  for (const Json &item : json["entries"])
    out.entries.push_back({item["name"], names_of(item["inputs"]), names_of(item["results"])});
  out.targets.push_back(target_of(json));
  if (json.contains("lower_targets"))
    for (const Json &lower : json["lower_targets"])
      out.targets.push_back(target_of(lower));
  return out;
}

} // namespace

const Manifest::Target *Manifest::find(const std::string &target) const {
  for (const Target &one : targets)
    if (one.name == target)
      return &one;
  return nullptr;
}

Result<Manifest> read_manifest(const std::string &path) {
  Result<std::string> file = read_file(path);
  if (!file)
    return file.error();
  auto damaged = [&](const std::string &what) {
    return Error{path + ": is no manifest, or damaged: " + what + "; compile the model again"};
  };
  Json json = Json::parse(*file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return damaged("it is not valid JSON");
  if (!json.is_object())
    return damaged("it is not a JSON object");
  if (std::string wrong = wrong_members(json, "", manifest_members); !wrong.empty())
    return damaged(wrong);
  Manifest out = manifest_of(json);
  out.path = path;
  out.text = std::move(*file);
  return out;
}

} // namespace heddle
