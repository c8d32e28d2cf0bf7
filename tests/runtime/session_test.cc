// Models and sessions: what they tell about themselves, arenas, what a run allocates, saving and cloning.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace fake;

// Every way to ask for memory, counted while a test says so. The sanitizers have their own.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTS_NOTHING
#endif
#endif
namespace {
std::atomic<bool> counting;
std::atomic<int> counted;
} // namespace
#ifndef COUNTS_NOTHING
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *malloc(size_t bytes) {
  counted += counting;
  return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
  counted += counting;
  return __libc_calloc(n, bytes);
}
void *realloc(void *old, size_t bytes) {
  counted += counting;
  return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  counted += counting;
  return __libc_memalign(alignment, bytes);
}
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
  counted += counting;
  return reinterpret_cast<void *>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
}
#endif

namespace {

void run_encode(heddle_session *session, int64_t b, int64_t s, int64_t bytes_off = 0) {
  static Aligned<int32_t> ids(5000, 0); // the same from any byte on
  static Aligned<float> y(20000);
  const int64_t shape[] = {b, s, 4}; // no vectors here: allocations are counted
  heddle_tensor input = heddle_dense("ids", HEDDLE_I32, reinterpret_cast<char *>(ids.data()) + bytes_off, 2, shape);
  heddle_tensor result = heddle_dense("y", HEDDLE_F32, reinterpret_cast<char *>(y.data()) + bytes_off, 3, shape);
  ASSERT_EQ(heddle_run(session, encode, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
}

void run_spread(heddle_session *session, int64_t n) {
  static std::vector<float> x(2000, 1.0f), y(2000);
  heddle_tensor input = heddle_dense("x", HEDDLE_F32, x.data(), 1, &n);
  heddle_tensor result = heddle_dense("y", HEDDLE_F32, y.data(), 1, &n);
  ASSERT_EQ(heddle_run(session, spread, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  for (int64_t i = 0; i < n; i++)
    ASSERT_EQ(y[static_cast<size_t>(i)], static_cast<float>(i + 1));
}

TEST(Session, a_model_tells_what_is_in_it) {
  Fixture f;
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  ASSERT_EQ(heddle_model_describe(f.model, &info), HEDDLE_OK);
  EXPECT_STREQ(info.name, "fake");
  EXPECT_STREQ(info.target, "x86-64-v3");
  EXPECT_STREQ(info.compiler, "0.1.0");
  EXPECT_EQ(info.weights_bytes, 16u);
  EXPECT_EQ(info.n_dims, 3);
  EXPECT_EQ(info.n_entries, 6);
  heddle_dim_info dim = HEDDLE_INIT(heddle_dim_info);
  ASSERT_EQ(heddle_dim_describe(f.model, S, &dim), HEDDLE_OK);
  EXPECT_STREQ(dim.name, "S");
  EXPECT_EQ(dim.most, 512);
  EXPECT_EQ(heddle_dim_describe(f.model, 3, &dim), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "there is no dim number 3; model 'fake' has 3");
  heddle_entry_info entry = HEDDLE_INIT(heddle_entry_info);
  ASSERT_EQ(heddle_entry_describe(f.model, encode, &entry), HEDDLE_OK);
  EXPECT_STREQ(entry.name, "encode");
  EXPECT_STREQ(entry.doc, "Rows of numbers.");
  EXPECT_EQ(entry.n_inputs, 2);
  EXPECT_EQ(entry.n_results, 2);
  ASSERT_EQ(heddle_entry_describe(f.model, spread, &entry), HEDDLE_OK);
  EXPECT_STREQ(entry.doc, "");
  heddle_value_info value = HEDDLE_INIT(heddle_value_info);
  ASSERT_EQ(heddle_input_describe(f.model, encode, 0, &value), HEDDLE_OK);
  EXPECT_STREQ(value.name, "ids");
  EXPECT_EQ(value.dtype, HEDDLE_I32);
  EXPECT_EQ(value.rank, 2);
  EXPECT_EQ(value.extents[1].dim, S);
  EXPECT_TRUE(value.has_below);
  EXPECT_EQ(value.below.dim, HEDDLE_FIXED);
  EXPECT_EQ(value.below.value, 100);
  ASSERT_EQ(heddle_input_describe(f.model, encode, 1, &value), HEDDLE_OK);
  EXPECT_TRUE(value.optional);
  EXPECT_EQ(value.initial, 1.0);
  ASSERT_EQ(heddle_result_describe(f.model, window, 0, &value), HEDDLE_OK);
  EXPECT_EQ(value.extents[0].dim, HEDDLE_COMPUTED);
  EXPECT_EQ(heddle_result_describe(f.model, window, 2, &value), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "entry 'window' has no result number 2; it has 2");
}

TEST(Session, infos_of_other_versions_are_filled_as_far_as_they_go) {
  Fixture f;
  struct {
    heddle_entry_info info;
    int64_t later;
  } larger;
  memset(&larger, 0x55, sizeof larger);
  larger.info.struct_size = sizeof larger;
  ASSERT_EQ(heddle_entry_describe(f.model, encode, &larger.info), HEDDLE_OK);
  EXPECT_STREQ(larger.info.name, "encode");
  EXPECT_EQ(larger.later, 0);
  heddle_entry_info smaller;
  memset(&smaller, 0x55, sizeof smaller);
  smaller.struct_size = offsetof(heddle_entry_info, doc);
  ASSERT_EQ(heddle_entry_describe(f.model, encode, &smaller), HEDDLE_OK);
  EXPECT_STREQ(smaller.name, "encode");
  EXPECT_EQ(smaller.n_inputs, 0x55555555);
}

TEST(Session, the_arena_grows_only_when_a_call_needs_more) {
  Fixture f;
  heddle_memory_info info = HEDDLE_INIT(heddle_memory_info);
  ASSERT_EQ(heddle_session_memory(f.session, &info), HEDDLE_OK);
  EXPECT_EQ(info.arena_bytes, 0);
  run_encode(f.session, 2, 10);
  int64_t first = allocations(f.session);
  for (int64_t s : {10, 5, 1, 0, 10})
    run_encode(f.session, 2, s);
  EXPECT_EQ(allocations(f.session), first);
  run_encode(f.session, 2, 11);
  EXPECT_EQ(allocations(f.session), first + 1);
  // 2 * 11 rows of 64 bytes; staged are the absent mask (88 bytes) and the unwanted total (8 bytes).
  ASSERT_EQ(heddle_session_memory(f.session, &info), HEDDLE_OK);
  EXPECT_EQ(info.arena_bytes, 2 * 11 * 64 + 128 + 64);
}

TEST(Session, memory_is_known_before_the_first_call) {
  Fixture f;
  const int64_t dims[] = {2, 11, 0}, beyond[] = {1, 513, 0};
  int64_t bytes = 0;
  ASSERT_EQ(heddle_memory_needed(f.model, encode, dims, &bytes), HEDDLE_OK);
  EXPECT_EQ(bytes, 2 * 11 * 64);
  EXPECT_EQ(heddle_memory_needed(f.model, encode, beyond, &bytes), HEDDLE_OUT_OF_RANGE);
  EXPECT_STREQ(heddle_last_error(), "entry 'encode': S = 513, but the model allows 0 .. 512");
}

TEST(Session, a_repeated_call_asks_nobody_for_memory) {
#ifdef COUNTS_NOTHING
  GTEST_SKIP() << "a sanitizer has the allocator";
#endif
  for (int32_t threads : {1, 2}) {
    Fixture f(threads);
    run_encode(f.session, 3, 100, 1); // staged, because its elements lie across words
    run_spread(f.session, 1000);
    int64_t before = allocations(f.session);
    counted = 0;
    counting = true;
    void *volatile block = malloc(8); // the hook is alive
    free(block);
    for (int i = 0; i < 50; i++) {
      run_encode(f.session, 3, 100, 1);
      run_encode(f.session, 2, 100);
      run_spread(f.session, 1000);
      run_spread(f.session, 10);
    }
    counting = false;
    EXPECT_EQ(counted, 1);
    EXPECT_EQ(allocations(f.session), before);
  }
}

TEST(Session, repeated_calls_on_states_ask_nobody_for_memory) {
#ifdef COUNTS_NOTHING
  GTEST_SKIP() << "a sanitizer has the allocator";
#endif
  heddle_model *model = load_library("stateful");
  heddle_session *session = nullptr;
  ASSERT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK);
  enum { set, step, peek, swap };
  const int64_t two[] = {2, 3};
  const int32_t from[] = {1, 0};
  float x[6] = {}, t[2] = {};
  heddle_tensor sets = heddle_dense("x", HEDDLE_F32, x, 2, two), steps = heddle_dense("t", HEDDLE_F32, t, 1, two);
  heddle_tensor swaps = heddle_dense("from", HEDDLE_I32, const_cast<int32_t *>(from), 1, two);
  for (int round = 0; round < 5; round++) {
    counted = 0;
    counting = round > 1;
    ASSERT_EQ(heddle_session_reset(session), HEDDLE_OK);
    ASSERT_EQ(heddle_run(session, set, &sets, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
    for (int i = 0; i < 10; i++) {
      ASSERT_EQ(heddle_run(session, step, &steps, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
      ASSERT_EQ(heddle_run(session, swap, &swaps, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
    }
    counting = false;
    EXPECT_EQ(counted, 0);
  }
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
}

TEST(Session, scratch_of_failed_kernels_is_taken_back) {
  Fixture f;
  run_custom = [](const heddle_call &call) {
    for (int i = 0; i < 10; i++)
      if (!halide_malloc(call.context, 1000))
        return -11;
    return -6;
  };
  float x[1] = {};
  heddle_tensor input = tensor("x", HEDDLE_F32, x, {1});
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(heddle_run(f.session, custom, &input, 1, nullptr, 0), HEDDLE_KERNEL_FAILED);
  heddle_memory_info info = HEDDLE_INIT(heddle_memory_info);
  ASSERT_EQ(heddle_session_memory(f.session, &info), HEDDLE_OK);
  EXPECT_EQ(info.scratch_bytes, 10 * (1024 + 64 + 64));
}

TEST(Session, scratch_blocks_are_aligned_apart_and_refused_when_absurd) {
  Fixture f;
  run_custom = [](const heddle_call &call) {
    std::vector<std::pair<uint8_t *, size_t>> blocks;
    for (size_t bytes : {1, 63, 64, 65, 1000, 0, 7}) {
      auto *block = static_cast<uint8_t *>(halide_malloc(call.context, bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
      memset(block, static_cast<int>(blocks.size()), bytes);
      blocks.push_back({block, bytes});
    }
    for (size_t i = 0; i < blocks.size(); i++)
      for (size_t k = 0; k < blocks[i].second; k++)
        EXPECT_EQ(blocks[i].first[k], i);
    for (int i : {3, 0, 6, 5, 1, 2, 4}) // any order
      halide_free(call.context, blocks[static_cast<size_t>(i)].first);
    halide_free(call.context, nullptr);
    EXPECT_EQ(halide_malloc(call.context, SIZE_MAX), nullptr);
    EXPECT_EQ(halide_malloc(call.context, SIZE_MAX / 2), nullptr);
    return 0;
  };
  float x[1] = {};
  heddle_tensor input = tensor("x", HEDDLE_F32, x, {1});
  for (int i = 0; i < 3; i++) // the first from malloc, the others from the slab
    EXPECT_EQ(heddle_run(f.session, custom, &input, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
}

TEST(Session, kernels_outside_of_a_session_have_memory_and_loops_too) {
  auto *block = static_cast<uint8_t *>(halide_malloc(nullptr, 100));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
  memset(block, 1, 100);
  halide_free(nullptr, block);
  int sum = 0;
  auto task = [](void *, int i, uint8_t *closure) {
    *reinterpret_cast<int *>(closure) += i;
    return i == 7 ? -3 : 0;
  };
  EXPECT_EQ(halide_do_par_for(nullptr, task, 1, 5, reinterpret_cast<uint8_t *>(&sum)), 0);
  EXPECT_EQ(sum, 15);
  EXPECT_EQ(halide_do_par_for(nullptr, task, 6, 5, reinterpret_cast<uint8_t *>(&sum)), -3);
  EXPECT_EQ(sum, 15 + 6 + 7);
}

TEST(Session, a_model_without_state_is_saved_restored_reset_and_cloned_too) {
  Fixture f;
  EXPECT_EQ(heddle_session_reset(f.session), HEDDLE_OK);
  size_t bytes = 0;
  ASSERT_EQ(heddle_session_save(f.session, nullptr, 0, &bytes), HEDDLE_OK);
  std::vector<uint8_t> buffer(bytes);
  ASSERT_EQ(heddle_session_save(f.session, buffer.data(), buffer.size(), &bytes), HEDDLE_OK);
  EXPECT_EQ(heddle_session_restore(f.session, buffer.data(), buffer.size()), HEDDLE_OK);
  heddle_session *copy = nullptr;
  ASSERT_EQ(heddle_session_clone(f.session, &copy), HEDDLE_OK);
  run_encode(copy, 1, 3);
  EXPECT_EQ(heddle_close(f.model), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "model 'fake' still has 2 sessions; free them first");
  EXPECT_EQ(heddle_session_free(copy), HEDDLE_OK);
}

TEST(Session, an_observer_is_told_of_every_kernel) {
  Fixture f;
  run_custom = [](const heddle_call &call) { // as generated code does around a kernel
    heddle_kernel_event(call.context, "k0_1 scores", 1);
    heddle_kernel_event(call.context, "k0_1 scores", 0);
    return 0;
  };
  std::vector<std::string> events;
  auto observer = [](void *context, const char *kernel, int32_t begins) {
    static_cast<std::vector<std::string> *>(context)->push_back((begins ? "+" : "-") + std::string(kernel));
  };
  float x = 0;
  heddle_tensor input = tensor("x", HEDDLE_F32, &x, {1});
  for (bool watched : {false, true, false}) {
    ASSERT_EQ(heddle_session_observe(f.session, watched ? +observer : nullptr, &events), HEDDLE_OK);
    ASSERT_EQ(heddle_run(f.session, custom, &input, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  }
  EXPECT_EQ(events, (std::vector<std::string>{"+k0_1 scores", "-k0_1 scores"}));
}

TEST(Session, options_that_make_no_sense) {
  Fixture f;
  heddle_session *session = nullptr;
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = -2;
  EXPECT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "threads is -2; give a number of threads, or 0 for all cores");
  options.threads = 0;
  options.memory_limit = -1;
  EXPECT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "memory_limit is -1; give bytes, or 0 for no limit");
  options.memory_limit = 0;
  heddle_threads none = {};
  options.custom = &none;
  EXPECT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "custom threads need both callbacks `concurrency` and `run`");
  EXPECT_EQ(session, nullptr);
}

} // namespace
