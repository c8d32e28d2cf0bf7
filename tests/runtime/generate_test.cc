// Generation on the hand-written libraries of libraries/text.cc, against searches written once more here, plainly: over
// whole histories instead of states, with sorting instead of selection.
#include "generate_fixture.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <random>

extern "C" {
#include "runtime/logits.h"

void rt_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);
int64_t rt_sample(const rt_logit_functions *on_logits, float *logits, int64_t n, const heddle_generate_options *options,
                  int32_t step, int32_t row, void *room);
}

namespace {

using fake::tensor;
constexpr int64_t V = 11, end_token = 0, pad = 10;

uint32_t extend(uint32_t history, int64_t token) { return history * 31 + uint32_t(token) + 1; }
uint32_t hash_of(const Text &text) {
  uint32_t hash = 0;
  for (int64_t token : text)
    hash = extend(hash, token);
  return hash;
}
std::vector<float> logits_of(uint32_t history) {
  std::vector<float> out;
  for (int64_t v = 0; v < V; v++) {
    uint32_t x = history ^ (uint32_t(v) + 1) * 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    out.push_back(float(x >> 8) / float(1 << 24) * 8 - 4);
  }
  return out;
}
std::vector<float> log_softmax(std::vector<float> x) {
  double sum = 0;
  for (float value : x)
    sum += std::exp(double(value));
  for (float &value : x)
    value -= float(std::log(sum));
  return x;
}

// What follows a text: the logits after the prompt (or after source and start token) and `text`.
using Model = std::function<std::vector<float>(const Text &text)>;

Text greedy(const Model &model, const heddle_generate_options &o) {
  Text text;
  while (int32_t(text.size()) < o.steps) {
    std::vector<float> x = model(text);
    if (int32_t(text.size()) < o.min_steps)
      x[end_token] = -INFINITY;
    text.push_back(std::max_element(x.begin(), x.end()) - x.begin());
    if (text.back() == end_token)
      break;
  }
  return text;
}

// A beam search by its definition: `early_stopping=False`.
Text beam_search(const Model &model, const heddle_generate_options &o, float *score) {
  struct Hypothesis {
    Text text;
    float score;
  };
  auto better = [](const Hypothesis &a, const Hypothesis &b) { return a.score > b.score; };
  std::vector<Hypothesis> open = {{{}, 0}}, finished;
  size_t width = size_t(o.beams);
  for (int32_t step = 0; step < o.steps; step++) {
    std::vector<Hypothesis> all;
    for (const Hypothesis &from : open) {
      std::vector<float> x = log_softmax(model(from.text));
      if (step < o.min_steps)
        x[end_token] = -INFINITY;
      for (int64_t v = 0; v < V; v++) {
        all.push_back({from.text, from.score + x[size_t(v)]});
        all.back().text.push_back(v);
      }
    }
    std::sort(all.begin(), all.end(), better);
    all.resize(std::min(all.size(), 2 * width));
    open.clear();
    for (size_t i = 0; i < all.size(); i++) {
      bool ends = all[i].text.back() == end_token || step + 1 == o.steps;
      if (ends && i < width && all[i].score > -1e8f)
        finished.push_back({all[i].text, all[i].score / std::pow(float(step + 1), o.length_penalty)});
      else if (!ends && open.size() < width)
        open.push_back(all[i]);
    }
    std::sort(finished.begin(), finished.end(), better);
    if (finished.size() >= width) {
      finished.resize(width);
      if (open.empty() || open[0].score / std::pow(float(step + 1), o.length_penalty) <= finished.back().score)
        break;
    }
  }
  *score = finished[0].score;
  return finished[0].text;
}

// What a result must be: prompt, text, padding up to the longest.
Texts padded(const Texts &prompts, const Texts &texts) {
  size_t longest = 0;
  for (const Text &text : texts)
    longest = std::max(longest, text.size());
  Texts out;
  for (size_t i = 0; i < texts.size(); i++) {
    out.push_back(prompts[i]);
    out.back().insert(out.back().end(), texts[i].begin(), texts[i].end());
    out.back().resize(prompts[i].size() + longest, pad);
  }
  return out;
}

TEST_F(GenerateTest, every_form_of_model_agrees_with_plain_searches) {
  std::mt19937 random(1);
  auto pick = [&](int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); };
  for (int form = 1; form <= 4; form++) {
    open(form);
    for (int round = 0; round < 100; round++) {
      int64_t batch = pick(1, 3), length = pick(1, 4);
      Texts given(static_cast<size_t>(batch), Text(static_cast<size_t>(length)));
      for (Text &text : given)
        for (int64_t &token : text)
          token = pick(1, 9);
      heddle_generate_options options = heddle_generate_defaults(int32_t(pick(1, 12)));
      options.min_steps = int32_t(pick(0, std::min(options.steps, 4)));
      options.beams = int32_t(pick(1, 5));
      const float penalties[] = {0, 0.5, 1, 2, -1};
      options.length_penalty = penalties[pick(0, 4)];
      Text data = flat(given);
      Texts result = generate(options, {tensor(nullptr, HEDDLE_I64, data.data(), {batch, length})});
      ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
      Texts texts, prompts;
      for (size_t i = 0; i < given.size(); i++) {
        Model next = [&](const Text &text) {
          Text all = given[i];
          if (form <= 2)
            all = {pad}; // the start token
          all.insert(all.end(), text.begin(), text.end());
          return logits_of(hash_of(all) + (form <= 2 ? hash_of(given[i]) * 977 : 0));
        };
        float score = 0;
        if (options.beams == 1) {
          texts.push_back(greedy(next, options));
          for (size_t t = 0; t < texts[i].size(); t++)
            score += log_softmax(next({texts[i].begin(), texts[i].begin() + int64_t(t)}))[size_t(texts[i][t])];
        } else {
          texts.push_back(beam_search(next, options, &score));
        }
        EXPECT_NEAR(scores[i], score, 1e-4 * std::max(1.0f, std::fabs(score)));
        prompts.push_back(form <= 2 ? Text{pad} : given[i]);
      }
      ASSERT_EQ(result, padded(prompts, texts)) << "form " << form << ", round " << round;
    }
  }
}

