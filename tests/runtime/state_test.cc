// Session state, on the hand-written library of libraries/stateful.cc: what calls see of earlier ones, whose dims hold,
// what a failed call leaves, memory, and saving.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

extern "C" uint64_t rt_checksum(const uint8_t *data, uint64_t bytes);

namespace {

using fake::tensor;
using V = std::vector<float>;
enum Entry : int32_t { set, step, peek, swap, widen, tail, push };
enum State : int32_t { mem, seen, cache, wide, recent };
constexpr int32_t dim_P = 2;

struct StateTest : testing::Test {
  heddle_model *model = fake::load_library("stateful");
  heddle_session *session = nullptr;

  StateTest() { EXPECT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK) << heddle_last_error(); }
  ~StateTest() override {
    EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
    EXPECT_EQ(heddle_close(model), HEDDLE_OK) << heddle_last_error();
  }

  heddle_status run_set(const std::vector<float> &x, int64_t b, bool fails = false) {
    int32_t fail = fails;
    heddle_tensor inputs[] = {tensor("x", HEDDLE_F32, x.data(), {b, int64_t(x.size()) / b}),
                              tensor("fail", HEDDLE_I32, &fail, {})};
    return heddle_run(session, set, inputs, 2, nullptr, 0);
  }
  heddle_status run_step(const std::vector<float> &t, std::vector<float> *y = nullptr, bool fails = false) {
    int32_t fail = fails;
    heddle_tensor inputs[] = {tensor("t", HEDDLE_F32, t.data(), {int64_t(t.size())}),
                              tensor("fail", HEDDLE_I32, &fail, {})};
    heddle_tensor result;
    if (!y)
      return heddle_run(session, step, inputs, 2, nullptr, 0);
    heddle_status status = heddle_session_result_shapes(session, step, inputs, 2, &result, 1);
    if (status != HEDDLE_OK)
      return status;
    y->assign(size_t(result.shape[0] * result.shape[1]), -1);
    result.data = y->data();
    return heddle_run(session, step, inputs, 2, &result, 1);
  }
  heddle_status run_push(const std::vector<float> &x, int64_t b) {
    V first(static_cast<size_t>(b));
    heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {b, int64_t(x.size()) / b});
    heddle_tensor result = tensor("first", HEDDLE_F32, first.data(), {b});
    return heddle_run(session, push, &input, 1, &result, 1);
  }
  std::vector<float> run_peek(heddle_session *of, int64_t b, int64_t p) {
    std::vector<float> c(size_t(b * p), -1);
    heddle_tensor result = tensor("c", HEDDLE_F32, c.data(), {b, p});
    EXPECT_EQ(heddle_run(of, peek, nullptr, 0, &result, 1), HEDDLE_OK) << heddle_last_error();
    return c;
  }
  heddle_state_value state(int32_t number, heddle_session *of = nullptr) {
    heddle_state_value value = HEDDLE_INIT(heddle_state_value);
    EXPECT_EQ(heddle_session_state(of ? of : session, number, &value), HEDDLE_OK) << heddle_last_error();
    return value;
  }
  template <class T> std::vector<T> read(int32_t number, int32_t dtype, std::vector<int64_t> shape) {
    std::vector<T> out(size_t(state(number).bytes) / sizeof(T));
    heddle_tensor to = tensor("", dtype, out.data(), shape);
    EXPECT_EQ(heddle_session_read_state(session, number, &to), HEDDLE_OK) << heddle_last_error();
    return out;
  }
  std::vector<uint8_t> save() {
    size_t bytes = 0;
    EXPECT_EQ(heddle_session_save(session, nullptr, 0, &bytes), HEDDLE_OK);
    std::vector<uint8_t> buffer(bytes);
    EXPECT_EQ(heddle_session_save(session, buffer.data(), buffer.size(), &bytes), HEDDLE_OK) << heddle_last_error();
    return buffer;
  }
  heddle_memory_info memory(heddle_session *of = nullptr) {
    heddle_memory_info info = HEDDLE_INIT(heddle_memory_info);
    EXPECT_EQ(heddle_session_memory(of ? of : session, &info), HEDDLE_OK);
    return info;
  }
};

