// Memory of the caller's: allocators of sessions and models, and arenas.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

using namespace fake;

namespace {

/// Gives blocks at odd addresses, full of rubbish, and knows each by its size.
struct Blocks {
  std::map<void *, size_t> held;
  int gets = 0;
  bool refuses = false;

  heddle_allocator allocator() {
    return {this,
            [](void *context, size_t bytes) -> void * {
              auto *self = static_cast<Blocks *>(context);
              if (self->refuses)
                return nullptr;
              auto *block = static_cast<char *>(malloc(bytes + 1)) + 1;
              memset(block, 0xAB, bytes);
              self->held[block] = bytes;
              ++self->gets;
              return block;
            },
            [](void *context, void *block, size_t bytes) {
              auto *self = static_cast<Blocks *>(context);
              EXPECT_EQ(self->held.count(block), 1u);
              EXPECT_EQ(self->held[block], bytes);
              self->held.erase(block);
              free(static_cast<char *>(block) - 1);
            }};
  }
  bool holds(const void *address) const {
    for (auto [block, bytes] : held)
      if (address >= block && address < static_cast<char *>(block) + bytes)
        return true;
    return false;
  }
};

/// `custom` that writes all of an arena of so many bytes, and takes scratch.
heddle_status run_with(heddle_session *session, int64_t bytes) {
  custom_arena = [bytes](const int64_t *) { return bytes; };
  run_custom = [bytes](const heddle_call &call) {
    seen.arena = call.arena;
    memset(call.arena, 0xCD, size_t(bytes));
    halide_free(call.context, halide_malloc(call.context, 5000));
    return 0;
  };
  Aligned<float> x(1), y(1);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {1}), result = tensor(nullptr, HEDDLE_F32, y.data(), {});
  return heddle_run(session, custom, &input, 1, &result, 1);
}

TEST(Memory, a_sessions_blocks_come_from_its_allocator_and_go_back_to_it) {
  Fixture f;
  Blocks blocks;
  heddle_allocator allocator = blocks.allocator();
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = 1;
  options.allocator = &allocator;
  heddle_session *session = nullptr, *copy = nullptr;
  ASSERT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_OK) << heddle_last_error();
  allocator = {}; // was copied
  ASSERT_EQ(run_with(session, 1000), HEDDLE_OK) << heddle_last_error();
  EXPECT_TRUE(blocks.holds(seen.arena));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(seen.arena) % 64, 0u);
  EXPECT_EQ(blocks.held.size(), 2u) << "arena and scratch";
  int gets = blocks.gets;
  ASSERT_EQ(run_with(session, 900), HEDDLE_OK);
  EXPECT_EQ(blocks.gets, gets) << "a call no larger than an earlier one asks for nothing";
  blocks.refuses = true;
  EXPECT_EQ(run_with(session, 2000), HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(), "entry 'custom' needs 2000 bytes of memory for these inputs, which the system "
                                    "refuses; give smaller inputs");
  blocks.refuses = false;
  ASSERT_EQ(run_with(session, 2000), HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(heddle_session_clone(session, &copy), HEDDLE_OK) << heddle_last_error();
  gets = blocks.gets;
  ASSERT_EQ(run_with(copy, 100), HEDDLE_OK);
  EXPECT_GT(blocks.gets, gets) << "a copy has its original's allocator";
  EXPECT_EQ(heddle_session_free(copy), HEDDLE_OK);
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  EXPECT_EQ(blocks.held.size(), 0u);
}

