// Gradients of whole models, by all of their weights and real inputs at once, at the sizes, weights and inputs of their
// golden files.
#include "compiler/io/model_folder.h"
#include "compiler/io/safetensors.h"
#include "tests/check/checked.h"
#include "tests/differentiate/slope.h"

#include <gtest/gtest.h>

namespace heddle::tests {
namespace {

namespace fs = std::filesystem;

/// The smallest call that has more than one of each.
std::string call_of(const fs::path &folder) {
  std::string best;
  uintmax_t least = UINTMAX_MAX;
  for (const auto &file : fs::directory_iterator(folder)) {
    std::string name = file.path().filename();
    if (name.ends_with(".in.safetensors") && !name.starts_with("1x1") && file.file_size() < least) {
      least = file.file_size();
      best = file.path();
    }
  }
  return best;
}

class Models : public testing::TestWithParam<std::string> {};

TEST_P(Models, HaveTheDerivativesThatDifferencesShow) {
  fs::path folder = fs::path(HEDDLE_SOURCE_DIR "/tests/models/goldens") / GetParam();
  auto model = open_model_folder(folder);
  ASSERT_TRUE(model) << model.error().message;
  auto weights = WeightFiles::open(folder);
  CheckOptions options;
  options.settings.by_key = *read_folder_settings(folder);
  if (weights)
    options.has_weight = [&](const std::string &name) { return weights->has(name); };
  std::string source = std::string(HEDDLE_SOURCE_DIR) + "/" + model->model_path;
  auto files = files_beside(fs::path(source).parent_path());
  files.merge(files_beside(HEDDLE_SOURCE_DIR "/models/seq2seq")); // which seq2seq_attention uses
  Checked checked = check_text(model->model_text, options, files);
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  checked.program->entries.resize(1);
  Slope slope(*checked.program, {}, 7);
  const Entry &entry = checked.program->entries[0];
  auto inputs = Safetensors::open(call_of(folder));
  ASSERT_TRUE(inputs) << inputs.error().message;
  for (const Input &input : entry.inputs)
    if (const TensorView *view = inputs->find(input.name))
      slope.given[input.name] = *input_array(*view, input.tensor->type, input.name);
  if (weights)
    for (const Weight &weight : checked.program->weights)
      for (const std::string &name : weight.names)
        if (const TensorView *view = weights->find(name))
          slope.given[weight.names[0]] = *weight_array(*view, weight.tensor->type, name);
  Slope::Outcome outcome = slope.run();
  EXPECT_EQ(outcome, Slope::compared) << slope.what;
  EXPECT_LE(slope.backward, 2.15 * slope.forward) << "multiply-adds; " << slope.forward << " forward";
}

INSTANTIATE_TEST_SUITE_P(Goldens, Models,
                         testing::Values("bert_loss", "bert_answer", "gpt2", "vit_classifier", "marian",
                                         "transformer_pre_norm", "transfo_xl_authors", "transfo_xl_characters",
                                         "transfo_xl_one_table", "vanilla_lm", "seq2seq_lstm", "seq2seq_gru",
                                         "seq2seq_dot", "seq2seq_concat", "torch_transformer", "attention_float",
                                         "restricted_attention", "detr_resnet18", "setr_pup", "setr_mla"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace heddle::tests
