// Calls made at random, most of them wrong: whatever is given, the answer is a status with a message, results are
// written only within their tensors, and the session goes on. With -fsanitize=address this is also the test of bounds.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <random>

using namespace fake;

namespace {

struct Maker {
  std::mt19937 random;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(1 << 16);

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  bool rarely() { return pick(0, 19) == 0; }

  // A tensor that nearly fits the described value, so that each check is reached.
  heddle_tensor tensor(const heddle_value_info &value, const int64_t *dims, bool result) {
    int64_t shape[HEDDLE_RANK] = {};
    for (int i = 0; i < value.rank; i++) {
      const heddle_extent &extent = value.extents[i];
      shape[i] = extent.dim >= 0 ? dims[extent.dim] : extent.dim == HEDDLE_FIXED ? extent.value : pick(0, 6);
      if (rarely())
        shape[i] = pick(-2, 5);
    }
    static const int32_t integers[] = {HEDDLE_I8, HEDDLE_I32, HEDDLE_BOOL, HEDDLE_I64, HEDDLE_U8};
    bool integer = value.dtype != HEDDLE_F32 && value.dtype != HEDDLE_F16 && value.dtype != HEDDLE_BF16;
    int32_t dtype = integer && !result && pick(0, 2) == 0 ? integers[pick(0, 4)] : value.dtype;
    if (rarely())
      dtype = pick(-1, 9);
    uint8_t *data = bytes.data() + bytes.size() / 2 + pick(0, 3) * 8;
    heddle_tensor made =
        heddle_dense(pick(0, 3) ? value.name : nullptr, dtype, rarely() ? nullptr : data, value.rank, shape);
    if (rarely())
      made.rank = pick(-1, 9);
    for (int i = 0; i < value.rank; i++)
      if (pick(0, 9) == 0)
        made.strides[i] = pick(-40, 40);
    if (rarely())
      made.name = "nobody";
    return made;
  }
};

TEST(RandomCalls, are_answered_with_a_status) {
  Fixture f(2);
  Maker make{std::mt19937(11)};
  int answers[16] = {};
  for (int round = 0; round < 40000; round++) {
    int32_t entry = make.pick(0, n_entries - 1);
    int64_t dims[n_dims] = {make.pick(0, 3), make.pick(0, 4), make.pick(0, 4)};
    for (uint8_t &byte : make.bytes)
      byte = 1;
    if (make.pick(0, 3) == 0)
      make.bytes[make.bytes.size() / 2 + static_cast<size_t>(make.pick(0, 100))] = 200;
    heddle_entry_info info = HEDDLE_INIT(heddle_entry_info);
    ASSERT_EQ(heddle_entry_describe(f.model, entry, &info), HEDDLE_OK);
    std::vector<heddle_tensor> inputs, results;
    for (int i = 0; i < info.n_inputs; i++) {
      heddle_value_info value = HEDDLE_INIT(heddle_value_info);
      ASSERT_EQ(heddle_input_describe(f.model, entry, i, &value), HEDDLE_OK);
      if (!make.rarely())
        inputs.push_back(make.tensor(value, dims, false));
    }
    for (int i = 0; i < info.n_results; i++) {
      heddle_value_info value = HEDDLE_INIT(heddle_value_info);
      ASSERT_EQ(heddle_result_describe(f.model, entry, i, &value), HEDDLE_OK);
      if (make.pick(0, 2))
        continue;
      results.push_back(make.tensor(value, dims, true));
      results.back().data = make.bytes.data() + 8192 * (i + 1); // apart from the inputs and from each other
    }
    heddle_status status = heddle_run(f.session, entry, inputs.data(), static_cast<int32_t>(inputs.size()),
                                      results.data(), static_cast<int32_t>(results.size()));
    ASSERT_LT(static_cast<unsigned>(status), 13u);
    answers[status]++;
    if (status != HEDDLE_OK)
      ASSERT_NE(std::string(heddle_last_error()), "");
  }
  for (heddle_status expected : {HEDDLE_OK, HEDDLE_NOT_FOUND, HEDDLE_BAD_TENSOR, HEDDLE_OUT_OF_RANGE})
    EXPECT_GT(answers[expected], 400) << heddle_status_name(expected) << " is hardly tested";
  EXPECT_EQ(answers[HEDDLE_KERNEL_FAILED], 0);
}

} // namespace
