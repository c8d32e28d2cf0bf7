// The safetensors reader and writer: what is written reads back; what is damaged is refused with one message.
#include "compiler/io/safetensors.h"

#include "tests/io/files.h"

#include <sys/stat.h>

namespace heddle {
namespace {

std::string file_of(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + header + data;
}

class SafetensorsFile : public Files {
protected:
  std::string refusal(const std::string &bytes) { return message(Safetensors::open(write("w.safetensors", bytes))); }
};

const std::string one = R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";

TEST_F(SafetensorsFile, what_is_written_reads_back) {
  HostTensor a = tensor_of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor b = tensor_of<int64_t>(DType::i64, {2}, {-5, 1ll << 40});
  HostTensor c = tensor_of<uint8_t>(DType::boolean, {3}, {0, 1, 1});
  HostTensor d = tensor_of<uint16_t>(DType::bf16, {}, {0x3f80});
  HostTensor e = tensor_of<float>(DType::f32, {0, 7}, {});
  Status status = write_safetensors(
      path("w.safetensors"),
      {{"a", a.view()}, {"b", b.view()}, {"c \"q\"", c.view()}, {"d", d.view()}, {"e", e.view()}}, {{"format", "pt"}});
  ASSERT_TRUE(status) << message(status);
  EXPECT_EQ(names(), std::vector<std::string>{"w.safetensors"});

  Result<Safetensors> file = Safetensors::open(path("w.safetensors"));
  ASSERT_TRUE(file) << message(file);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->tensors().size(), 5u);
  auto same = [&](const char *name, const HostTensor &expected) {
    const TensorView *found = file->find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->dtype, expected.dtype) << name;
    EXPECT_EQ(found->shape, expected.shape) << name;
    EXPECT_EQ(std::vector<std::byte>(found->bytes.begin(), found->bytes.end()), expected.bytes) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found->bytes.data()) % byte_width(expected.dtype), 0u) << name;
  };
  same("a", a);
  same("b", b);
  same("c \"q\"", c);
  same("d", d);
  same("e", e);
  EXPECT_EQ(file->find("f"), nullptr);
}

TEST_F(SafetensorsFile, other_formats_are_named_with_their_remedy) {
  auto zip = [](const std::string &member) {
    std::string header = "PK\x03\x04" + std::string(26, '\0');
    header[26] = static_cast<char>(member.size());
    return header + member + std::string(100, '\0');
  };
  const std::string torch =
      "convert it in Python: safetensors.torch.save_file(torch.load(\"{0}\", weights_only=True), \"{1}\")";
  const struct {
    std::string bytes, message;
  } cases[] = {
      {zip("fc.weight.npy"), "is a NumPy archive, no safetensors file; convert it in Python: "
                             "safetensors.numpy.save_file(dict(numpy.load(\"{0}\")), \"{1}\")"},
      {zip("pytorch_model/data.pkl"), "is a PyTorch file, no safetensors file; " + torch},
      {zip("readme.txt"), "is a ZIP archive, no safetensors file; unpack it: unzip \"{0}\""},
      {"PK\x03\x04", "is a ZIP archive, no safetensors file; unpack it: unzip \"{0}\""},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "is a Python pickle, as of PyTorch, no safetensors "
                                                                    "file; " +
                                                                        torch},
      {std::string("GGUF\3\0\0\0\0\0\0\0", 12), "is GGUF weights, as of llama.cpp, no safetensors file; take the "
                                                "safetensors that they were made from"},
      {"\x93NUMPY\1", "is a single NumPy array, which has no name, no safetensors file; convert it in Python: "
                      "safetensors.numpy.save_file({\"NAME\": numpy.load(\"{0}\")}, \"{1}\")"},
      {"\x89HDF\r\n\x1a\n", "is an HDF5 file, as of Keras, no safetensors file; load it in Keras, and save its weights "
                            "by name with safetensors.numpy.save_file(…, \"{1}\")"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "is a pointer of Git LFS, which stands for the file, no safetensors file; `git lfs pull` in its folder "
       "downloads "
       "it"},
      {"<!DOCTYPE html><p>404", "is a web page, no safetensors file; the download went wrong: fetch the file itself"},
      {"{\"weight_map\": {}}", "is JSON text, no safetensors file; an index of safetensors files has a name that ends "
                               "in .json"},
      {"\x1f\x8b\x08", "is compressed by gzip, no safetensors file; unpack it: gunzip \"{0}\""},
  };
  for (const auto &c : cases) {
    std::string expected = "w.bin: " + c.message;
    for (auto [mark, name] : {std::pair("{0}", "w.bin"), std::pair("{1}", "w.safetensors")})
      if (size_t at = expected.find(mark); at != std::string::npos)
        expected.replace(at, 3, name);
    EXPECT_EQ(message(Safetensors::open(write("w.bin", c.bytes))), expected);
  }
  // A header whose length begins like another format's first bytes is none of them.
  std::string header = one + std::string(0x8b1f - one.size(), ' ');
  EXPECT_EQ(refusal(file_of(header, std::string(8, '\0'))), "no error");
}

