// Manifests, whole and damaged: what is wrong is named, and nothing that a file can hold does harm.
#include "compiler/io/manifest.h"

#include "compiler/io/manifest_formula.h"
#include "tests/io/files.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

namespace heddle {
namespace {

using Json = nlohmann::json;
using ManifestFile = Files;

const char *whole = R"({
  "name": "net", "compiler": "heddle 0.1.0", "build": "00123456789abcde", "target": "x86-64-v3", "precision": "f32",
  "dims": [{"name": "B"}, {"name": "S", "most": 77}],
  "entries": [{"name": "apply",
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["B", "S", 5]},
               {"name": "kind", "dtype": "i32", "shape": ["B", "B * S"], "below": "7", "default": null}],
    "results": [{"name": "y", "dtype": "f32", "shape": ["B", 3]}],
    "states": [{"name": "seen", "reads": true, "updates": true, "in_place": false}],
    "requires": ["x fits"],
    "work": [{"kernel": "k0", "calls": 2, "operations": "30 * B * S",
              "multiplies": [{"micro_kernel": "tile_bf16", "when": ["B * S - 8"]}, {"micro_kernel": "dot_bf16"}], "weights_bytes": "60", "values_bytes": "8 * B"},
             {"kernel": "k1", "calls": 1}]}],
  "states": [{"name": "seen", "dtype": "i32", "shape": [], "initial": 0.0}],
  "tokens": {"eos_token_id": [2, 3]},
  "kernels": [{"name": "k0", "kind": "contraction", "calls": 2,
               "schedule": [{"symbol": "k0_0", "variant": "panels", "params": {"rows": 4}, "micro_kernel": "tile_bf16", "when": "m < 8"}]},
              {"name": "k1", "kind": "rows", "calls": 1, "schedule": []}],
  "lower_targets": [{"target": "x86-64-v2", "cpu_features": [], "kernels": [
                       {"name": "k0", "kind": "general", "calls": 3, "schedule": []}],
                     "entries": [{"name": "apply", "work": [{"kernel": "k0", "calls": 3}]}]}],
  "weights_bytes": 60, "of_a_later_version": [null]
})";

TEST_F(ManifestFile, a_whole_one_is_read) {
  Result<Manifest> manifest = read_manifest(write("net.json", whole));
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->name, "net");
  EXPECT_EQ(manifest->build, "00123456789abcde");
  EXPECT_EQ(manifest->text, whole);
  EXPECT_EQ(manifest->dims, (std::vector<std::string>{"B", "S"}));
  ASSERT_EQ(manifest->entries.size(), 1u);
  const Manifest::Entry &entry = manifest->entries[0];
  EXPECT_EQ(entry.inputs, (std::vector<std::string>{"x", "kind"}));
  EXPECT_EQ(entry.results, std::vector<std::string>{"y"});
  ASSERT_EQ(manifest->targets.size(), 2u);
  const Manifest::Target *target = manifest->find("x86-64-v3"), *lower = manifest->find("x86-64-v2");
  ASSERT_TRUE(target && lower && !manifest->find("x86-64-v1"));
  EXPECT_EQ(target->kernels, (std::map<std::string, std::string>{{"k0", "contraction"}, {"k1", "rows"}}));
  const std::vector<Manifest::Work> &work = target->work.at("apply");
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].calls, 2);
  EXPECT_EQ(work[0].operations, "30 * B * S");
  EXPECT_EQ(work[1].operations, std::nullopt);
  ASSERT_EQ(work[0].multiplies.size(), 2u);
  EXPECT_EQ(work[0].multiplies[0].micro_kernel, "tile_bf16");
  EXPECT_EQ(work[0].multiplies[0].when, std::vector<std::string>{"B * S - 8"});
  EXPECT_EQ(work[0].multiplies[1].micro_kernel, "dot_bf16");
  EXPECT_TRUE(work[0].multiplies[1].when.empty() && work[1].multiplies.empty());
  EXPECT_EQ(lower->kernels.at("k0"), "general");
  EXPECT_EQ(lower->work.at("apply").at(0).calls, 3);
}

