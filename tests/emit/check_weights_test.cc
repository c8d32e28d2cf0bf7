// What a weights file may lack, with the whole message of each.
#include "compiler/emit/artifact/check_weights.h"
#include "compiler/io/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

using namespace heddle;
namespace fs = std::filesystem;

namespace {

class CheckWeights : public ::testing::Test {
protected:
  CheckWeights() {
    std::string pattern = (fs::temp_directory_path() / "heddle-test-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    path = folder + "/w.safetensors";
    program.tensors.push_back({Tensor::weight, "fc.weight", Type::f32, {Size(2), Size(3)}, {}});
    program.tensors[0].span = {sources.add("net.heddle", "model Net {\n  param w as \"fc.weight\": real[2, 3]\n}\n"),
                               14, 19};
    program.weights.push_back({&program.tensors[0], {"net.fc.weight", "fc.weight"}, {6}});
  }
  ~CheckWeights() override { fs::remove_all(folder); }

  /// The message for a file with one tensor; "" where it fits.
  std::string message(const std::string &name, DType dtype, std::vector<int64_t> shape) {
    std::vector<std::byte> bytes(64);
    TensorView view{dtype, shape, {}};
    view.bytes = std::span(bytes).first(view.count() * byte_width(dtype));
    EXPECT_TRUE(bool(write_safetensors(path, {{name, view}})));
    auto files = WeightFiles::open(path);
    EXPECT_TRUE(bool(files));
    auto status = check_weights(program, sources, *files);
    return status ? "" : status.error().message;
  }

  /// The message for weights of six such values.
  std::string message(float value, Type type) {
    program.tensors[0].type = type;
    std::vector<float> values(6, value);
    EXPECT_TRUE(bool(write_safetensors(path, {{"fc.weight", {DType::f32, {6}, std::as_bytes(std::span(values))}}})));
    auto files = WeightFiles::open(path);
    EXPECT_TRUE(bool(files));
    conversions = weight_conversions(program, *files);
    auto status = check_weights(program, sources, *files);
    return status ? "" : status.error().message;
  }

  std::string folder, path, conversions;
  Program program;
  Sources sources;
};

TEST_F(CheckWeights, either_name_is_found_in_any_floating_type) {
  EXPECT_EQ(message("net.fc.weight", DType::f32, {6}), "");
  EXPECT_EQ(message("fc.weight", DType::f16, {6}), "");
  EXPECT_EQ(message("fc.weight", DType::bf16, {6}), "");
}

TEST_F(CheckWeights, tensors_that_nothing_reads_are_listed) {
  std::vector<float> values(6);
  TensorView view{DType::f32, {6}, std::as_bytes(std::span(values))};
  auto unread = [&](std::map<std::string, TensorView> tensors) {
    EXPECT_TRUE(bool(write_safetensors(path, tensors)));
    return unread_tensors(program, *WeightFiles::open(path));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(unread({{"fc.weight", view}}), Names{});
  EXPECT_EQ(unread({{"fc.weight", view}, {"fc.bias", view}, {"a", view}}), (Names{"a", "fc.bias"}));
  // The first of its names is taken; what has the other is read by nobody.
  EXPECT_EQ(unread({{"fc.weight", view}, {"net.fc.weight", view}}), Names{"fc.weight"});
}

TEST_F(CheckWeights, a_missing_tensor_is_named_with_the_nearest_one) {
  EXPECT_EQ(message("net.fc.weights", DType::f32, {6}),
            path + ": there is no tensor `net.fc.weight` (nor `fc.weight`), which net.heddle:2 reads; the nearest "
                   "name that nothing reads is `net.fc.weights`");
}

TEST_F(CheckWeights, what_another_weight_reads_is_no_nearest_name) {
  program.tensors.push_back({Tensor::weight, "fd.weight", Type::f32, {Size(6)}, {}});
  program.weights.push_back({&program.tensors[1], {"fd.weight"}, {6}});
  EXPECT_EQ(
      message("fc.weight", DType::f32, {6}),
      path + ": there is no tensor `fd.weight`, which the model reads; do the settings (config.json, --set) belong to "
             "these weights?");
}

TEST_F(CheckWeights, a_wrong_shape_is_named_with_the_right_one) {
  EXPECT_EQ(message("fc.weight", DType::f32, {2, 3}),
            path +
                ": tensor `fc.weight` has shape [2, 3], net.heddle:2 wants [6]; do the settings (config.json, --set) "
                "belong to these weights?");
}

TEST_F(CheckWeights, integers_are_no_weights_of_a_real_parameter) {
  EXPECT_EQ(message("fc.weight", DType::i32, {6}),
            path + ": tensor `fc.weight` is I32, net.heddle:2 wants a floating-point type");
}

TEST_F(CheckWeights, floats_take_the_width_of_the_model_where_it_holds_them) {
  EXPECT_EQ(message(65519, Type::f16), "");
  EXPECT_EQ(conversions, "1 rounded from F32 to f16");
  EXPECT_EQ(message(1e38, Type::bf16), "");
  EXPECT_EQ(conversions, "1 rounded from F32 to bf16");
  EXPECT_EQ(message(1e38, Type::f32), "");
  EXPECT_EQ(conversions, "");
  EXPECT_EQ(message(INFINITY, Type::f16), "");
  EXPECT_EQ(message(-65520, Type::f16),
            path + ": tensor `fc.weight` has the value -65520, which f16 cannot hold; bf16 has the range of f32");
}

} // namespace