TEST_F(GenerateTest, padded_prompts_and_sources_are_like_those_without_padding) {
  for (int form : {1, 2, 3, 4}) {
    open(form);
    Text two = {3, 4}, padded_two = {7, 8, 9, 7, 3, 4}, mask = {1, 1, 1, 0, 1, 1};
    heddle_generate_options options = heddle_generate_defaults(8);
    for (int32_t beams : {1, 3}) {
      options.beams = beams;
      Texts alone = generate(options, {tensor(nullptr, HEDDLE_I64, two.data(), {1, 2})});
      ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
      Texts both = generate(options, {tensor(nullptr, HEDDLE_I64, padded_two.data(), {2, 3}),
                                      tensor("attention_mask", HEDDLE_I64, mask.data(), {2, 3})});
      ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
      Text second(both[1].begin() + (form > 2 ? 1 : 0), both[1].end());
      second.resize(alone[0].size(), pad);
      EXPECT_EQ(second, alone[0]) << "form " << form << ", beams " << beams;
    }
  }
}

TEST_F(GenerateTest, tokens_are_forced_and_forbidden) {
  open(1);
  Text source = {1, 2, 3, 4};
  heddle_tensor input = tensor("input_ids", HEDDLE_I64, source.data(), {2, 2});
  const heddle_token tokens[] = {{"bad_words_ids", 3},       {"bad_words_ids", 4},       {"bad_words_ids", 0},
                                 {"forced_eos_token_id", 0}, {"forced_bos_token_id", 8}, {"eos_token_id", 0},
                                 {"eos_token_id", 5},        {"pad_token_id", 9},        {"decoder_start_token_id", 2}};
  for (int32_t beams : {1, 2, 4}) {
    heddle_generate_options options = heddle_generate_defaults(7);
    options.beams = beams;
    options.min_steps = 4;
    options.tokens = tokens;
    options.n_tokens = 9;
    for (const Text &text : generate(options, {input})) {
      EXPECT_EQ(text[0], 2);
      EXPECT_EQ(text[1], 8);
      size_t at = 1;
      while (at < text.size() && text[at] != 0 && text[at] != 5)
        at++;
      EXPECT_GE(at, 1u + 4) << "an end token, a bad word too, is chosen from step 4 on";
      EXPECT_LT(at, text.size()) << "at the last step the end is forced";
      EXPECT_EQ(std::count(text.begin(), text.end(), 3) + std::count(text.begin(), text.end(), 4), 0);
      for (at++; at < text.size(); at++)
        EXPECT_EQ(text[at], 9);
    }
    ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
  }
}

