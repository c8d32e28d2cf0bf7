// The .npy reader.
#include "compiler/io/npy.h"

#include "tests/io/files.h"

namespace heddle {
namespace {

class NpyFile : public Files {
protected:
  static std::string file_of(const std::string &header, const std::string &data, char version = 1) {
    std::string length{static_cast<char>(header.size()), 0};
    if (version > 1)
      length += std::string(2, '\0');
    return std::string("\x93NUMPY") + version + '\0' + length + header + data;
  }
  std::string refusal(const std::string &bytes) { return message(read_npy(write("x.npy", bytes))); }
};

TEST_F(NpyFile, every_type_and_shape_is_read) {
  struct Case {
    std::string descr, shape;
    HostTensor tensor;
  };
  std::vector<Case> cases = {{"<f4", "(2, 3)", tensor_of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6})},
                             {"<i8", "(2,)", tensor_of<int64_t>(DType::i64, {2}, {-5, 1ll << 40})},
                             {"|b1", "(3,)", tensor_of<uint8_t>(DType::boolean, {3}, {0, 1, 1})},
                             {"<i4", "()", tensor_of<int32_t>(DType::i32, {}, {7})},
                             {"|i1", "(0, 4)", tensor_of<int8_t>(DType::i8, {0, 4}, {})},
                             {"<f8", "(1, 1, 1)", tensor_of<double>(DType::f64, {1, 1, 1}, {0.1})},
                             {"<f2", "(1,)", tensor_of<uint16_t>(DType::f16, {1}, {0x3c00})},
                             {"|u1", "(1,)", tensor_of<uint8_t>(DType::u8, {1}, {255})}};
  for (const Case &c : cases) {
    std::string data(reinterpret_cast<const char *>(c.tensor.bytes.data()), c.tensor.bytes.size());
    write("x.npy", file_of("{'descr': '" + c.descr + "', 'fortran_order': False, 'shape': " + c.shape + ", }\n", data));
    Result<HostTensor> back = read_npy(path("x.npy"));
    ASSERT_TRUE(back) << message(back);
    EXPECT_EQ(back->dtype, c.tensor.dtype);
    EXPECT_EQ(back->shape, c.tensor.shape);
    EXPECT_EQ(back->bytes, c.tensor.bytes);
  }
}

TEST_F(NpyFile, version_2_is_read) {
  write("x.npy",
        file_of("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n", std::string("\x05\0\0\0", 4), 2));
  Result<HostTensor> back = read_npy(path("x.npy"));
  ASSERT_TRUE(back) << message(back);
  EXPECT_EQ(read_element(back->view(), 0), 5);
}

TEST_F(NpyFile, every_truncation_is_an_error_that_names_the_file) {
  std::string bytes = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "12345678");
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string why = refusal(bytes.substr(0, size));
    EXPECT_TRUE(why.starts_with("x.npy: ")) << size << ": " << why;
  }
}

TEST_F(NpyFile, another_file_is_none) {
  EXPECT_EQ(refusal("PK\x03\x04 this is a zip file"), "x.npy: is no .npy file");
  EXPECT_EQ(refusal(""), "x.npy: is no .npy file");
}

TEST_F(NpyFile, an_unknown_version_is_refused) {
  EXPECT_EQ(refusal(file_of("{}", "", 9)), "x.npy: has version 9 of the .npy format; versions 1 to 3 are read");
}

TEST_F(NpyFile, a_header_that_is_not_numpys_is_refused) {
  for (const char *header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x"})
    EXPECT_EQ(refusal(file_of(header, "1234")), "x.npy: is no .npy file: its header cannot be read") << header;
}

TEST_F(NpyFile, big_endian_is_refused) {
  EXPECT_EQ(refusal(file_of("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234")),
            "x.npy: its elements (>f4) are big-endian; save it in little-endian order");
}

TEST_F(NpyFile, other_elements_are_refused_by_name) {
  EXPECT_EQ(refusal(file_of("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678")),
            "x.npy: its element type <c8 is not supported; save it as float32, float16, float64, int8, int32, int64, "
            "uint8 or bool");
}

TEST_F(NpyFile, fortran_order_is_refused) {
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234")),
            "x.npy: is in Fortran order; save numpy.ascontiguousarray of it");
}

TEST_F(NpyFile, too_few_or_too_many_bytes_are_refused) {
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "123456")),
            "x.npy: its shape [2] takes 8 bytes, but the file has 6; the file is truncated or damaged");
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "")),
            "x.npy: its shape [4294967296, 4294967296] is too large");
}

} // namespace
} // namespace heddle
