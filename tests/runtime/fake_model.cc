// What the tests need around the hand-written model: its weights file, and a loaded model with a session.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

extern "C" uint64_t rt_checksum(const uint8_t *data, uint64_t bytes);

namespace fake {

std::vector<uint8_t> weights_file() {
  const float bias[] = {0.5f, 1.5f, 2.5f, 3.5f};
  static_assert(sizeof bias == weights_bytes);
  heddle_weights_header header = {};
  memcpy(header.magic, HEDDLE_WEIGHTS_MAGIC, sizeof header.magic);
  header.version = 1;
  header.header_bytes = sizeof header;
  header.payload_offset = 4096;
  header.payload_bytes = weights_bytes;
  memcpy(header.id, weights_id, sizeof header.id);
  header.checksum = rt_checksum(reinterpret_cast<const uint8_t *>(bias), sizeof bias);
  std::vector<uint8_t> bytes(4096 + sizeof bias);
  memcpy(bytes.data(), &header, sizeof header);
  memcpy(bytes.data() + 4096, bias, sizeof bias);
  return bytes;
}

namespace {
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("heddle_test_runtime_" + std::to_string(getpid()));
  pid_t owner = getpid();
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    if (owner == getpid())
      std::filesystem::remove_all(path);
  }
};
} // namespace

std::string write_temporary(const std::string &name, const std::vector<uint8_t> &bytes) {
  static Folder folder;
  std::string path = folder.path / name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

heddle_model *load() {
  std::string path = write_temporary("fake.weights", weights_file());
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  options.weights = path.c_str();
  heddle_model *model = nullptr;
  EXPECT_EQ(heddle_api_1.model_load(&options, &model), HEDDLE_OK) << heddle_api_1.last_error();
  return model;
}

heddle_model *load_library(const char *name) {
  std::string path = std::string(HEDDLE_FAKE_LIBRARIES) + "/libheddle_fake_" + name + ".so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  auto *api = static_cast<const heddle_api *>(dlsym(library, "heddle_api_1"));
  heddle_model *model = nullptr;
  EXPECT_EQ(api->model_load(nullptr, &model), HEDDLE_OK) << api->last_error();
  reinterpret_cast<heddle_head *>(model)->library = library; // as heddle_open does
  return model;
}

int64_t allocations(heddle_session *session) {
  heddle_memory_info info = HEDDLE_INIT(heddle_memory_info);
  EXPECT_EQ(heddle_session_memory(session, &info), HEDDLE_OK);
  return info.allocations;
}

Fixture::Fixture(int32_t threads, const heddle_threads *custom, int64_t memory_limit) : model(load()) {
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = threads;
  options.custom = custom;
  options.memory_limit = memory_limit;
  EXPECT_EQ(heddle_session_create(model, &options, &session), HEDDLE_OK) << heddle_last_error();
  seen = Seen();
  run_custom = nullptr;
  custom_arena = custom_nothing = custom_once = nullptr;
}

Fixture::~Fixture() {
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK) << heddle_last_error();
}

} // namespace fake
