// Random mutations of valid models: whatever the text, the checker ends, and a program that it refuses gets a message
// that is not its own excuse (E079). Seeds are fixed, so a failure repeats.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

#include <random>

namespace heddle::tests {
namespace {

/// Words, numbers, strings and single signs, each with the blanks before it.
std::vector<std::string> tokens_of(const std::string &text) {
  std::vector<std::string> tokens;
  auto word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])))
      ++end;
    if (end < text.size() && text[end] == '#') { // a comment would swallow what is moved behind it
      at = std::min(text.find('\n', end), text.size());
      continue;
    }
    size_t begin = end;
    while (end < text.size() && word(text[end]))
      ++end;
    if (end == begin && end < text.size())
      end = text[end] == '"' ? std::min(text.find('"', end + 1), text.size() - 1) + 1 : end + 1;
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

TEST(Mutations, NoMutationLeavesTheCheckerWithoutAnAnswer) {
  std::vector<std::vector<std::string>> seeds;
  for (const char *model : {"bert/bert", "vit/vit"})
    seeds.push_back(tokens_of(read_file(std::string(HEDDLE_SOURCE_DIR "/models/") + model + ".heddle")));
  seeds.push_back(tokens_of(R"(
    config V = 9, D = 4, M = 3
    dim B <= 4, T <= 6
    fn both(x: real[..S, _]) -> (real[..S], real[..S]) {
      a[..s] = sum[n where n < 2](x[..s, n])
      b[..s] = max[n](x[..s, n])
      return a, b
    }
    model R {
      param w: real[V, D]
      state past: real[B, M, D] = 0
      entry run(ids: index(V)[B, T], n: i32[B]) -> y: real[B, T], last: real[B] {
        require 1 <= T else "something to read"
        c[b, j in M + T, d] = if j < M then past[b, j, d] else w[ids[b, j - M], d]
        h[b in B] = 0
        for t in T with h {
          let p, q = both(c) h[b] = tanh(h[b] + p[b, M + t] + q[b, t] * n[b]) ys[b, t] = h[b]
        }
        past[b, m, d] <- c[b, m + T, d]
        return ys, h
      }
    })"));
  const std::vector<std::string> pool = {
      " 0", " 1", " -",   "+",    "*",    "//",      " %",       " if",  " else",   "(",     ")",      "[",       "]",
      "|",  ":",  " ..s", " in",  " sum", " where",  " and",     " B",   " T",      " x",    " i",     " 100000", "<",
      "==", " _", ",",    " for", " let", " return", " require", " max", " argmax", " true", " \"a\"", " softmax"};
  std::mt19937 random(17);
  auto files = files_beside(HEDDLE_SOURCE_DIR "/models/bert");
  files.merge(files_beside(HEDDLE_SOURCE_DIR "/models/vit"));
  CheckOptions options;
  options.settings.by_key["num_hidden_layers"] = {int64_t(2)};
  for (const auto &tokens : seeds) {
    std::string text;
    for (const std::string &token : tokens)
      text += token;
    ASSERT_EQ(check_text(text, options, files).messages, "");
  }
  int refused = 0;
  for (int i = 0; i < 2500; ++i) {
    std::vector<std::string> tokens = seeds[random() % seeds.size()];
    for (int mutations = 1 + random() % 2; mutations > 0; --mutations) {
      size_t a = random() % tokens.size(), b = random() % tokens.size();
      switch (random() % 4) {
      case 0:
        tokens.erase(tokens.begin() + a);
        break;
      case 1:
        tokens[a] = tokens[b];
        break;
      case 2:
        tokens[a] = pool[random() % pool.size()];
        break;
      default:
        tokens.insert(tokens.begin() + a, pool[random() % pool.size()]);
        break;
      }
    }
    std::string text;
    for (const std::string &token : tokens)
      text += token;
    Checked checked = check_text(text, options, files);
    refused += !checked.program;
    ASSERT_TRUE(checked.program || !checked.messages.empty()) << text;
    ASSERT_EQ(checked.messages.find("E079"), std::string::npos) << text;
    if (checked.program)
      ASSERT_FALSE(to_text(*checked.program).empty());
  }
  EXPECT_GT(refused, 1000);
}

/// How many messages have a code from `first` to `last`.
int messages_with(const std::string &messages, int first, int last) {
  int count = 0;
  for (size_t at = messages.find("error[E"); at != std::string::npos; at = messages.find("error[E", at + 1)) {
    int code = std::stoi(messages.substr(at + 7, 3));
    count += first <= code && code <= last;
  }
  return count;
}

/// One word too few or too many in a valid model: where the text does not parse, there is nothing else to say. What is
/// said nevertheless follows from the mutation, but for the few that make two mistakes, such as `a[i]` without its `[`.
TEST(Mutations, WhatFollowsFromASyntaxErrorIsNotSpokenOf) {
  std::mt19937 random(5);
  int mutations = 0, followed = 0;
  std::string examples;
  for (const char *model : {"bert/bert", "decoder_lm/decoder_lm", "transformer/transformer", "vit/vit"}) {
    std::string path = HEDDLE_SOURCE_DIR "/models/" + std::string(model) + ".heddle";
    std::vector<std::string> tokens = tokens_of(read_file(path));
    auto files = files_beside(path.substr(0, path.rfind('/')));
    CheckOptions options;
    for (const char *key : {"num_hidden_layers", "n_layer", "encoder_layers", "decoder_layers"})
      options.settings.by_key[key] = {int64_t(2)};
    for (int i = 0; i < 150; ++i) {
      std::vector<std::string> changed = tokens;
      auto at = changed.begin() + random() % changed.size();
      if (i % 2)
        changed.erase(at);
      else
        changed.insert(at, *at);
      std::string text;
      for (const std::string &token : changed)
        text += token;
      std::string messages = check_text(text, options, files).messages;
      if (!messages_with(messages, 1, 19))
        continue;
      ++mutations;
      if (messages_with(messages, 20, 99)) {
        ++followed;
        examples += messages + "\n";
      }
    }
  }
  EXPECT_GT(mutations, 400);
  EXPECT_LE(followed * 100, 3 * mutations) << examples;
}

} // namespace
} // namespace heddle::tests