TEST_F(StateTest, a_call_sees_what_earlier_calls_wrote) {
  ASSERT_EQ(run_set({1, 2, 3, 4, 5, 6}, 2), HEDDLE_OK) << heddle_last_error();
  V y;
  ASSERT_EQ(run_step({10, 20}, &y), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, (V{11, 12, 13, 24, 25, 26}));
  ASSERT_EQ(run_step({30, 40}, &y), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(read<int32_t>(seen, HEDDLE_I32, {}), std::vector<int32_t>{2});
  V c = run_peek(session, 2, 16);
  EXPECT_EQ(V(c.begin(), c.begin() + 4), (V{10, 30, 0.5, 0.5}));
  EXPECT_EQ(V(c.begin() + 16, c.begin() + 20), (V{20, 40, 0.5, 0.5}));
}

TEST_F(StateTest, a_model_tells_its_states_and_a_session_what_they_hold) {
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  ASSERT_EQ(heddle_model_describe(model, &info), HEDDLE_OK);
  EXPECT_EQ(info.n_states, 5);
  heddle_state_info described = HEDDLE_INIT(heddle_state_info);
  ASSERT_EQ(heddle_state_describe(model, cache, &described), HEDDLE_OK);
  EXPECT_STREQ(described.name, "cache");
  EXPECT_EQ(described.dtype, HEDDLE_F32);
  EXPECT_EQ(described.rank, 2);
  EXPECT_EQ(described.extents[1].dim, dim_P);
  EXPECT_TRUE(described.has_initial);
  EXPECT_EQ(described.initial, 0.5);
  ASSERT_EQ(heddle_state_describe(model, mem, &described), HEDDLE_OK);
  EXPECT_FALSE(described.has_initial);
  EXPECT_EQ(heddle_state_describe(model, 5, &described), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "there is no state number 5; model 'stateful' has 5");

  EXPECT_FALSE(state(mem).is_set);
  ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
  EXPECT_TRUE(state(mem).is_set);
  EXPECT_EQ(state(mem).shape[0], 2);
  EXPECT_EQ(state(mem).shape[1], 3);
  EXPECT_EQ(state(mem).bytes, 24);
  EXPECT_EQ(state(mem).writer, set);
  EXPECT_FALSE(state(cache).is_set);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  EXPECT_EQ(state(cache).shape[1], 16);
  EXPECT_EQ(state(cache).writer, step);
  heddle_state_value value = HEDDLE_INIT(heddle_state_value);
  EXPECT_EQ(heddle_session_state(session, -1, &value), HEDDLE_INVALID_ARGUMENT);
}

TEST_F(StateTest, a_value_is_copied_out_with_strides_and_only_where_it_fits) {
  heddle_tensor to = tensor("", HEDDLE_F32, nullptr, {2, 3});
  EXPECT_EQ(heddle_session_read_state(session, mem, &to), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "state 'mem' has no value yet");
  ASSERT_EQ(run_set({1, 2, 3, 4, 5, 6}, 2), HEDDLE_OK);
  EXPECT_EQ(heddle_session_read_state(session, mem, &to), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "data of the tensor to copy a state to is NULL");
  V room(6, -1);
  to = tensor("", HEDDLE_F32, room.data(), {2, 3});
  to.strides[0] = 4, to.strides[1] = 8; // transposed
  ASSERT_EQ(heddle_session_read_state(session, mem, &to), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(room, (V{1, 4, 2, 5, 3, 6}));
  to.shape[1] = 2;
  EXPECT_EQ(heddle_session_read_state(session, mem, &to), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "state 'mem' is f32 [2, 3], but the tensor to copy it to is f32 [2, 2]");
}

TEST_F(StateTest, a_state_without_a_value_is_not_read) {
  EXPECT_EQ(run_step({1, 2}), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'step' reads state 'mem', which has no value yet; run entry 'set' first");
  ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
  EXPECT_EQ(run_step({1, 2}), HEDDLE_OK);
  ASSERT_EQ(heddle_session_reset(session), HEDDLE_OK);
  EXPECT_EQ(run_step({1, 2}), HEDDLE_BAD_TENSOR);
}

TEST_F(StateTest, dims_of_a_state_bind_and_must_be_kept) {
  ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
  EXPECT_EQ(run_step({1, 2, 3}), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'step', state 'mem': holds B = 2 since entry 'set', but B = 3 in input 't'; "
                                    "reset the session, or keep to what it holds");
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  ASSERT_EQ(run_set(V(12), 3), HEDDLE_OK) << "an update that doesn't read may change the dims";
  EXPECT_EQ(run_step({1, 2, 3}), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'step', state 'cache': holds B = 2 since entry 'step', but B = 3 in input "
                                    "'t'; reset the session, or keep to what it holds");
  EXPECT_EQ(heddle_run(session, tail, nullptr, 0, nullptr, 0), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'tail', state 'cache': holds B = 2 since entry 'step', but B = 3 in state "
                                    "'mem'; reset the session, or keep to what it holds");
  ASSERT_EQ(heddle_session_reset(session), HEDDLE_OK);
  ASSERT_EQ(run_set(V(12), 3), HEDDLE_OK);
  EXPECT_EQ(run_step({1, 2, 3}), HEDDLE_OK) << heddle_last_error();
}

TEST_F(StateTest, dims_that_nothing_tells_are_the_capacity) {
  EXPECT_EQ(run_peek(session, 8, 16), V(8 * 16, 0.5)) << "the declared bounds";
  EXPECT_EQ(heddle_session_capacity(session, dim_P, 17), HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "the capacity P = 17 is not in 0 .. 16, as the model allows");
  EXPECT_EQ(heddle_session_capacity(session, 9, 1), HEDDLE_INVALID_ARGUMENT);
  ASSERT_EQ(heddle_session_capacity(session, dim_P, 2), HEDDLE_OK);
  EXPECT_EQ(run_peek(session, 8, 2), V(8 * 2, 0.5));
  ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(heddle_session_capacity(session, dim_P, -1), HEDDLE_OK);
  EXPECT_EQ(run_peek(session, 2, 2), (V{1, 0.5, 2, 0.5})) << "what is set stays as it is";
  ASSERT_EQ(run_step({3, 4}), HEDDLE_OK);
  EXPECT_EQ(run_step({5, 6}), HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "entry 'step': the cache is full");
}

TEST_F(StateTest, a_failed_call_changes_nothing) {
  ASSERT_EQ(run_set({1, 2, 3, 4}, 2), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  std::vector<uint8_t> before = save();
  EXPECT_EQ(run_set({5, 6, 7}, 1, true), HEDDLE_KERNEL_FAILED);
  EXPECT_EQ(run_step({-1, 2}), HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "entry 'step': every t must be at least 0");
  const int32_t from[] = {0, 2};
  heddle_tensor input = tensor("from", HEDDLE_I32, from, {2});
  EXPECT_EQ(heddle_run(session, swap, &input, 1, nullptr, 0), HEDDLE_OUT_OF_RANGE);
  EXPECT_EQ(save(), before);
  // In place only what nobody reads is overwritten: the next step writes it again.
  EXPECT_EQ(run_step({7, 8}, nullptr, true), HEDDLE_KERNEL_FAILED);
  EXPECT_EQ(read<int32_t>(seen, HEDDLE_I32, {}), std::vector<int32_t>{1});
  EXPECT_EQ(state(mem).shape[1], 2);
}

TEST_F(StateTest, a_failed_first_call_leaves_initial_values) {
  ASSERT_EQ(run_set({1, 2, 3, 4}, 2), HEDDLE_OK);
  EXPECT_EQ(run_step({7, 8}, nullptr, true), HEDDLE_KERNEL_FAILED);
  EXPECT_FALSE(state(cache).is_set);
  EXPECT_EQ(run_peek(session, 8, 16), V(8 * 16, 0.5));
}

TEST_F(StateTest, an_update_in_place_and_one_through_the_second_buffer_agree) {
  ASSERT_EQ(run_set(V(4), 2), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  for (int i = 0; i < 3; i++) {
    const int32_t from[] = {1, 0};
    heddle_tensor input = tensor("from", HEDDLE_I32, from, {2});
    ASSERT_EQ(heddle_run(session, swap, &input, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
    ASSERT_EQ(run_step({float(10 * i), float(10 * i + 1)}), HEDDLE_OK);
  }
  V c = run_peek(session, 2, 16);
  EXPECT_EQ(V(c.begin(), c.begin() + 5), (V{2, 0, 11, 20, 0.5}));
  EXPECT_EQ(V(c.begin() + 16, c.begin() + 21), (V{1, 1, 10, 21, 0.5}));
}

TEST_F(StateTest, a_state_that_slides_keeps_the_last_rows_of_each_part) {
  V rows[2] = {V(6, -1), V(6, -1)}; // [3, 2] each
  float next = 0;
  size_t made = 0;
  for (int64_t count : {1, 2, 1, 0, 3, 1, 1, 7, 2, 2, 1, 1, 1, 1}) {
    V x(size_t(2 * count)), first(2), y(12);
    for (int64_t i = 0; i < count; i++)
      for (int64_t column : {0, 1}) {
        x[size_t(column * count + i)] = ++next;
        rows[0].push_back(next), rows[1].push_back(next + 100);
      }
    V want(rows[1].end() - 6 - 2 * count, rows[1].end() - 4 - 2 * count);
    heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {2, count}),
                  result = tensor("first", HEDDLE_F32, first.data(), {2});
    ASSERT_EQ(heddle_run(session, push, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
    EXPECT_EQ(first, want) << made;
    V all(rows[0].end() - 6, rows[0].end());
    all.insert(all.end(), rows[1].end() - 6, rows[1].end());
    EXPECT_EQ(read<float>(recent, HEDDLE_F32, {2, 3, 2}), all) << made;
    heddle_tensor apart = tensor("", HEDDLE_F32, y.data(), {2, 3, 2});
    apart.strides[0] = 4, apart.strides[1] = 8, apart.strides[2] = 24; // the parts side by side
    ASSERT_EQ(heddle_session_read_state(session, recent, &apart), HEDDLE_OK) << heddle_last_error();
    EXPECT_EQ(y[1], all[6]);
    EXPECT_EQ(y[6], all[1]);
    EXPECT_EQ(y[11], all[11]);
    if (++made % 3 == 0) { // on with a copy, or with what was saved
      std::vector<uint8_t> saved = save();
      heddle_session *other = nullptr;
      ASSERT_EQ(made % 2 ? heddle_session_clone(session, &other) : heddle_session_create(model, nullptr, &other),
                HEDDLE_OK);
      std::swap(session, other);
      EXPECT_EQ(heddle_session_free(other), HEDDLE_OK);
      if (made % 2 == 0)
        ASSERT_EQ(heddle_session_restore(session, saved.data(), saved.size()), HEDDLE_OK) << heddle_last_error();
      EXPECT_EQ(save(), saved);
    }
  }
  EXPECT_EQ(state(recent).bytes, 48);
  EXPECT_EQ(heddle_session_reset(session), HEDDLE_OK);
  V x = {5, 6}, first(2);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {2, 1}),
                result = tensor("first", HEDDLE_F32, first.data(), {2});
  ASSERT_EQ(heddle_run(session, push, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(read<float>(recent, HEDDLE_F32, {2, 3, 2}), (V{-1, -1, -1, -1, 5, 6, -1, -1, -1, -1, 105, 106}));
}

TEST_F(StateTest, extents_may_be_computed_from_dims) {
  for (int32_t i = 0; i < 3; i++) {
    int32_t x[] = {1, 2}, old[4] = {};
    heddle_tensor input = tensor("x", HEDDLE_I32, x, {2}), result = tensor("old", HEDDLE_I32, old, {4});
    ASSERT_EQ(heddle_run(session, widen, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
    EXPECT_EQ(std::vector<int32_t>(old, old + 4), (std::vector<int32_t>{i, 2 * i, i, 2 * i}));
  }
  EXPECT_EQ(state(wide).shape[0], 4);
  int64_t beyond = int64_t(1) << 30;
  const int64_t shape[] = {beyond};
  int32_t x = 0;
  heddle_tensor input = heddle_dense("x", HEDDLE_I32, &x, 1, shape);
  input.strides[0] = 0;
  ASSERT_EQ(heddle_session_reset(session), HEDDLE_OK);
  heddle_tensor none[1];
  EXPECT_EQ(heddle_run(session, widen, &input, 1, none, 0), HEDDLE_OUT_OF_MEMORY);
}

TEST_F(StateTest, shapes_that_depend_on_states_are_asked_of_the_session) {
  heddle_tensor result;
  EXPECT_EQ(heddle_result_shapes(model, tail, nullptr, 0, &result, 1), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'tail', result 'y': has a shape that depends on a session's states; ask with "
               "heddle_session_result_shapes");
  ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
  ASSERT_EQ(heddle_session_result_shapes(session, tail, nullptr, 0, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(result.shape[0], 2);
  EXPECT_EQ(result.shape[1], 3 + 16);
}

TEST_F(StateTest, dense_runs_take_the_dims_of_states_from_the_session) {
  const int64_t dims[] = {2, 3, -99, -99}, other[] = {3, -99, -99, -99}, same[] = {2, -99, -99, -99};
  const V x = {1, 2, 3, 4, 5, 6}, t = {10, 20, 30};
  float total = 0, y[6];
  const void *set_inputs[] = {x.data(), nullptr}, *step_inputs[] = {t.data(), nullptr};
  void *set_results[] = {&total}, *step_results[] = {y, nullptr};
  ASSERT_EQ(heddle_run_dense(session, set, dims, set_inputs, set_results), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(total, 21);
  ASSERT_EQ(heddle_run_dense(session, step, same, step_inputs, step_results), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(V(y, y + 6), (V{11, 12, 13, 24, 25, 26}));
  EXPECT_EQ(heddle_run_dense(session, step, other, step_inputs, step_results), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(), "entry 'step', state 'mem': holds B = 2 since entry 'set', but B = 3 in this call; "
                                    "reset the session, or keep to what it holds");
  int64_t bytes = -1;
  const int64_t all[] = {2, 3, 16, 0};
  EXPECT_EQ(heddle_memory_needed(model, step, all, &bytes), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(bytes, 0);
}

TEST_F(StateTest, memory_is_made_at_the_first_use_and_then_no_more) {
  EXPECT_EQ(memory().state_bytes, 0);
  ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
  int64_t after_set = memory().state_bytes;
  EXPECT_EQ(after_set, 24 + 4); // mem and seen, one buffer each
  const int32_t from[] = {1, 0};
  heddle_tensor input = tensor("from", HEDDLE_I32, from, {2});
  auto round = [&] {
    ASSERT_EQ(heddle_session_reset(session), HEDDLE_OK);
    ASSERT_EQ(run_set(V(6), 2), HEDDLE_OK);
    for (int i = 0; i < 3; i++) {
      ASSERT_EQ(run_step({1, 2}), HEDDLE_OK) << heddle_last_error();
      ASSERT_EQ(heddle_run(session, swap, &input, 1, nullptr, 0), HEDDLE_OK);
    }
    ASSERT_EQ(run_set(V(2), 1), HEDDLE_OK);
  };
  round();
  round();
  EXPECT_EQ(memory().state_bytes, 2 * (24 + 4 + 2 * 16 * 4));
  int64_t before = memory().allocations;
  for (int i = 0; i < 5; i++)
    round();
  EXPECT_EQ(memory().allocations, before);
}

TEST_F(StateTest, states_count_against_the_memory_limit) {
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.memory_limit = 100;
  heddle_session *tight = nullptr;
  ASSERT_EQ(heddle_session_create(model, &options, &tight), HEDDLE_OK);
  heddle_tensor result = tensor("c", HEDDLE_F32, nullptr, {8, 16});
  EXPECT_EQ(heddle_run(tight, peek, nullptr, 0, nullptr, 0), HEDDLE_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(heddle_last_error()).substr(0, 22), "entry 'peek' needs 102") << heddle_last_error();
  EXPECT_EQ(memory(tight).state_bytes, 0);
  ASSERT_EQ(heddle_session_capacity(tight, dim_P, 0), HEDDLE_OK);
  result.shape[1] = 0;
  EXPECT_EQ(heddle_run(tight, peek, nullptr, 0, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heddle_session_free(tight), HEDDLE_OK);
}

TEST_F(StateTest, a_clone_goes_its_own_way) {
  ASSERT_EQ(run_set({1, 2, 3, 4}, 2), HEDDLE_OK);
  ASSERT_EQ(heddle_session_capacity(session, dim_P, 3), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  heddle_session *copy = nullptr;
  ASSERT_EQ(heddle_session_clone(session, &copy), HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(run_step({3, 4}), HEDDLE_OK);
  EXPECT_EQ(run_peek(copy, 2, 3), (V{1, 0.5, 0.5, 2, 0.5, 0.5}));
  EXPECT_EQ(run_peek(session, 2, 3), (V{1, 3, 0.5, 2, 4, 0.5}));
  EXPECT_EQ(state(cache, copy).writer, step);
  std::swap(session, copy);
  V y;
  ASSERT_EQ(run_step({5, 6}, &y), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, (V{6, 7, 9, 10}));
  EXPECT_EQ(run_peek(session, 2, 3), (V{1, 5, 0.5, 2, 6, 0.5}));
  EXPECT_EQ(heddle_session_free(copy), HEDDLE_OK);
}

TEST_F(StateTest, a_saved_session_is_restored_into_another) {
  ASSERT_EQ(run_set({1, 2, 3, 4}, 2), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  std::vector<uint8_t> saved = save();
  heddle_session *other = nullptr;
  ASSERT_EQ(heddle_session_create(model, nullptr, &other), HEDDLE_OK);
  std::swap(session, other);
  ASSERT_EQ(run_set(V(12), 3), HEDDLE_OK);
  ASSERT_EQ(heddle_session_restore(session, saved.data(), saved.size()), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(save(), saved);
  EXPECT_EQ(state(mem).writer, -1);
  EXPECT_FALSE(state(wide).is_set);
  V y;
  ASSERT_EQ(run_step({10, 20}, &y), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y, (V{11, 12, 23, 24}));
  EXPECT_EQ(run_step({1, 2, 3}), HEDDLE_BAD_TENSOR);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'step', state 'mem': holds B = 2, but B = 3 in input 't'; reset the session, "
               "or keep to what it holds");
  EXPECT_EQ(heddle_session_free(other), HEDDLE_OK);
}

TEST_F(StateTest, a_damaged_or_foreign_saved_session_is_refused_and_changes_nothing) {
  ASSERT_EQ(run_set({1, 2, 3, 4}, 2), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  const std::vector<uint8_t> saved = save();
  ASSERT_EQ(run_step({3, 4}), HEDDLE_OK);
  const std::vector<uint8_t> before = save();
  for (size_t byte = 0; byte < saved.size(); byte++) {
    std::vector<uint8_t> damaged = saved;
    damaged[byte] ^= 0x10;
    EXPECT_EQ(heddle_session_restore(session, damaged.data(), damaged.size()), HEDDLE_INVALID_ARGUMENT) << byte;
  }
  for (size_t bytes = 0; bytes < saved.size(); bytes++)
    EXPECT_EQ(heddle_session_restore(session, saved.data(), bytes), HEDDLE_INVALID_ARGUMENT) << bytes;
  EXPECT_STREQ(heddle_last_error(), "the buffer does not hold a saved session, or it is damaged");
  std::vector<uint8_t> longer = saved;
  longer.resize(saved.size() + 8);
  EXPECT_EQ(heddle_session_restore(session, longer.data(), longer.size()), HEDDLE_INVALID_ARGUMENT);
  std::vector<uint8_t> later = saved;
  later[7] = '9';
  EXPECT_EQ(heddle_session_restore(session, later.data(), later.size()), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "the saved session is of another version of Heddle's format");
  EXPECT_EQ(save(), before);

  heddle_model *other_model = fake::load_library("other_stateful");
  heddle_session *other = nullptr;
  ASSERT_EQ(heddle_session_create(other_model, nullptr, &other), HEDDLE_OK);
  EXPECT_EQ(heddle_session_restore(other, saved.data(), saved.size()), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "the saved session belongs to another library than 'other_stateful'");
  EXPECT_EQ(heddle_session_free(other), HEDDLE_OK);
  EXPECT_EQ(heddle_close(other_model), HEDDLE_OK);
}

// A saved session that somebody wrote: its checksum is right, its numbers are not.
TEST_F(StateTest, a_saved_session_with_absurd_numbers_is_refused_or_harmless) {
  ASSERT_EQ(run_set({1, 2, 3, 4}, 2), HEDDLE_OK);
  ASSERT_EQ(run_step({1, 2}), HEDDLE_OK);
  ASSERT_EQ(run_push({1, 2, 3, 4}, 2), HEDDLE_OK);
  const std::vector<uint8_t> saved = save();
  constexpr size_t header = 40, checksum = 32; // bytes, and where it stands
  int refused = 0, taken = 0;
  for (size_t at = header; at + 8 <= saved.size(); at += 8)
    for (int64_t number : {int64_t(-1), int64_t(0), int64_t(1), int64_t(3), int64_t(999), int64_t(1000),
                           int64_t(INT32_MAX), int64_t(INT32_MAX) + 1, int64_t(1) << 61, INT64_MAX, INT64_MIN}) {
      std::vector<uint8_t> edited = saved;
      memcpy(edited.data() + at, &number, sizeof number);
      uint64_t sum = rt_checksum(edited.data() + header, edited.size() - header);
      memcpy(edited.data() + checksum, &sum, sizeof sum);
      heddle_status status = heddle_session_restore(session, edited.data(), edited.size());
      EXPECT_TRUE(status == HEDDLE_OK || status == HEDDLE_INVALID_ARGUMENT) << at << ": " << number;
      (status == HEDDLE_OK ? taken : refused)++;
      if (status == HEDDLE_OK) {
        int32_t count = state(seen).is_set ? read<int32_t>(seen, HEDDLE_I32, {})[0] : 0;
        EXPECT_TRUE(count >= 0 && count < 1000) << count;
      }
      run_step({1, 2});
      run_push({1, 2, 3, 4}, 2);
    }
  EXPECT_GT(refused, 100);
  EXPECT_GT(taken, 10);
  ASSERT_EQ(heddle_session_restore(session, saved.data(), saved.size()), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(save(), saved);
}

TEST_F(StateTest, saving_needs_room) {
  size_t bytes = 0;
  uint8_t small[3];
  ASSERT_EQ(run_set({1, 2, 3}, 1), HEDDLE_OK);
  EXPECT_EQ(heddle_session_save(session, small, sizeof small, &bytes), HEDDLE_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(heddle_last_error()),
            "the buffer has 3 bytes, the saved state needs " + std::to_string(save().size()));
}

TEST_F(StateTest, sessions_of_one_model_keep_their_states_apart_in_threads) {
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; k++)
    threads.emplace_back([this, k] {
      heddle_session *own = nullptr;
      ASSERT_EQ(heddle_session_create(model, nullptr, &own), HEDDLE_OK);
      const float x[] = {float(k), 1};
      heddle_tensor in = tensor("x", HEDDLE_F32, x, {1, 2});
      for (int i = 0; i < 200; i++) {
        ASSERT_EQ(heddle_session_reset(own), HEDDLE_OK);
        ASSERT_EQ(heddle_run(own, set, &in, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
        for (int s = 0; s < 5; s++) {
          float t = float(s), y[2];
          heddle_tensor input = tensor("t", HEDDLE_F32, &t, {1}), result = tensor("y", HEDDLE_F32, y, {1, 2});
          ASSERT_EQ(heddle_run(own, step, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
          ASSERT_EQ(y[0], float(k + s));
        }
      }
      EXPECT_EQ(heddle_session_free(own), HEDDLE_OK);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