TEST_F(SafetensorsFile, every_truncation_is_an_error_that_names_the_file) {
  HostTensor a = tensor_of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor b = tensor_of<int8_t>(DType::i8, {3}, {1, 2, 3});
  ASSERT_TRUE(write_safetensors(path("whole"), {{"a", a.view()}, {"b", b.view()}}, {{"k", "v"}}));
  std::string bytes = read("whole");
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string why = refusal(bytes.substr(0, size));
    EXPECT_TRUE(why.starts_with("w.safetensors: ")) << size << ": " << why;
  }
  EXPECT_EQ(refusal(bytes), "no error");
}

TEST_F(SafetensorsFile, every_changed_byte_of_the_header_gives_an_error_or_tensors_within_the_file) {
  std::string bytes = file_of(one, std::string(8, 'x'));
  for (size_t at = 0; at < bytes.size() - 8; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] ^= static_cast<char>(1 << bit);
      Result<Safetensors> file = Safetensors::open(write("w.safetensors", changed));
      if (file)
        for (const auto &[name, tensor] : file->tensors())
          EXPECT_EQ(tensor.bytes.size(), tensor.count() * byte_width(tensor.dtype));
    }
}

TEST_F(SafetensorsFile, a_missing_file_says_so) {
  EXPECT_EQ(message(Safetensors::open(path("none"))), "none: cannot read: No such file or directory");
  EXPECT_EQ(message(Safetensors::open(path("."))), ".: is a folder, not a regular file");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(message(Safetensors::open(path("pipe"))),
            "pipe: is a FIFO, not a regular file"); // and does not wait for a writer
}

TEST_F(SafetensorsFile, an_empty_file_is_none) {
  EXPECT_EQ(refusal(""), "w.safetensors: is no safetensors file: it has only 0 bytes");
}

TEST_F(SafetensorsFile, a_header_longer_than_the_format_allows_is_refused) {
  EXPECT_EQ(refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}"),
            "w.safetensors: is no safetensors file: its header would have 9223372036854775807 bytes");
}

TEST_F(SafetensorsFile, a_header_longer_than_the_file_is_a_truncation) {
  EXPECT_EQ(refusal(std::string("\x40\0\0\0\0\0\0\0", 8) + "{}"),
            "w.safetensors: is truncated: its header has 64 bytes, the file only 10");
}

TEST_F(SafetensorsFile, a_header_that_is_no_json_object_is_refused) {
  for (const char *header : {"", "[]", "{", "nonsense", "{\"a\": }"})
    EXPECT_EQ(refusal(file_of(header, "")),
              "w.safetensors: is no safetensors file: its header is not the JSON object that the format asks for");
}

TEST_F(SafetensorsFile, a_very_deep_header_is_refused_without_running_out_of_stack) {
  EXPECT_EQ(refusal(file_of(std::string(1000000, '['), "")),
            "w.safetensors: is no safetensors file: its header is not the JSON object that the format asks for");
  EXPECT_EQ(refusal(file_of("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", "")),
            "w.safetensors: tensor `a`: its entry in the header lacks dtype, shape or data_offsets");
}

TEST_F(SafetensorsFile, two_tensors_of_one_name_are_refused) {
  std::string entry = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(refusal(file_of("{" + entry + "," + entry + "}", "1234")), "w.safetensors: has two tensors named `a`");
}

TEST_F(SafetensorsFile, an_entry_without_offsets_names_its_tensor) {
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1]}})", "1234")),
            "w.safetensors: tensor `a`: its entry in the header lacks dtype, shape or data_offsets");
}

TEST_F(SafetensorsFile, an_unknown_dtype_names_its_tensor_and_those_that_are_known) {
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "1")),
            "w.safetensors: tensor `a`: its dtype F8_E4M3 is not supported; save it as F32, BF16, F16, I8, I32, I64, "
            "U8 or BOOL");
}

TEST_F(SafetensorsFile, sizes_that_are_not_whole_numbers_are_refused) {
  for (const char *shape : {"[-1]", "[1.5]", "[\"2\"]", "2", "[99999999999999999999999]"})
    EXPECT_EQ(
        refusal(file_of(R"({"a":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,4]}})", "1234")),
        "w.safetensors: tensor `a`: its shape or data_offsets in the header are not whole numbers");
}

TEST_F(SafetensorsFile, offsets_beyond_the_file_are_a_truncation) {
  EXPECT_EQ(refusal(file_of(one, "1234567")),
            "w.safetensors: tensor `a`: its bytes 0 to 8 lie outside of the file's 7 bytes of data; the file is "
            "truncated or damaged");
}

TEST_F(SafetensorsFile, a_shape_that_disagrees_with_its_bytes_is_refused) {
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678")),
            "w.safetensors: tensor `a`: the shape [3] of F32 takes 12 bytes, but the header gives it 8");
}

TEST_F(SafetensorsFile, a_shape_whose_product_overflows_is_refused) {
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "")),
            "w.safetensors: tensor `a`: the shape [4294967296, 4294967296] of F32 takes too many bytes, but the header "
            "gives it 0");
}

TEST_F(SafetensorsFile, tensors_that_share_bytes_are_refused) {
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                            "1234")),
            "w.safetensors: tensors `a` and `b` share bytes; the header is damaged");
}

TEST_F(SafetensorsFile, bytes_of_no_tensor_are_refused) {
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})", "1234")),
            "w.safetensors: bytes 0 to 1 before tensor `a` belong to no tensor; the header is damaged");
  EXPECT_EQ(refusal(file_of(one, "123456789")),
            "w.safetensors: has 9 bytes of data where its header names 8; the file is damaged");
}

} // namespace
} // namespace heddle