TEST(Memory, states_come_from_the_allocator_and_begin_as_declared) {
  Blocks blocks;
  heddle_allocator allocator = blocks.allocator();
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.allocator = &allocator;
  heddle_model *model = load_library("stateful");
  heddle_session *session = nullptr;
  ASSERT_EQ(heddle_session_create(model, &options, &session), HEDDLE_OK) << heddle_last_error();
  float x[] = {1, 2}, t[] = {10}, y[2];
  int32_t n = -1;
  heddle_tensor in = tensor("x", HEDDLE_F32, x, {1, 2}), step_in = tensor("t", HEDDLE_F32, t, {1});
  heddle_tensor out[] = {tensor("y", HEDDLE_F32, y, {1, 2}), tensor("n", HEDDLE_I32, &n, {})};
  int before = blocks.gets;
  ASSERT_EQ(heddle_run(session, 0, &in, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  EXPECT_GE(blocks.gets, before + 2) << "two states";
  ASSERT_EQ(heddle_run(session, 1, &step_in, 1, out, 2), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y[0], 11);
  EXPECT_EQ(y[1], 12);
  EXPECT_EQ(heddle_session_reset(session), HEDDLE_OK);
  ASSERT_EQ(heddle_run(session, 0, &in, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  EXPECT_EQ(blocks.held.size(), 0u);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
}

TEST(Memory, weights_are_copied_to_a_models_allocator) {
  Blocks blocks;
  heddle_allocator allocator = blocks.allocator();
  std::string path = write_temporary("fake.weights", weights_file());
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  options.weights = path.c_str();
  options.flags = HEDDLE_COPY_WEIGHTS;
  options.allocator = &allocator;
  heddle_model *model = nullptr;
  ASSERT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_OK) << heddle_api_1.last_error();
  EXPECT_EQ(blocks.held.size(), 1u);
  EXPECT_EQ(heddle_model_verify(model), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
  EXPECT_EQ(blocks.held.size(), 0u);
  blocks.refuses = true;
  EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_OUT_OF_MEMORY);
  allocator.give = nullptr;
  EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_api_1.last_error(), "an allocator needs both callbacks `get` and `give`");
}

TEST(Memory, an_arena_of_the_callers_is_used_and_nothing_beside_it_written) {
  Fixture f;
  custom_arena = [](const int64_t *) { return 1000; };
  int64_t dims[n_dims] = {1, 1, 1}, needed = 0;
  ASSERT_EQ(heddle_memory_needed(f.model, custom, dims, &needed), HEDDLE_OK) << heddle_last_error();
  EXPECT_GE(needed, 1000);
  constexpr size_t beside = 100;
  size_t bytes = size_t(needed) + HEDDLE_ARENA_SPARE;
  for (size_t shift : {0, 1, 63}) {
    std::vector<uint8_t> memory(bytes + 2 * beside + shift, 7);
    uint8_t *arena = memory.data() + beside + shift;
    heddle_session_options options = HEDDLE_INIT(heddle_session_options);
    options.threads = 1;
    options.arena = arena;
    options.arena_bytes = bytes;
    heddle_session *session = nullptr, *copy = nullptr;
    ASSERT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_OK) << heddle_last_error();
    ASSERT_EQ(run_with(session, 1000), HEDDLE_OK) << heddle_last_error();
    EXPECT_TRUE(seen.arena >= arena && seen.arena + 1000 <= arena + bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(seen.arena) % 64, 0u);
    for (size_t i = 0; i < beside; ++i) {
      EXPECT_EQ(arena[-1 - ptrdiff_t(i)], 7);
      EXPECT_EQ(arena[bytes + i], 7);
    }
    EXPECT_EQ(run_with(session, 3000), HEDDLE_OUT_OF_MEMORY);
    EXPECT_TRUE(
        std::string(heddle_last_error()).ends_with(" of the session's arena; give smaller inputs or a larger arena"));
    EXPECT_EQ(run_with(session, 1000), HEDDLE_OK);
    EXPECT_EQ(heddle_session_clone(session, &copy), HEDDLE_UNSUPPORTED);
    EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
    options.arena_bytes = HEDDLE_ARENA_SPARE - 1;
    EXPECT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_INVALID_ARGUMENT);
    EXPECT_STREQ(heddle_last_error(), "arena_bytes is 255; give what heddle_memory_needed says and 256 more");
  }
}

TEST(Memory, what_stands_for_tensors_without_elements_can_be_read) {
  Fixture f;
  int64_t wanted = 0;
  const uint8_t *nothing = nullptr, *arena = nullptr;
  custom_arena = [](const int64_t *) { return int64_t(256); };
  custom_nothing = [&](const int64_t *) { return wanted; };
  run_custom = [&](const heddle_call &call) {
    nothing = call.nothing, arena = call.arena;
    for (int64_t at = -wanted; at < wanted; at += at + 4096 < wanted ? 4096 : 1)
      EXPECT_EQ(call.nothing[at], 0);
    return 0;
  };
  float x[1] = {};
  heddle_tensor input = tensor("x", HEDDLE_F32, x, {1});
  auto run = [&](int64_t bytes) {
    wanted = bytes;
    return heddle_run(f.session, custom, &input, 1, nullptr, 0);
  };
  ASSERT_EQ(run(64), HEDDLE_OK) << heddle_last_error();
  EXPECT_TRUE(nothing <= arena + 128 && arena <= nothing + 128); // beside what is staged
  int64_t before = allocations(f.session);
  ASSERT_EQ(run(int64_t(1) << 25), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(allocations(f.session), before + 1);
  for (int64_t bytes : {int64_t(1) << 25, int64_t(1) << 20, int64_t(64)})
    ASSERT_EQ(run(bytes), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(allocations(f.session), before + 1);
  EXPECT_EQ(run(-1), HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(
      heddle_last_error(),
      "entry 'custom': a tensor without elements would have more than 2147483647 of them, were its extents of 0 "
      "extents of 1, and kernels can't address it; give smaller inputs");
  EXPECT_EQ(run(int64_t(1) << 60), HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(), "entry 'custom' needs 2305843009213693952 bytes of addresses for a tensor without "
                                    "elements, which the system refuses; give smaller inputs");
  ASSERT_EQ(run(int64_t(1) << 25), HEDDLE_OK) << heddle_last_error();
}

} // namespace
