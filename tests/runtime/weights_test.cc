// Weights files, right and wrong: every way to be damaged gets its message, and the checksum is that of XXH64.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <sys/stat.h>

using namespace fake;

extern "C" uint64_t rt_checksum(const uint8_t *data, uint64_t bytes);

namespace {

heddle_status load_from(const std::string &path, heddle_model **model, uint32_t flags = 0) {
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  options.weights = path.c_str();
  options.flags = flags;
  return heddle_api_1.model_load(&options, model);
}

void expect_refused(const std::vector<uint8_t> &bytes, const std::string &what) {
  std::string path = write_temporary("wrong.weights", bytes);
  for (uint32_t flags : {0u, uint32_t(HEDDLE_COPY_WEIGHTS)}) {
    heddle_model *model = nullptr;
    EXPECT_EQ(load_from(path, &model, flags), HEDDLE_BAD_WEIGHTS);
    EXPECT_EQ(model, nullptr);
    EXPECT_EQ(std::string(heddle_api_1.last_error()), path + what);
  }
}

template <class T> std::vector<uint8_t> with(size_t offset, T value) {
  std::vector<uint8_t> bytes = weights_file();
  memcpy(&bytes[offset], &value, sizeof value);
  return bytes;
}

TEST(Weights, a_file_that_is_not_there_or_not_a_file) {
  heddle_model *model = nullptr;
  EXPECT_EQ(load_from("/nonexistent/fake.weights", &model), HEDDLE_FILE_ERROR);
  EXPECT_STREQ(heddle_api_1.last_error(), "/nonexistent/fake.weights cannot be opened: No such file or directory");
  EXPECT_EQ(load_from("/tmp", &model), HEDDLE_FILE_ERROR);
  EXPECT_STREQ(heddle_api_1.last_error(), "/tmp is no regular file; give the weights file that `heddle compile` wrote");
  std::string pipe = write_temporary("pipe", {});
  ASSERT_EQ(remove(pipe.c_str()), 0);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string &path : {pipe, std::string("/dev/zero")}) { // and nobody waits for a writer
    EXPECT_EQ(load_from(path, &model), HEDDLE_FILE_ERROR);
    EXPECT_EQ(heddle_api_1.last_error(),
              path + " is no regular file; give the weights file that `heddle compile` wrote");
  }
  EXPECT_EQ(heddle_api_1.model_load(nullptr, &model), HEDDLE_FILE_ERROR); // beside the program: this test
  std::string beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake.weights";
  EXPECT_EQ(heddle_api_1.last_error(), beside + " cannot be opened: No such file or directory");
  EXPECT_EQ(load_from("/tmp", &model, 6), HEDDLE_UNSUPPORTED);
  EXPECT_STREQ(heddle_api_1.last_error(), "flags 0x6 of the model options are not known to this version");
}

TEST(Weights, a_file_that_ends_early_at_any_byte) {
  std::vector<uint8_t> whole = weights_file();
  for (size_t bytes : {size_t(0), size_t(1), size_t(7), size_t(8), sizeof(heddle_weights_header) - 1}) {
    expect_refused({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)},
                   " is truncated: it has " + std::to_string(bytes) +
                       " bytes, less than a weights file's header; copy or compile it again");
  }
  for (size_t bytes : {sizeof(heddle_weights_header), size_t(4095), size_t(4096), size_t(4097), size_t(4111)}) {
    expect_refused({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)},
                   " is truncated: it has " + std::to_string(bytes) +
                       " bytes instead of 4112; copy or compile it again");
  }
  whole.push_back(0);
  expect_refused(whole, " is damaged: it has 4113 bytes instead of 4112; copy or compile it again");
}

