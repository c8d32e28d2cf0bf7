// What all tests of generation start from: a session of a hand-written library of libraries/text.cc, and one call of
// `heddle_generate` with the room that it asks for.
#pragma once

#include "fake_model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using Text = std::vector<int64_t>;
using Texts = std::vector<Text>;

struct GenerateTest : testing::Test {
  heddle_model *model = nullptr;
  heddle_session *session = nullptr;

  void open(int form) {
    close();
    model = fake::load_library(("text_" + std::to_string(form)).c_str());
    ASSERT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK) << heddle_last_error();
  }
  void close() {
    if (model) {
      EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
      EXPECT_EQ(heddle_close(model), HEDDLE_OK) << heddle_last_error();
    }
  }
  ~GenerateTest() override { close(); }

  // Rows of texts of one length, as a tensor.
  static Text flat(const Texts &texts) {
    Text out;
    for (const Text &text : texts)
      out.insert(out.end(), text.begin(), text.end());
    return out;
  }
  heddle_status status = HEDDLE_OK;
  std::vector<float> scores;

  Texts generate(const heddle_generate_options &options, std::vector<heddle_tensor> inputs) {
    heddle_tensor sequences = {};
    int64_t length = 0;
    scores.clear();
    auto n = int32_t(inputs.size());
    status = heddle_generate(session, &options, inputs.data(), n, &sequences, &length, nullptr);
    if (status != HEDDLE_OK)
      return {};
    size_t rows = size_t(sequences.shape[0]), columns = size_t(sequences.shape[1]);
    Text data(rows * columns, -7);
    scores.assign(rows, -7);
    sequences.data = data.data();
    heddle_tensor score = fake::tensor("", HEDDLE_F32, scores.data(), {int64_t(rows)});
    status = heddle_generate(session, &options, inputs.data(), n, &sequences, &length, &score);
    Texts out;
    for (size_t i = 0; i < rows && status == HEDDLE_OK; i++)
      out.emplace_back(data.begin() + int64_t(i * columns), data.begin() + int64_t(i * columns) + length);
    return out;
  }
};
