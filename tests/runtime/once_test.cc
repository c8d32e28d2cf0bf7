// What entries compute once: in the first call, and again where a dim that it depends on is another.
#include "fake_model.h"

#include <gtest/gtest.h>

using namespace fake;

namespace {

/// The entry `custom` with 8 bytes for each N: a run that is told to writes N there.
struct Once : Fixture {
  int computed = 0;
  int32_t answer = 0; // of a run
  std::vector<int64_t> found;

  explicit Once(int64_t memory_limit = 0) : Fixture(1, nullptr, memory_limit) {
    custom_once = [](const int64_t *dims) { return 8 * dims[N]; };
    run_custom = [this](const heddle_call &call) {
      auto *kept = reinterpret_cast<int64_t *>(call.once);
      if (!call.once_done) {
        ++computed;
        std::fill(kept, kept + call.dims[N], call.dims[N]);
      }
      found.assign(kept, kept + call.dims[N]);
      return answer;
    };
  }

  heddle_status run(heddle_session *of, int64_t n) {
    Aligned<float> x(size_t(std::max<int64_t>(n, 1))), y(1);
    heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {n}), result = tensor(nullptr, HEDDLE_F32, y.data(), {});
    return heddle_run(of, custom, &input, 1, &result, 1);
  }
};

int64_t once_bytes(heddle_session *session) {
  heddle_memory_info info = HEDDLE_INIT(heddle_memory_info);
  EXPECT_EQ(heddle_session_memory(session, &info), HEDDLE_OK);
  return info.once_bytes;
}

TEST(Once, is_computed_in_the_first_call_and_found_in_the_next) {
  Once f;
  for (int i = 0; i < 3; i++)
    ASSERT_EQ(f.run(f.session, 5), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(f.computed, 1);
  EXPECT_EQ(f.found, std::vector<int64_t>(5, 5));
  EXPECT_EQ(once_bytes(f.session), 40);
}

TEST(Once, is_computed_again_for_other_dims_without_more_memory_where_they_are_smaller) {
  Once f;
  for (int64_t n : {5, 3, 3, 5, 0, 8})
    ASSERT_EQ(f.run(f.session, n), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(f.computed, 5);
  EXPECT_EQ(f.found, std::vector<int64_t>(8, 8));
  EXPECT_EQ(once_bytes(f.session), 64);
}

TEST(Once, a_call_that_failed_has_computed_nothing) {
  Once f;
  f.answer = -20;
  EXPECT_EQ(f.run(f.session, 5), HEDDLE_KERNEL_FAILED);
  f.answer = 0;
  EXPECT_EQ(f.run(f.session, 5), HEDDLE_OK);
  EXPECT_EQ(f.computed, 2);
  f.answer = -20; // but what was there before is still there
  EXPECT_EQ(f.run(f.session, 5), HEDDLE_KERNEL_FAILED);
  f.answer = 0;
  EXPECT_EQ(f.run(f.session, 5), HEDDLE_OK);
  EXPECT_EQ(f.computed, 2);
}

TEST(Once, each_session_has_its_own_and_other_entries_leave_it_alone) {
  Once f;
  heddle_session *second = nullptr;
  ASSERT_EQ(heddle_session_clone(f.session, &second), HEDDLE_OK);
  ASSERT_EQ(f.run(f.session, 5), HEDDLE_OK);
  ASSERT_EQ(f.run(second, 5), HEDDLE_OK);
  EXPECT_EQ(f.computed, 2);
  Aligned<float> x(24), y(24);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {2, 12}), result = tensor("y", HEDDLE_F32, y.data(), {2, 12});
  ASSERT_EQ(heddle_run(f.session, floats, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(f.run(f.session, 5), HEDDLE_OK);
  EXPECT_EQ(f.computed, 2);
  heddle_session_free(second);
}

TEST(Once, counts_against_the_memory_limit) {
  Once f(4000);
  EXPECT_EQ(f.run(f.session, 100), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(f.run(f.session, 1000), HEDDLE_OUT_OF_MEMORY);
  EXPECT_NE(std::string(heddle_last_error()).find("more than the limit of 4000"), std::string::npos);
  EXPECT_EQ(f.run(f.session, 100), HEDDLE_OK);
  EXPECT_EQ(f.computed, 1);
}

TEST(Once, a_system_without_memory_for_it_is_named) {
  Once f;
  custom_once = [](const int64_t *) { return INT64_MAX / 4; };
  EXPECT_EQ(f.run(f.session, 5), HEDDLE_OUT_OF_MEMORY);
  EXPECT_STREQ(heddle_last_error(),
               "entry 'custom' needs 2305843009213693951 bytes of memory for what it computes once for these "
               "sizes, which the system refuses; give smaller inputs");
}

} // namespace