TEST(Weights, a_header_that_is_not_ours) {
  expect_refused(with<char>(0, 'h'), " is not a Heddle weights file; give the one that `heddle compile` wrote");
  expect_refused(with<uint32_t>(offsetof(heddle_weights_header, version), 2),
                 " has version 2 of the weights format, this library reads version 1; compile the model again");
  const char *other = " was packed for another library than 'fake'; use the weights file from the same folder, or "
                      "compile the model again";
  expect_refused(with<uint8_t>(offsetof(heddle_weights_header, id) + 15, 1), other);
  expect_refused(with<uint64_t>(offsetof(heddle_weights_header, payload_bytes), 20), other);
  expect_refused(
      with<uint64_t>(offsetof(heddle_weights_header, build), 0xfe),
      " comes from another compilation of 'fake' than the library (build 00000000000000fe, the library is build "
      "0000000000000000); use the weights file that was written with it, or compile the model again");
  for (uint64_t offset : {uint64_t(0), uint64_t(64), uint64_t(4100), UINT64_MAX})
    expect_refused(with<uint64_t>(offsetof(heddle_weights_header, payload_offset), offset),
                   " is damaged: its payload begins at byte " + std::to_string(offset) + "; compile the model again");
}

TEST(Weights, every_single_wrong_byte_of_the_header_is_survived) {
  for (size_t i = 0; i < sizeof(heddle_weights_header); i++)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> bytes = weights_file();
      bytes[i] ^= flip;
      heddle_model *model = nullptr;
      heddle_status status = load_from(write_temporary("flipped.weights", bytes), &model);
      bool content = i >= offsetof(heddle_weights_header, checksum) && // not looked at when loading
                     i < offsetof(heddle_weights_header, build);
      ASSERT_EQ(status, content ? HEDDLE_OK : HEDDLE_BAD_WEIGHTS) << i;
      if (model)
        EXPECT_EQ(heddle_close(model), HEDDLE_OK);
    }
}

TEST(Weights, verification_compares_the_content) {
  for (uint32_t flags : {0u, uint32_t(HEDDLE_COPY_WEIGHTS)}) {
    heddle_model *model = nullptr;
    ASSERT_EQ(load_from(write_temporary("good.weights", weights_file()), &model, flags), HEDDLE_OK);
    EXPECT_EQ(heddle_model_verify(model), HEDDLE_OK);
    EXPECT_EQ(heddle_close(model), HEDDLE_OK);
    std::vector<uint8_t> bytes = weights_file();
    bytes[4099] ^= 4;
    ASSERT_EQ(load_from(write_temporary("bad.weights", bytes), &model, flags), HEDDLE_OK);
    EXPECT_EQ(heddle_model_verify(model), HEDDLE_BAD_WEIGHTS);
    EXPECT_STREQ(heddle_last_error(),
                 "the weights of model 'fake' are damaged: their checksum differs; copy or compile them again");
    EXPECT_EQ(heddle_close(model), HEDDLE_OK);
  }
}

TEST(Weights, copied_weights_compute_the_same) {
  std::string path = write_temporary("copied.weights", weights_file());
  heddle_model *model = nullptr;
  heddle_session *session = nullptr;
  ASSERT_EQ(load_from(path, &model, HEDDLE_COPY_WEIGHTS), HEDDLE_OK);
  std::filesystem::remove(path);
  ASSERT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK);
  int32_t ids[] = {10};
  float y[4];
  heddle_tensor input = tensor("ids", HEDDLE_I32, ids, {1, 1}), result = tensor("y", HEDDLE_F32, y, {1, 1, 4});
  ASSERT_EQ(heddle_run(session, encode, &input, 1, &result, 1), HEDDLE_OK);
  EXPECT_EQ(y[3], 13.5f);
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
}

/// The last number of what the model computes.
float computed(heddle_model *model) {
  heddle_session *session = nullptr;
  EXPECT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK);
  int32_t ids[] = {10};
  float y[4];
  heddle_tensor input = tensor("ids", HEDDLE_I32, ids, {1, 1}), result = tensor("y", HEDDLE_F32, y, {1, 1, 4});
  EXPECT_EQ(heddle_run(session, encode, &input, 1, &result, 1), HEDDLE_OK);
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  return y[3];
}

