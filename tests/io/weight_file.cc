// Every format of weights: tests/io/weights has the same tensors in each (make_weights.py). Damaged files, 2,000 of
// each, are refused with one message or read without a byte out of place.
#include "compiler/io/model_folder.h"
#include "compiler/io/safetensors.h"

#include "tests/io/files.h"

#include <random>

namespace heddle {
namespace {

const std::string samples = HEDDLE_SOURCE_DIR "/tests/io/weights/";
constexpr const char *all[] = {"w.safetensors", "w.npz", "compressed.npz", "w.pt", "checkpoint.pt", "old.bin"};

class WeightFileTest : public Files {};

TEST_F(WeightFileTest, every_format_gives_the_same_tensors) {
  Result<WeightFile> want = open_weight_file(samples + all[0]);
  ASSERT_TRUE(want) << message(want);
  ASSERT_EQ(want->tensors.size(), 3u);
  EXPECT_EQ(read_element(want->tensors.at("a"), 5), 5);
  for (const char *name : all) {
    Result<WeightFile> got = open_weight_file(samples + name);
    ASSERT_TRUE(got) << message(got);
    ASSERT_EQ(got->tensors.size(), 3u) << name;
    for (const auto &[tensor, expected] : want->tensors) {
      const TensorView &found = got->tensors.at(tensor);
      EXPECT_EQ(found.dtype, expected.dtype) << name;
      EXPECT_EQ(found.shape, expected.shape) << name;
      EXPECT_EQ(std::vector<std::byte>(found.bytes.begin(), found.bytes.end()),
                std::vector<std::byte>(expected.bytes.begin(), expected.bytes.end()))
          << name << " " << tensor;
    }
  }
}

/// One to three changes: cut off, a byte, a stretch of zeros or ones, a number replaced by an extreme one, bytes moved.
std::string damage(std::string bytes, std::mt19937 &random) {
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) {
    size_t at = below(bytes.size()), room = bytes.size() - at;
    switch (below(6)) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes[at] = char(below(256));
      break;
    case 2:
      std::memset(&bytes[at], below(2) ? 0xff : 0, std::min<size_t>(room, 1 + below(8)));
      break;
    case 3: {
      constexpr int64_t extremes[] = {-1, 0, 1, 0x7f, 0x80, 0xffff, 0x7fffffff, 0xffffffff, INT64_MAX, INT64_MIN};
      int64_t value = extremes[below(std::size(extremes))];
      std::memcpy(&bytes[at], &value, std::min<size_t>(room, size_t(1) << below(4)));
      break;
    }
    case 4:
      bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16)));
      break;
    default:
      bytes.erase(at, 1 + below(16));
    }
  }
  return bytes;
}

TEST_F(WeightFileTest, two_thousand_damaged_files_of_each_format_have_one_message_each) {
  for (const char *name : all) {
    std::ifstream in(samples + name, std::ios::binary);
    std::string whole{std::istreambuf_iterator<char>(in), {}};
    std::mt19937 random(7);
    int refused = 0;
    for (int i = 0; i < 2000; ++i) {
      std::string path = write("damaged", damage(whole, random));
      Result<WeightFile> file = open_weight_file(path);
      if (!file) {
        const std::string &text = file.error().message;
        ASSERT_TRUE(text.starts_with(path + ": ")) << text;
        ASSERT_EQ(text.find('\n'), text.npos) << text;
        ++refused;
        continue;
      }
      for (const auto &[tensor, view] : file->tensors) {
        ASSERT_EQ(view.bytes.size(), size_t(view.count()) * byte_width(view.dtype)) << name << " " << i;
        for (int64_t element = 0; element < view.count(); ++element)
          read_element(view, element);
      }
    }
    EXPECT_GT(refused, 1000) << name;
    RecordProperty(name, refused);
  }
}

TEST_F(WeightFileTest, two_thousand_damaged_indices_have_one_message_each) {
  std::string index = R"({"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})";
  for (std::string part : {"a", "b"}) {
    HostTensor tensor = tensor_of<float>(DType::f32, {1}, {1});
    ASSERT_TRUE(write_safetensors(path("model-" + std::to_string(part[0] - 'a' + 1) + ".safetensors"),
                                  {{part, tensor.view()}}));
  }
  ASSERT_TRUE(WeightFiles::open(write("model.safetensors.index.json", index)));
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Result<WeightFiles> files = WeightFiles::open(write("model.safetensors.index.json", damage(index, random)));
    if (!files)
      EXPECT_EQ(message(files).find_first_of("\n\x1b"), std::string::npos) << message(files);
    refused += !files;
  }
  EXPECT_GT(refused, 1000);
  RecordProperty("refused", refused);
}

TEST_F(WeightFileTest, names_with_control_characters_are_refused_in_one_line) {
  HostTensor tensor = tensor_of<float>(DType::f32, {1}, {1});
  ASSERT_TRUE(write_safetensors(path("w.safetensors"), {{"a\n\x1b[31m", tensor.view()}}));
  EXPECT_EQ(message(open_weight_file(path("w.safetensors"))),
            "w.safetensors: tensor `a??[31m`: its name has control characters");
  for (const char *text : {R"({"weight_map": {"a": "b\nc"}})", R"({"weight_map": {"a\u001b": 1}})"})
    EXPECT_EQ(message(WeightFiles::open(write("model.safetensors.index.json", text))).find_first_of("\n\x1b"),
              std::string::npos);
}

} // namespace
} // namespace heddle
