// The models of the repository: every head checks, at odd sizes too, with the weight names that Hugging Face's
// transformers saves; and checking is quick.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace heddle::tests {
namespace {

const std::string models = HEDDLE_SOURCE_DIR "/models/";

Checked check_model(const std::string &name, const std::string &head, std::map<std::string, Value> settings,
                    std::function<bool(const std::string &)> has_weight = {}) {
  CheckOptions options;
  options.settings.by_key = std::move(settings);
  options.settings.by_key["architectures"] = {std::vector<Value>{{head}}};
  options.has_weight = std::move(has_weight);
  return check_text(read_file(models + name + "/" + name + ".heddle"), options, files_beside(models + name),
                    name + ".heddle");
}

const std::map<std::string, Value> odd_bert = {{"hidden_size", {int64_t(60)}},
                                               {"num_attention_heads", {int64_t(5)}},
                                               {"vocab_size", {int64_t(211)}},
                                               {"intermediate_size", {int64_t(37)}},
                                               {"num_hidden_layers", {int64_t(3)}},
                                               {"num_labels", {int64_t(7)}},
                                               {"max_position_embeddings", {int64_t(41)}}};
const std::map<std::string, Value> odd_vit = {
    {"hidden_size", {int64_t(60)}},      {"num_attention_heads", {int64_t(5)}}, {"image_size", {int64_t(32)}},
    {"patch_size", {int64_t(6)}},        {"num_hidden_layers", {int64_t(2)}},   {"num_labels", {int64_t(7)}},
    {"intermediate_size", {int64_t(37)}}};

struct Head {
  std::string model, architecture, entry;
  std::vector<std::string> outputs; // name and shape
  size_t weights;
  bool prefix;
};

const std::vector<Head> heads = {
    {"bert", "BertModel", "encode", {"last_hidden_state [B, S, 60]", "pooler_output [B, 60]"}, 5 + 3 * 16 + 2, false},
    {"bert", "BertForMaskedLM", "fill_mask", {"logits [B, S, 211]"}, 5 + 3 * 16 + 5, true},
    {"bert",
     "BertForPreTraining",
     "pretrain",
     {"prediction_logits [B, S, 211]", "seq_relationship_logits [B, 2]"},
     5 + 3 * 16 + 2 + 5 + 2,
     true},
    {"bert", "BertForNextSentencePrediction", "next_sentence", {"logits [B, 2]"}, 5 + 3 * 16 + 2 + 2, true},
    {"bert", "BertForSequenceClassification", "classify", {"logits [B, 7]"}, 5 + 3 * 16 + 2 + 2, true},
    {"bert", "BertForTokenClassification", "tag", {"logits [B, S, 7]"}, 5 + 3 * 16 + 2, true},
    {"bert", "BertForQuestionAnswering", "answer", {"start_logits [B, S]", "end_logits [B, S]"}, 5 + 3 * 16 + 2, true},
    {"vit",
     "ViTModel",
     "encode",
     {"last_hidden_state [B, 26, 60]", "pooler_output [B, 60]"},
     4 + 2 * 16 + 2 + 2,
     false},
    {"vit", "ViTForImageClassification", "classify", {"logits [B, 7]"}, 4 + 2 * 16 + 2 + 2, true},
};

TEST(Models, EachHeadHasItsEntryResultsAndWeightsAtOddSizes) {
  for (const Head &head : heads) {
    Checked checked = check_model(
        head.model, head.architecture, head.model == "bert" ? odd_bert : odd_vit, [&](const std::string &name) {
          bool own = name.starts_with("cls.") || name.starts_with("classifier.") || name.starts_with("qa_outputs.");
          return own || head.prefix == name.starts_with(head.model + ".");
        });
    ASSERT_NE(checked.program, nullptr) << head.architecture << "\n" << checked.messages;
    EXPECT_EQ(checked.messages, "") << head.architecture;
    ASSERT_EQ(checked.program->entries.size(), 1u);
    const Entry &entry = checked.program->entries[0];
    EXPECT_EQ(entry.name, head.entry);
    std::vector<std::string> outputs;
    for (const Output &output : entry.outputs) {
      std::string shape;
      for (const Size &size : output.tensor->shape)
        shape += (shape.empty() ? "" : ", ") + size.text(checked.program->dim_names());
      outputs.push_back(output.name + " [" + shape + "]");
    }
    EXPECT_EQ(outputs, head.outputs) << head.architecture;
    EXPECT_EQ(checked.program->weights.size(), head.weights) << head.architecture;
    for (const Weight &weight : checked.program->weights)
      EXPECT_EQ(weight.names.size(), 1u) << weight.tensor->name;
  }
}

TEST(Models, BertFindsTheWeightsOfATensorFlowCheckpoint) {
  std::set<std::string> seen;
  Checked checked = check_model("bert", "BertForMaskedLM", odd_bert, [&](const std::string &name) {
    return name.starts_with("bert.") && !name.ends_with("LayerNorm.weight") && !name.ends_with("LayerNorm.bias");
  });
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  for (const Weight &weight : checked.program->weights)
    seen.insert(weight.names[0]);
  EXPECT_TRUE(seen.count("bert.encoder.layer.2.attention.output.LayerNorm.gamma"));
  EXPECT_TRUE(seen.count("bert.embeddings.LayerNorm.beta"));
}

TEST(Models, AnUntiedWordHeadHasItsOwnMatrix) {
  auto settings = odd_bert;
  settings["tie_word_embeddings"] = {false};
  Checked checked = check_model("bert", "BertForMaskedLM", settings);
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  EXPECT_NE(to_text(*checked.program).find("as \"cls.predictions.decoder.weight\" stored [211, 60]"),
            std::string::npos);
}

TEST(Models, VitWithoutBiasesOfQueriesReadsNone) {
  auto settings = odd_vit;
  settings["qkv_bias"] = {false};
  Checked checked = check_model("vit", "ViTForImageClassification", settings);
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  EXPECT_EQ(to_text(*checked.program).find("query.bias"), std::string::npos);
}

TEST(Models, EachActivationIsChosenBySetting) {
  for (auto [name, formula] : {std::pair("gelu", "erf("), std::pair("gelu_new", "tanh(0.797"),
                               std::pair("relu", "max("), std::pair("silu", "/ (1.0 + exp(")}) {
    auto settings = odd_bert;
    settings["hidden_act"] = {std::string(name)};
    Checked checked = check_model("bert", "BertForTokenClassification", settings);
    ASSERT_NE(checked.program, nullptr) << checked.messages;
    std::string text = to_text(*checked.program);
    size_t at = text.find("  bert.layer.0.down.x[");
    EXPECT_NE(text.substr(at, text.find('\n', at) - at).find(formula), std::string::npos) << name;
  }
}

TEST(Models, AnUnknownHeadSaysWhichThereAre) {
  Checked checked = check_model("vit", "ViTForMaskedImageModeling", odd_vit);
  EXPECT_EQ(checked.program, nullptr);
  EXPECT_NE(checked.messages.find("error[E045]: model `ViT` has no entry for these settings"), std::string::npos);
  EXPECT_NE(
      checked.messages.find(
          "one needs `HEAD == \"ViTForImageClassification\" or HEAD == \"DeiTForImageClassification\"` or `HEAD == "),
      std::string::npos);
}

/// Proofs are remembered, so that the time grows with the text of a model and hardly with its layers.
TEST(Models, BertBaseChecksInAFractionOfASecond) {
  auto begin = std::chrono::steady_clock::now();
  Checked checked = check_model("bert", "BertForPreTraining", {});
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  EXPECT_LT(seconds.count(), 1.0); // 0.03 s on an idle machine
}

} // namespace
} // namespace heddle::tests
