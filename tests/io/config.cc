// config.json, `--set`, and folders in the Hugging Face layout.
#include "compiler/io/config.h"

#include "compiler/io/model_folder.h"
#include "compiler/io/safetensors.h"
#include "tests/io/files.h"

namespace heddle {
namespace {

using Config = Files;
using Folder = Files;

std::string all(const std::map<std::string, Value> &settings) {
  std::string out;
  for (const auto &[key, value] : settings)
    out += key + "=" + to_text(value) + "\n";
  return out;
}

TEST_F(Config, scalars_lists_and_nested_objects_become_values) {
  Result<std::map<std::string, Value>> config = parse_config("config.json", R"({
    "hidden_size": 384, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "tie": true, "nothing": null,
    "depths": [3, 4, 6, 3], "mixed": [1, 2.5, "a", false], "empty": [], "objects": [{"a": 1}], "nested": [[1]],
    "backbone": {"stem": {"width": 64}, "depths": [2]}, "huge": 18446744073709551615, "none": {} })");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(all(*config), R"(backbone.depths=[2]
backbone.stem.width=64
depths=[3, 4, 6, 3]
empty=[]
hidden_act="gelu"
hidden_size=384
huge=18446744073709551616.0
layer_norm_eps=1e-12
mixed=[1, 2.5, "a", false]
nested=[[]]
none.=false
objects=[[]]
tie=true
)");
}

TEST_F(Config, text_that_is_no_json_is_refused_with_its_line) {
  EXPECT_EQ(message(parse_config("config.json", "{\n  \"a\": 1,\n  \"b\" 2\n}")), "config.json:3: is not valid JSON");
  EXPECT_EQ(message(parse_config("config.json", "")), "config.json:1: is not valid JSON");
  EXPECT_EQ(message(parse_config("config.json", "[1]")), "config.json: is not a JSON object");
  EXPECT_EQ(message(parse_config("config.json", "{\"a\": 1e999}")), "config.json: has a number that is too large");
}

TEST_F(Config, very_deep_objects_are_there_without_what_they_have) {
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "{\"a\":";
  deep += "1" + std::string(100000, '}');
  Result<std::map<std::string, Value>> config = parse_config("config.json", deep);
  ASSERT_TRUE(config) << message(config);
  ASSERT_EQ(config->size(), 1u);
  EXPECT_TRUE(config->begin()->first.starts_with("a.a.a.") && config->begin()->first.ends_with(".a."));
}

TEST_F(Config, a_setting_of_the_command_line_has_the_type_it_looks_like) {
  auto shown = [&](const std::string &text) {
    Result<std::pair<std::string, Value>> setting = parse_setting(text);
    return setting
               ? setting->first + ": " + std::to_string(setting->second.what.index()) + " " + to_text(setting->second)
               : message(setting);
  };
  EXPECT_EQ(shown("D=1024"), "D: 1 1024");
  EXPECT_EQ(shown("D=-3"), "D: 1 -3");
  EXPECT_EQ(shown("EPS=1e-5"), "EPS: 2 1e-05");
  EXPECT_EQ(shown("EPS=2.0"), "EPS: 2 2.0");
  EXPECT_EQ(shown("X=inf"), "X: 2 inf");
  EXPECT_EQ(shown("TIED=false"), "TIED: 0 false");
  EXPECT_EQ(shown("real=bf16"), "real: 3 \"bf16\"");
  EXPECT_EQ(shown("ACT=\"gelu\""), "ACT: 3 \"gelu\"");
  EXPECT_EQ(shown("KEY=a=b"), "KEY: 3 \"a=b\"");
  EXPECT_EQ(shown("W=[3, 4]"), "W: 4 [3, 4]");
  EXPECT_EQ(shown("W=[\"a\"]"), "W: 4 [\"a\"]");
}

TEST_F(Config, a_setting_without_name_or_value_is_refused) {
  EXPECT_EQ(message(parse_setting("D")), "`--set D`: write `--set NAME=VALUE`");
  EXPECT_EQ(message(parse_setting("=3")), "`--set =3`: write `--set NAME=VALUE`");
  for (const char *text : {"D=", "D=[1, 2", "D=[[1]]", "D=\"a"})
    EXPECT_EQ(message(parse_setting(text)),
              "`--set " + std::string(text) +
                  "`: the value is a number, true, false, a string, or a list such as [3, 4]");
}

TEST_F(Folder, its_model_type_chooses_the_model_file) {
  write("m/config.json", R"({"model_type": "bert", "hidden_size": 60, "id2label": {"0": "a", "1": "b", "2": "c"}})");
  EXPECT_TRUE(is_model_folder(path("m")));
  Result<ModelFolder> folder = open_model_folder(path("m"));
  ASSERT_TRUE(folder) << message(folder);
  EXPECT_EQ(folder->model_type, "bert");
  EXPECT_EQ(folder->model_path, "models/bert/bert.heddle");
  EXPECT_NE(folder->model_text.find("model Bert"), std::string::npos);
  EXPECT_EQ(to_text(folder->config.at("hidden_size")), "60");
  EXPECT_EQ(to_text(folder->config.at("num_labels")), "3"); // transformers counts its labels
}

TEST_F(Folder, a_given_number_of_labels_is_kept) {
  write("m/config.json", R"({"model_type": "vit", "num_labels": 7, "id2label": {"0": "a"}})");
  Result<ModelFolder> folder = open_model_folder(path("m"));
  ASSERT_TRUE(folder) << message(folder);
  EXPECT_EQ(to_text(folder->config.at("num_labels")), "7");
}

TEST_F(Folder, an_unknown_model_type_names_those_that_are_known) {
  write("m/config.json", R"({"model_type": "gpt9"})");
  std::string known = "known are";
  for (const std::string &type : model_types())
    known += (known.back() == 'e' ? " " : ", ") + type;
  known += "; or give a model file of your own with --model)";
  EXPECT_EQ(message(open_model_folder(path("m"))), "m/config.json: no model file for the model_type `gpt9` (" + known);
  write("m/config.json", "{}");
  EXPECT_EQ(message(open_model_folder(path("m"))),
            "m/config.json: has no `model_type`, which says what model it is (" + known);
}

TEST_F(Folder, without_config_it_is_no_model_folder) {
  write("m/model.safetensors", "");
  EXPECT_FALSE(is_model_folder(path("m")));
  EXPECT_FALSE(is_model_folder(path("none")));
  EXPECT_EQ(message(open_model_folder(path("m"))), "m/config.json: cannot read: No such file or directory");
}

TEST_F(Folder, its_weights_are_in_one_file_or_several) {
  HostTensor a = tensor_of<float>(DType::f32, {1}, {1}), b = tensor_of<float>(DType::f32, {1}, {2});
  write("one/x", "");
  write("two/x", "");
  ASSERT_TRUE(write_safetensors(path("one/model.safetensors"), {{"l.0.a", a.view()}, {"l.1.b", b.view()}}));
  ASSERT_TRUE(write_safetensors(path("two/model-1.safetensors"), {{"l.0.a", a.view()}}));
  ASSERT_TRUE(write_safetensors(path("two/model-2.safetensors"), {{"l.1.b", b.view()}}));
  write("two/model.safetensors.index.json",
        R"({"weight_map": {"l.0.a": "model-1.safetensors", "l.1.b": "model-2.safetensors"}})");
  for (const char *where : {"one", "two", "one/model.safetensors", "two/model.safetensors.index.json"}) {
    Result<WeightFiles> weights = WeightFiles::open(path(where));
    ASSERT_TRUE(weights) << message(weights);
    WeightFiles moved = std::move(*weights);
    EXPECT_EQ(moved.tensors().size(), 2u);
    EXPECT_EQ(read_element(*moved.find("l.1.b"), 0), 2);
    EXPECT_TRUE(moved.has("l.1.b"));
    EXPECT_TRUE(moved.has("l"));
    EXPECT_TRUE(moved.has("l.0"));
    EXPECT_FALSE(moved.has("l.2"));
    EXPECT_FALSE(moved.has("l.0.")); // not a step of a path
    EXPECT_FALSE(moved.has("l.0.aa"));
  }
}

TEST_F(Folder, weights_that_are_not_there_say_what_to_do) {
  write("m/config.json", "{}");
  EXPECT_EQ(message(WeightFiles::open(path("m"))),
            "m: has no weights: neither model.safetensors nor pytorch_model.bin");
  write("m/pytorch_model.bin", "");
  EXPECT_EQ(message(WeightFiles::open(path("m"))), "m/pytorch_model.bin: is no safetensors file: it has only 0 bytes");
}

TEST_F(Folder, a_damaged_index_is_refused) {
  for (const char *text : {"", "{}", R"({"weight_map": []})"})
    EXPECT_EQ(message(WeightFiles::open(write("m/model.safetensors.index.json", text))),
              "m/model.safetensors.index.json: is no index of weights files: it lacks `weight_map`");
  EXPECT_EQ(message(WeightFiles::open(write("m/model.safetensors.index.json", R"({"weight_map": {"a": "../b"}})"))),
            "m/model.safetensors.index.json: the file of tensor `a` is not a file's name");
  EXPECT_EQ(message(WeightFiles::open(write("m/model.safetensors.index.json", R"({"weight_map": {"a": "b"}})"))),
            "m/b: cannot read: No such file or directory");
}

} // namespace
} // namespace heddle