TEST_F(GenerateTest, sampling_depends_on_seed_row_and_logits_alone) {
  open(3);
  Text prompts = {1, 2, 3, 4, 1, 2};
  heddle_generate_options options = heddle_generate_defaults(20);
  options.flags = HEDDLE_SAMPLE;
  options.seed = 5;
  Texts three = generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {3, 2})});
  ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
  EXPECT_NE(three[0], three[2]) << "same prompt, other row";
  Texts one = generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {1, 2})});
  three[0].resize(one[0].size());
  EXPECT_EQ(one[0], three[0]);
  options.seed = 6;
  EXPECT_NE(generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {1, 2})}), one);
  options.temperature = 1e-3f; // the best token almost surely
  heddle_generate_options best = heddle_generate_defaults(20);
  Texts sampled = generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {3, 2})});
  EXPECT_EQ(sampled, generate(best, {tensor(nullptr, HEDDLE_I64, prompts.data(), {3, 2})}));
  options.temperature = 1;
  options.top_k = 1;
  EXPECT_EQ(generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {3, 2})}), sampled);
  options.top_k = 0;
  options.top_p = 0;
  EXPECT_EQ(generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {3, 2})}), sampled);
}

TEST_F(GenerateTest, a_host_that_traps_exceptions_goes_on) {
  open(1);
  Text prompt = {1, 2};
  heddle_generate_options options = heddle_generate_defaults(5);
  options.flags = HEDDLE_SAMPLE;
  options.temperature = 1e-38f; // its logits by that overflow
  std::fenv_t before;
  std::fegetenv(&before);
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  generate(options, {tensor(nullptr, HEDDLE_I64, prompt.data(), {1, 2})});
  int trapped = fegetexcept();
  std::fesetenv(&before);
  EXPECT_EQ(status, HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(trapped, FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
}

// The distribution of 200,000 samples, beside what top-k and top-p leave.
TEST_F(GenerateTest, samples_have_the_distribution_that_the_options_leave) {
  const std::vector<float> logits = {0.5, -1, 2, 0, 1.5, -3, 2, 1};
  struct Case {
    float temperature, top_p;
    int32_t top_k;
  };
  for (Case c : {Case{1, 1, 0}, {2, 1, 0}, {0.7f, 1, 3}, {1, 0.6f, 0}, {1, 0.9f, 5}, {3, 0.5f, 7}}) {
    std::vector<double> p;
    for (float x : logits)
      p.push_back(std::exp(x / c.temperature));
    std::vector<size_t> order(p.size());
    for (size_t i = 0; i < p.size(); i++)
      order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    if (c.top_k) // ties with the last one stay
      for (size_t i = 0; i < p.size(); i++)
        p[i] = p[i] < p[order[size_t(c.top_k) - 1]] ? 0 : p[i];
    double total = 0, kept = 0;
    for (double x : p)
      total += x;
    for (size_t i : order) { // the best until they have top_p
      double before = kept;
      kept += p[i];
      if (before >= c.top_p * total)
        p[i] = 0, kept = before;
    }
    heddle_generate_options options = heddle_generate_defaults(1);
    options.flags = HEDDLE_SAMPLE;
    options.temperature = c.temperature, options.top_p = c.top_p, options.top_k = c.top_k;
    options.seed = 42;
    constexpr int n = 200000;
    std::vector<int> counts(p.size());
    for (int i = 0; i < n; i++) {
      std::vector<float> changed = logits;
      std::vector<uint64_t> room(p.size());
      counts[size_t(
          rt_sample(rt_logit_functions_for(0), changed.data(), int64_t(p.size()), &options, i, 7, room.data()))]++;
    }
    for (size_t i = 0; i < p.size(); i++)
      EXPECT_NEAR(double(counts[i]) / n, p[i] / kept, p[i] == 0 ? 0 : 0.005) << "token " << i << ", top_p " << c.top_p;
  }
}

TEST_F(GenerateTest, random_numbers_are_those_of_the_paper) {
  // Known answers of Random123 1.14, kat_vectors, philox4x32 10.
  uint32_t out[4];
  const uint32_t zero[4] = {}, ones[4] = {~0u, ~0u, ~0u, ~0u}, pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  rt_philox(0, zero, out);
  EXPECT_EQ(std::vector<uint32_t>(out, out + 4),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  rt_philox(~0ull, ones, out);
  EXPECT_EQ(std::vector<uint32_t>(out, out + 4),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  rt_philox(0x299f31d0a4093822ull, pi, out);
  EXPECT_EQ(std::vector<uint32_t>(out, out + 4),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_F(GenerateTest, a_text_is_continued_where_the_session_is) {
  open(3);
  Text prompt = {1, 2, 3}, first = {1, 2}, rest = {3};
  heddle_generate_options options = heddle_generate_defaults(6);
  Texts whole = generate(options, {tensor(nullptr, HEDDLE_I64, prompt.data(), {1, 3})});
  ASSERT_EQ(heddle_session_reset(session), HEDDLE_OK);
  heddle_tensor input = tensor("ids", HEDDLE_I64, first.data(), {1, 2});
  ASSERT_EQ(heddle_run(session, 0, &input, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  std::vector<uint8_t> saved(1000);
  size_t bytes;
  ASSERT_EQ(heddle_session_save(session, saved.data(), saved.size(), &bytes), HEDDLE_OK);
  options.flags = HEDDLE_KEEP_STATE;
  heddle_tensor sequences = {};
  int64_t length, data[7];
  input = tensor("ids", HEDDLE_I64, rest.data(), {1, 1});
  ASSERT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, nullptr), HEDDLE_OK);
  sequences.data = data;
  ASSERT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, nullptr), HEDDLE_OK);
  EXPECT_EQ(Text(data + 1, data + length), Text(whole[0].begin() + 3, whole[0].end()));
}

TEST_F(GenerateTest, positions_are_made_for_what_the_call_needs) {
  open(1);
  Text source = {1, 2};
  heddle_tensor input = tensor("input_ids", HEDDLE_I64, source.data(), {1, 2});
  heddle_generate_options options = heddle_generate_defaults(9);
  options.min_steps = 9;
  generate(options, {input});
  ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
  heddle_state_value cache = HEDDLE_INIT(heddle_state_value);
  ASSERT_EQ(heddle_session_state(session, 3, &cache), HEDDLE_OK);
  EXPECT_EQ(cache.shape[0], 1 + 9);
  options.steps = options.min_steps = 40; // as many as there are positions: the start token, 39 others are looked at
  EXPECT_EQ(generate(options, {input})[0].size(), 41u);
  options.steps = options.min_steps = 41;
  generate(options, {input});
  EXPECT_EQ(status, HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "entry 'decode_step': there are no more positions");
  options.steps = options.min_steps = 3;
  generate(options, {input});
  EXPECT_EQ(status, HEDDLE_OK) << "a failed generation leaves nothing behind";
}

TEST_F(GenerateTest, someone_listens_and_stops_it) {
  open(4);
  Text prompts = {1, 2, 5, 6};
  heddle_generate_options options = heddle_generate_defaults(9);
  options.min_steps = 9;
  Texts heard;
  options.listener_context = &heard;
  options.listener = [](void *context, int32_t step, const int64_t *tokens, int32_t texts) -> int32_t {
    static_cast<Texts *>(context)->emplace_back(tokens, tokens + texts);
    return step == 4;
  };
  Texts result = generate(options, {tensor(nullptr, HEDDLE_I64, prompts.data(), {2, 2})});
  ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(result[0].size(), 2u + 5);
  ASSERT_EQ(heard.size(), 5u);
  for (size_t i = 0; i < 5; i++)
    EXPECT_EQ(heard[i], (Text{result[0][2 + i], result[1][2 + i]}));
}

TEST_F(GenerateTest, a_beam_search_may_be_stopped_after_any_step) {
  open(4);
  Text prompts = {1, 2, 5, 6};
  auto input = tensor(nullptr, HEDDLE_I64, prompts.data(), {2, 2});
  struct Heard {
    int32_t last;
    std::vector<int32_t> texts;
  };
  for (int32_t steps = 1; steps <= 6; steps++) {
    Heard heard = {steps - 1, {}};
    heddle_generate_options options = heddle_generate_defaults(9);
    options.beams = 3;
    options.min_steps = 9; // no text is finished
    options.length_penalty = 2;
    options.listener_context = &heard;
    options.listener = [](void *context, int32_t step, const int64_t *tokens, int32_t texts) -> int32_t {
      auto *h = static_cast<Heard *>(context);
      h->texts.push_back(texts);
      for (int32_t i = 0; i < texts; i++)
        EXPECT_TRUE(tokens[i] > 0 && tokens[i] <= pad) << tokens[i];
      return step == h->last;
    };
    Texts stopped = generate(options, {input});
    ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
    std::vector<float> stopped_scores = scores;
    EXPECT_EQ(heard.texts, std::vector<int32_t>(size_t(steps), 6));
    options.listener = nullptr;
    options.steps = options.min_steps = steps;
    EXPECT_EQ(stopped, generate(options, {input}));
    EXPECT_EQ(stopped_scores, scores);
  }
  // Finished texts win over open ones.
  heddle_generate_options options = heddle_generate_defaults(9);
  options.beams = 4;
  Texts best = generate(options, {input});
  options.listener = [](void *, int32_t step, const int64_t *, int32_t) -> int32_t { return step == 8; };
  EXPECT_EQ(best, generate(options, {input}));
}

TEST_F(GenerateTest, given_texts_have_their_log_probabilities) {
  for (int form = 1; form <= 4; form++) {
    open(form);
    Texts texts = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 0}}, sources = {{3, 1}, {4, 1}};
    Text data = flat(texts), source = flat(sources);
    heddle_tensor given = tensor(nullptr, HEDDLE_I64, data.data(), {2, 5}), result = {};
    heddle_tensor input = form <= 2 ? tensor(nullptr, HEDDLE_I64, source.data(), {2, 2}) : given;
    const heddle_tensor *labels = form <= 2 ? &given : nullptr;
    ASSERT_EQ(heddle_score(session, nullptr, &input, 1, labels, &result), HEDDLE_OK) << heddle_last_error();
    std::vector<float> out(10, -7);
    result.data = out.data();
    ASSERT_EQ(heddle_score(session, nullptr, &input, 1, labels, &result), HEDDLE_OK) << heddle_last_error();
    for (size_t i = 0; i < 2; i++)
      for (size_t t = 0; t < 5; t++) {
        Text before(texts[i].begin(), texts[i].begin() + int64_t(t));
        if (form <= 2)
          before.insert(before.begin(), pad);
        std::vector<float> x = log_softmax(logits_of(hash_of(before) + (form <= 2 ? hash_of(sources[i]) * 977 : 0)));
        EXPECT_NEAR(out[i * 5 + t], form > 2 && t == 0 ? 0 : x[size_t(texts[i][t])], 1e-5) << form;
      }
  }
}

} // namespace
