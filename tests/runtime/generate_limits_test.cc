// What generation refuses, and what it does at the edges of what it takes: absurd shapes, masks of another length, no
// texts at all, a session that is busy.
#include "generate_fixture.h"

#include <cmath>
#include <functional>
#include <memory>
#include <thread>

namespace {

using fake::tensor;

TEST_F(GenerateTest, what_cannot_be_generated_is_said) {
  open(1);
  Text source = {1, 2};
  heddle_tensor input = tensor("input_ids", HEDDLE_I64, source.data(), {1, 2});
  auto expect = [&](heddle_status wanted, const char *message,
                    const std::function<void(heddle_generate_options &)> &change) {
    heddle_generate_options options = heddle_generate_defaults(3);
    change(options);
    generate(options, {input});
    EXPECT_EQ(status, wanted);
    EXPECT_STREQ(heddle_last_error(), message);
  };
  expect(HEDDLE_INVALID_ARGUMENT, "generation: steps must be at least 1", [](auto &o) { o.steps = 0; });
  expect(HEDDLE_INVALID_ARGUMENT, "generation: min_steps must be in 0 .. steps", [](auto &o) { o.min_steps = 4; });
  expect(HEDDLE_INVALID_ARGUMENT, "generation: beams must be at least 1", [](auto &o) { o.beams = 0; });
  expect(HEDDLE_INVALID_ARGUMENT, "generation: sampling goes with 1 beam",
         [](auto &o) { o.beams = 2, o.flags = HEDDLE_SAMPLE; });
  expect(HEDDLE_INVALID_ARGUMENT, "generation: temperature must be above 0",
         [](auto &o) { o.temperature = 0, o.flags = HEDDLE_SAMPLE; });
  expect(HEDDLE_INVALID_ARGUMENT, "generation: top_p must be in 0 .. 1",
         [](auto &o) { o.top_p = NAN, o.flags = HEDDLE_SAMPLE; });
  expect(HEDDLE_INVALID_ARGUMENT, "generation: length_penalty must be a number",
         [](auto &o) { o.length_penalty = INFINITY; });
  expect(HEDDLE_UNSUPPORTED, "flags 0x80 of the generation options are not known to this version",
         [](auto &o) { o.flags = 0x80; });
  const heddle_token start = {"decoder_start_token_id", 99};
  expect(HEDDLE_OUT_OF_RANGE, "entry 'decode_step', input 'token': element [0, 0] is 99, but must be in 0 .. 10",
         [&](auto &o) { o.tokens = &start, o.n_tokens = 1; });
  expect(HEDDLE_INVALID_ARGUMENT, "the options' list of tokens is NULL or its length (1) negative",
         [&](auto &o) { o.n_tokens = 1; });
  input = tensor("attention_mask", HEDDLE_I64, source.data(), {1, 2});
  expect(HEDDLE_BAD_TENSOR, "entry 'encode', input 'input_ids': is missing; give it as i32 [B, S]", [](auto &) {});
  input = tensor("pixels", HEDDLE_I64, source.data(), {1, 2});
  expect(HEDDLE_NOT_FOUND, "entry 'encode' has no input 'pixels'; it has: input_ids, attention_mask", [](auto &) {});
  open(3);
  input = tensor("ids", HEDDLE_I64, source.data(), {2, 0});
  expect(HEDDLE_BAD_TENSOR,
         "entry 'step', input 'ids': must be given as integers [texts, tokens], with a token at least", [](auto &) {});

  heddle_generate_options options = heddle_generate_defaults(3);
  input = tensor("ids", HEDDLE_I64, source.data(), {1, 2});
  int64_t data[5], length;
  heddle_tensor small = tensor("", HEDDLE_I64, data, {1, 4});
  EXPECT_EQ(heddle_generate(session, &options, &input, 1, &small, &length, nullptr), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "generation: sequences must be i64 [1, 5], with data");

  fake::Fixture f;
  EXPECT_EQ(heddle_generate(f.session, &options, &input, 1, &small, &length, nullptr), HEDDLE_NOT_FOUND);
  EXPECT_STREQ(heddle_last_error(),
               "model 'fake' cannot generate: it has neither the entries 'encode' and 'decode_step' nor 'step'");
}

TEST_F(GenerateTest, absurd_shapes_are_refused_before_they_are_multiplied) {
  open(3);
  Text text = {1, 2, 3};
  heddle_tensor inputs[] = {tensor("ids", HEDDLE_I64, text.data(), {1, 3}),
                            tensor("attention_mask", HEDDLE_I64, text.data(), {1, (int64_t(1) << 61) + 16})};
  inputs[1].strides[0] = inputs[1].strides[1] = 0; // one number, so many times
  heddle_generate_options options = heddle_generate_defaults(4);
  options.beams = 2;
  generate(options, {inputs[0], inputs[1]});
  EXPECT_EQ(status, HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'step', input 'attention_mask': has shape [1, 2305843009213693968], so S = "
                                    "2305843009213693968, but S = 3 in input 'ids'");
  inputs[1].shape[1] = inputs[0].shape[1] = 1 << 30;
  inputs[0].strides[0] = inputs[0].strides[1] = 0;
  int64_t length = 0, elsewhere = 0;
  heddle_tensor room = tensor("", HEDDLE_I64, &elsewhere, {1, (1 << 30) + options.steps}); // nothing is written
  EXPECT_EQ(heddle_generate(session, &options, inputs, 2, &room, &length, nullptr), HEDDLE_OUT_OF_MEMORY)
      << "repeated for two beams that is more than a tensor may have";
  inputs[0].shape[1] = inputs[1].shape[1] = int64_t(1) << 62;
  generate(options, {inputs[0], inputs[1]});
  EXPECT_EQ(status, HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'step', input 'ids': has shape [1, 4611686018427387904], so S = 4611686018427387904, "
               "but a tensor has at most 2147483647 elements; give smaller inputs");
  inputs[0].shape[0] = inputs[1].shape[0] = int64_t(1) << 40;
  inputs[0].shape[1] = inputs[1].shape[1] = 1;
  generate(options, {inputs[0], inputs[1]});
  EXPECT_EQ(status, HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'step', input 'ids': has shape [1099511627776, 1], so B = 1099511627776, but a tensor "
               "has at most 2147483647 elements; give smaller inputs");
}

// With the undefined behaviour sanitizer: strides of an empty tensor don't overflow.
TEST_F(GenerateTest, shapes_of_an_empty_batch_of_long_texts) {
  open(3);
  const int64_t length = INT32_MAX;
  heddle_tensor input = tensor("ids", HEDDLE_I64, nullptr, {0, length}), result;
  ASSERT_EQ(heddle_session_result_shapes(session, 0, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(result.shape[0], 0);
  EXPECT_EQ(result.shape[1], length);
}

TEST_F(GenerateTest, a_mask_shorter_than_the_texts_is_refused) {
  open(3);
  Text text = {1, 2, 3, 4, 5, 6, 7, 8};
  auto mask = std::make_unique<int64_t>(1);
  heddle_tensor inputs[] = {tensor("ids", HEDDLE_I64, text.data(), {1, 8}),
                            tensor("attention_mask", HEDDLE_I64, mask.get(), {1, 1})};
  std::vector<float> out(8);
  heddle_tensor result = tensor(nullptr, HEDDLE_F32, out.data(), {1, 8});
  heddle_generate_options options = heddle_generate_defaults(1);
  for (uint32_t flags : {0u, uint32_t(HEDDLE_KEEP_STATE)}) {
    options.flags = flags;
    EXPECT_EQ(heddle_score(session, &options, inputs, 2, nullptr, &result), HEDDLE_BAD_TENSOR);
    EXPECT_STREQ(heddle_last_error(),
                 "entry 'step', input 'attention_mask': has shape [1, 1], so S = 1, but S = 8 in input 'ids'");
  }
}

TEST_F(GenerateTest, labels_of_a_model_that_takes_none_are_not_looked_at) {
  open(3);
  Text text = {1, 2, 3, 4};
  heddle_tensor ids = tensor(nullptr, HEDDLE_I64, text.data(), {1, 4});
  auto labels = std::make_unique<heddle_tensor>(ids); // a sanitizer sees what is read behind it
  labels->rank = 1 << 30;
  std::vector<float> out(4);
  heddle_tensor result = tensor(nullptr, HEDDLE_F32, out.data(), {1, 4});
  EXPECT_EQ(heddle_score(session, nullptr, &ids, 1, labels.get(), &result), HEDDLE_OK) << heddle_last_error();
}

TEST_F(GenerateTest, a_mask_counts_by_its_place_as_by_its_name) {
  open(3);
  Text text = {1, 2, 3, 4}, mask = {1, 1, 0, 0};
  heddle_tensor ids = tensor(nullptr, HEDDLE_I64, text.data(), {1, 4});
  std::vector<float> out[2] = {std::vector<float>(4, -7), std::vector<float>(4, -7)};
  for (int i = 0; i < 2; i++) {
    heddle_tensor inputs[] = {ids, tensor(i ? "attention_mask" : nullptr, HEDDLE_I64, mask.data(), {1, 4})};
    heddle_tensor result = tensor(nullptr, HEDDLE_F32, out[i].data(), {1, 4});
    ASSERT_EQ(heddle_score(session, nullptr, inputs, 2, nullptr, &result), HEDDLE_OK) << heddle_last_error();
  }
  EXPECT_EQ(out[0], out[1]);
  EXPECT_NE(out[0][1], 0);
  EXPECT_EQ(out[0][2], 0);
}

TEST_F(GenerateTest, a_search_with_more_continuations_than_there_are) {
  open(4);
  std::vector<heddle_token> ends(131071, {"eos_token_id", 0}); // times the beams, that is more than 2^31
  Text text = {1};
  heddle_generate_options options = heddle_generate_defaults(2);
  options.beams = 32768;
  options.tokens = ends.data();
  options.n_tokens = int32_t(ends.size());
  Texts many = generate(options, {tensor(nullptr, HEDDLE_I64, text.data(), {1, 1})});
  ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
  options.beams = 200; // all there is: 11 and 121 texts
  options.n_tokens = 1;
  EXPECT_EQ(many, generate(options, {tensor(nullptr, HEDDLE_I64, text.data(), {1, 1})}));
  options.beams = INT32_MAX;
  generate(options, {tensor(nullptr, HEDDLE_I64, text.data(), {1, 1})});
  EXPECT_EQ(status, HEDDLE_OUT_OF_MEMORY);
}

TEST_F(GenerateTest, room_whose_elements_overlap_is_refused) {
  open(4);
  Text text = {1}, data(3);
  heddle_generate_options options = heddle_generate_defaults(2);
  heddle_tensor input = tensor(nullptr, HEDDLE_I64, text.data(), {1, 1});
  heddle_tensor sequences = tensor(nullptr, HEDDLE_I64, data.data(), {1, 3});
  int64_t length;
  for (int64_t stride : {0, 4, -7}) {
    sequences.strides[1] = stride;
    EXPECT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, nullptr), HEDDLE_BAD_TENSOR);
    EXPECT_STREQ(heddle_last_error(),
                 "generation: sequences has strides by which its elements overlap; give each room of its own");
  }
}

TEST_F(GenerateTest, room_over_other_tensors_of_the_call_is_refused) {
  open(4);
  Text data(4, 1);
  heddle_generate_options options = heddle_generate_defaults(2);
  heddle_tensor input = tensor(nullptr, HEDDLE_I64, data.data(), {1, 1});
  heddle_tensor sequences = tensor(nullptr, HEDDLE_I64, data.data(), {1, 3});
  heddle_tensor scores = tensor(nullptr, HEDDLE_F32, data.data() + 2, {1});
  int64_t length;
  EXPECT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, nullptr), HEDDLE_BAD_TENSOR);
  input.data = data.data() + 3;
  EXPECT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, &scores), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(),
               "generation: sequences overlaps another tensor of the call in memory; give each room of its own");
  scores.data = data.data() + 3;
  EXPECT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, &scores), HEDDLE_BAD_TENSOR);
  EXPECT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, nullptr), HEDDLE_OK)
      << heddle_last_error();
}