TEST(Weights, come_from_an_image_in_memory_at_any_address) {
  std::vector<uint8_t> file = weights_file(), room(file.size() + 128);
  uint8_t *aligned = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  for (size_t shift : {0, 1}) {
    memcpy(aligned + shift, file.data(), file.size());
    for (uint32_t flags : {0u, uint32_t(HEDDLE_COPY_WEIGHTS)}) {
      heddle_model_options options = HEDDLE_INIT(heddle_model_options);
      options.image = aligned + shift;
      options.image_bytes = file.size();
      options.flags = flags;
      heddle_model *model = nullptr;
      ASSERT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_OK) << heddle_api_1.last_error();
      EXPECT_EQ(computed(model), 13.5f);
      EXPECT_EQ(heddle_model_verify(model), HEDDLE_OK);
      EXPECT_EQ(heddle_close(model), HEDDLE_OK);
      model = nullptr;
      options.image_bytes -= 1;
      EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_BAD_WEIGHTS);
      EXPECT_STREQ(heddle_api_1.last_error(), "the image of the weights is truncated: it has 4111 bytes instead of "
                                              "4112; copy or compile it again");
      options.image_bytes = 3;
      EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_BAD_WEIGHTS);
    }
  }
}

struct Stored {
  std::vector<uint8_t> bytes;
  int calls = 0, failing = -1; // which call fails
};

int32_t read_stored(void *context, uint64_t offset, void *to, size_t bytes) {
  auto *from = static_cast<Stored *>(context);
  if (from->calls++ == from->failing || offset + bytes > from->bytes.size())
    return 7;
  for (size_t i = 0; i < bytes; ++i) // as if it were encrypted
    static_cast<uint8_t *>(to)[i] = from->bytes[offset + i] ^ 0x55;
  return 0;
}

TEST(Weights, come_from_a_function_of_the_caller_s) {
  Stored stored{weights_file()};
  for (uint8_t &byte : stored.bytes)
    byte ^= 0x55;
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  options.read = read_stored;
  options.read_context = &stored;
  heddle_model *model = nullptr;
  ASSERT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_OK) << heddle_api_1.last_error();
  EXPECT_EQ(stored.calls, 2) << "header and payload";
  EXPECT_EQ(computed(model), 13.5f);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);

  model = nullptr;
  for (auto [failing, text] : {std::pair(0, "64 bytes at 0"), std::pair(1, "16 bytes at 4096")}) {
    stored.calls = 0;
    stored.failing = failing;
    EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_FILE_ERROR);
    EXPECT_EQ(heddle_api_1.last_error(),
              std::string("what `read` gives cannot be read: the function returned 7 for ") + text);
  }
  stored.failing = -1;
  stored.bytes[0] ^= 1;
  EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_BAD_WEIGHTS);
  EXPECT_STREQ(heddle_api_1.last_error(),
               "what `read` gives is not a Heddle weights file; give the one that `heddle compile` wrote");
  options.weights = "fake.weights";
  EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_api_1.last_error(), "the options name more than one of weights, image and read; give one");
  EXPECT_EQ(model, nullptr);
}

TEST(Weights, the_checksum_is_xxh64) {
  auto sum = [](const std::string &text) {
    return rt_checksum(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  };
  // From the reference implementation (xxhsum -H1).
  EXPECT_EQ(sum(""), 0xef46db3751d8e999ull);
  EXPECT_EQ(sum("a"), 0xd24ec4f1a98c6e5bull);
  EXPECT_EQ(sum("abc"), 0x44bc2cf5ad770999ull);
  EXPECT_EQ(sum("The quick brown fox jumps over the lazy dog"), 0x0b242d361fda71bcull);
}

} // namespace