TEST_F(ManifestFile, the_first_thing_that_is_wrong_is_named) {
  auto said = [&](const std::string &text) {
    std::string all = message(read_manifest(write("net.json", text)));
    std::string begin = "net.json: is no manifest, or damaged: ", end = "; compile the model again";
    EXPECT_TRUE(all.starts_with(begin) && all.ends_with(end)) << all;
    return all.substr(begin.size(), all.size() - begin.size() - end.size());
  };
  auto with = [&](const char *place, const Json &value) {
    Json json = Json::parse(whole);
    json[Json::json_pointer(place)] = value;
    return said(json.dump());
  };
  auto without = [&](const char *object, const char *key) {
    Json json = Json::parse(whole);
    json[Json::json_pointer(object)].erase(key);
    return said(json.dump());
  };
  EXPECT_EQ(said(""), "it is not valid JSON");
  EXPECT_EQ(said(std::string(whole).substr(0, 300)), "it is not valid JSON");
  EXPECT_EQ(said("[1]"), "it is not a JSON object");
  EXPECT_EQ(said("{}"), "`name` is missing");
  EXPECT_EQ(said(std::string(1000000, '[')), "it is not valid JSON");
  EXPECT_EQ(without("/entries/0/work/1", "calls"), "`entries[0].work[1].calls` is missing");
  EXPECT_EQ(with("/kernels", 5), "`kernels` is not a list");
  EXPECT_EQ(with("/entries/0", 5), "`entries[0]` is not an object");
  EXPECT_EQ(with("/entries/0/work", Json::object()), "`entries[0].work` is not a list");
  EXPECT_EQ(with("/entries/0/work/0/calls", "2"), "`entries[0].work[0].calls` is not a whole number");
  EXPECT_EQ(with("/entries/0/work/0/calls", -1), "`entries[0].work[0].calls` is not a whole number");
  EXPECT_EQ(with("/entries/0/work/0/calls", 1e300), "`entries[0].work[0].calls` is not a whole number");
  EXPECT_EQ(with("/entries/0/work/0/calls", UINT64_MAX), "`entries[0].work[0].calls` is not a whole number");
  EXPECT_EQ(with("/entries/0/work/0/operations", "30 *"), "`entries[0].work[0].operations` is not a formula over dims");
  EXPECT_EQ(with("/entries/0/work/0/multiplies/0/when/0", "B >"),
            "`entries[0].work[0].multiplies[0].when[0]` is not a formula over dims");
  EXPECT_EQ(with("/entries/0/inputs/0/shape/2", nullptr),
            "`entries[0].inputs[0].shape[2]` is not a whole number or a formula over dims");
  EXPECT_EQ(with("/kernels/0/schedule/0/params/rows", "4"),
            "`kernels[0].schedule[0].params.rows` is not a whole number");
  EXPECT_EQ(with("/lower_targets/0/entries/0/work/0/calls", "3"),
            "`lower_targets[0].entries[0].work[0].calls` is not a whole number");
  EXPECT_EQ(with("/entries/0/states/0/reads", 1), "`entries[0].states[0].reads` is not true or false");
}

/// All places of a JSON value.
std::vector<Json::json_pointer> places(const Json &json) {
  std::vector<Json::json_pointer> out;
  const Json flat = json.flatten();
  for (const auto &[place, leaf] : flat.items())
    for (Json::json_pointer at(place); !at.empty(); at = at.parent_pointer())
      out.push_back(at);
  return out;
}

TEST_F(ManifestFile, random_damage_is_read_or_refused_with_a_message) {
  std::mt19937 random(7);
  const Json good = Json::parse(whole);
  const std::vector<Json::json_pointer> all = places(good);
  const Json strange[] = {nullptr, true,     0,   -1,           1e308, UINT64_MAX,        INT64_MIN,
                          "",      "B // 0", "(", "9e99 * 9e9", "\0x", Json::array({{}}), Json::object({{"name", 1}})};
  std::map<std::string, double> dims = {{"B", 3}, {"S", 0}};
  int refused = 0;
  constexpr int turns = 1000;
  for (int turn = 0; turn < turns; ++turn) {
    Json json = good;
    const Json::json_pointer &at = all[random() % all.size()];
    const Json &value = strange[random() % std::size(strange)];
    std::string text;
    switch (random() % 4) {
    case 0:
      if (json.at(at.parent_pointer()).is_object())
        json.at(at.parent_pointer()).erase(at.back());
      text = json.dump();
      break;
    case 1:
      json[at] = value;
      text = json.dump();
      break;
    case 2:
      json[at] = json[all[random() % all.size()]];
      text = json.dump();
      break;
    default:
      text = json.dump();
      text[random() % text.size()] = static_cast<char>(random());
      if (random() % 4 == 0)
        text.resize(random() % text.size());
    }
    Result<Manifest> manifest = read_manifest(write("net.json", text));
    if (!manifest) {
      ++refused;
      EXPECT_EQ(message(manifest).find('\n'), std::string::npos) << text;
      continue;
    }
    for (const Manifest::Target &target : manifest->targets)
      for (const auto &[entry, works] : target.work)
        for (const Manifest::Work &work : works)
          for (const auto &formula : {work.operations, work.weights_bytes, work.values_bytes})
            if (auto number = formula ? evaluate_formula(*formula, dims) : std::nullopt)
              EXPECT_TRUE(std::isfinite(*number)) << *formula;
  }
  EXPECT_GT(refused, turns / 4);
  EXPECT_LT(refused, turns);
}

TEST(ManifestFormula, is_evaluated) {
  std::map<std::string, double> dims = {{"B", 3}, {"S_2", 7}};
  for (auto [text, value] : std::initializer_list<std::pair<const char *, double>>{
           {"5", 5}, {"B * S_2 + 2 * B", 27}, {"(S_2 + 1) // B", 2}, {"S_2 % B - 4", -3}, {" ( B ) ", 3}})
    EXPECT_EQ(evaluate_formula(text, dims), value) << text;
}

TEST(ManifestFormula, is_refused_where_it_is_none_or_has_no_value) {
  std::map<std::string, double> dims = {{"B", 0}};
  for (const std::string &text :
       {std::string(""), std::string("B +"), std::string("B B"), std::string("(B"), std::string("5x"),
        std::string("B)"), std::string("*"), std::string(100000, '('), std::string(100000, '+')}) {
    EXPECT_FALSE(is_formula(text)) << text.substr(0, 10);
    EXPECT_EQ(evaluate_formula(text, dims), std::nullopt) << text.substr(0, 10);
  }
  for (const char *text : {"C", "5 // B", "5 % B", "99999999999999999999 * 1"})
    EXPECT_TRUE(is_formula(text)) << text;
  for (const char *text : {"C", "5 // B", "5 % B"})
    EXPECT_EQ(evaluate_formula(text, dims), std::nullopt) << text;
  EXPECT_FALSE(is_formula(std::string(400, '9'))); // more than any number
}

} // namespace
} // namespace heddle