// Between two of its calls of the model, too.
TEST_F(GenerateTest, the_session_is_busy_until_the_end) {
  open(4);
  Text text = {1};
  heddle_tensor input = tensor(nullptr, HEDDLE_I64, text.data(), {1, 1});
  struct Heard {
    heddle_session *session;
    heddle_tensor *input;
    std::vector<heddle_status> answers;
  } heard = {session, &input, {}};
  heddle_generate_options options = heddle_generate_defaults(2);
  options.listener_context = &heard;
  options.listener = [](void *context, int32_t step, const int64_t *, int32_t) -> int32_t {
    Heard &h = *static_cast<Heard *>(context);
    if (step > 0)
      return 0;
    std::thread([&] {
      heddle_generate_options again = heddle_generate_defaults(2);
      heddle_tensor room = {};
      heddle_memory_info memory = HEDDLE_INIT(heddle_memory_info);
      heddle_session *copy = nullptr;
      int64_t length;
      size_t bytes;
      h.answers = {heddle_generate(h.session, &again, h.input, 1, &room, &length, nullptr),
                   heddle_score(h.session, nullptr, h.input, 1, nullptr, &room),
                   heddle_run(h.session, 0, h.input, 1, nullptr, 0),
                   heddle_session_reset(h.session),
                   heddle_session_capacity(h.session, 3, 7),
                   heddle_session_clone(h.session, &copy),
                   heddle_session_save(h.session, nullptr, 0, &bytes),
                   heddle_session_memory(h.session, &memory),
                   heddle_session_observe(h.session, nullptr, nullptr),
                   heddle_session_observe_tasks(h.session, nullptr, nullptr),
                   heddle_session_free(h.session)};
    }).join();
    return 0;
  };
  Texts first = generate(options, {input});
  ASSERT_EQ(status, HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heard.answers, std::vector<heddle_status>(11, HEDDLE_BUSY));
  options.listener = nullptr;
  EXPECT_EQ(first, generate(options, {input}));
}

TEST_F(GenerateTest, an_empty_batch_has_no_texts) {
  open(1);
  heddle_tensor input = tensor("input_ids", HEDDLE_I64, nullptr, {0, 2}),
                sequences = tensor("", HEDDLE_I64, nullptr, {0, 4});
  heddle_generate_options options = heddle_generate_defaults(3);
  int64_t length = -1;
  EXPECT_EQ(heddle_generate(session, &options, &input, 1, &sequences, &length, nullptr), HEDDLE_OK)
      << heddle_last_error();
  EXPECT_EQ(length, 1);
}

} // namespace
