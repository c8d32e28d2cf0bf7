// Libraries as programs meet them: opened by the header-only loader from files, two in one process sharing one pool,
// damaged and foreign ones refused.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <link.h>
#include <mutex>
#include <thread>

using namespace fake;
namespace fs = std::filesystem;

namespace {

// A folder like an artifact: a library of this build and a weights file beside it.
std::string artifact(const std::string &folder, const std::string &library, const std::string &name) {
  write_temporary(folder + "/" + name + ".weights", weights_file());
  std::string path = write_temporary(folder + "/lib" + name + ".so", {});
  fs::copy_file(std::string(HEDDLE_FAKE_LIBRARIES) + "/" + library, path, fs::copy_options::overwrite_existing);
  return fs::path(path).parent_path();
}

void expect_runs(heddle_model *model, int32_t threads) {
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = threads;
  heddle_session *session = nullptr;
  ASSERT_EQ(heddle_session_create(model, &options, &session), HEDDLE_OK) << heddle_last_error();
  std::vector<float> x(100, 1), y(100);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {100}), result = tensor("y", HEDDLE_F32, y.data(), {100});
  for (int i = 0; i < 50; i++)
    ASSERT_EQ(heddle_run(session, spread, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(y[99], 100);
  EXPECT_EQ(heddle_run(session, 99, nullptr, 0, nullptr, 0), HEDDLE_INVALID_ARGUMENT);
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
}

int threads_named_heddle() {
  int count = 0;
  for (const auto &task : fs::directory_iterator("/proc/self/task")) {
    char name[32] = {};
    FILE *file = fopen((task.path() / "comm").c_str(), "r");
    if (file && fgets(name, sizeof name, file))
      count += !strcmp(name, "heddle\n");
    if (file)
      fclose(file);
  }
  return count;
}

int libraries_loaded() {
  int count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *counter) {
        *static_cast<int *>(counter) += strstr(info->dlpi_name, "libheddle_fake") != nullptr;
        return 0;
      },
      &count);
  return count;
}

TEST(Libraries, a_folder_or_a_library_is_opened_with_its_weights) {
  std::string folder = artifact("one", "libheddle_fake_a.so", "heddle_fake_a");
  for (const std::string &path : {folder, folder + "/", folder + "/libheddle_fake_a.so"}) {
    heddle_model *model = nullptr;
    ASSERT_EQ(heddle_open(path.c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
    heddle_model_info info = HEDDLE_INIT(heddle_model_info);
    ASSERT_EQ(heddle_model_describe(model, &info), HEDDLE_OK);
    EXPECT_STREQ(info.name, "a");
    expect_runs(model, 1);
    EXPECT_STREQ(heddle_last_error(), "there is no entry number 99; model 'a' has 6");
    EXPECT_EQ(heddle_close(model), HEDDLE_OK);
  }
  fs::path before = fs::current_path();
  fs::current_path(folder);
  heddle_model *model = nullptr;
  EXPECT_EQ(heddle_open("libheddle_fake_a.so", nullptr, &model), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
  fs::current_path(before);
}

TEST(Libraries, two_libraries_share_the_pool_of_the_first) {
  std::string a = artifact("a", "libheddle_fake_a.so", "heddle_fake_a");
  std::string b = artifact("b", "libheddle_fake_b.so", "heddle_fake_b");
  heddle_model *first = nullptr, *second = nullptr;
  ASSERT_EQ(heddle_open(a.c_str(), nullptr, &first), HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(heddle_open(b.c_str(), nullptr, &second), HEDDLE_OK) << heddle_last_error();
  expect_runs(second, 0);
  int alone = threads_named_heddle();
  expect_runs(first, 0);
  EXPECT_EQ(threads_named_heddle(), alone) << "b started a's workers; a found them";
  if (std::thread::hardware_concurrency() > 1)
    EXPECT_GT(alone, 0); // a's, or those of a library of an earlier test, whose searches share them
  // Closing both leaves the one whose pool runs, here or in an earlier test, and only that one.
  EXPECT_EQ(heddle_close(first), HEDDLE_OK);
  expect_runs(second, 0);
  EXPECT_EQ(heddle_close(second), HEDDLE_OK);
  EXPECT_EQ(dlopen((b + "/libheddle_fake_b.so").c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr) << "nobody needs it";
  EXPECT_EQ(libraries_loaded(), 1);
  ASSERT_EQ(heddle_open(b.c_str(), nullptr, &second), HEDDLE_OK) << heddle_last_error();
  expect_runs(second, 0);
  EXPECT_EQ(threads_named_heddle(), alone);
  EXPECT_EQ(heddle_close(second), HEDDLE_OK);
}

TEST(Libraries, both_run_at_once_from_many_threads) {
  std::string a = artifact("a", "libheddle_fake_a.so", "heddle_fake_a");
  std::string b = artifact("b", "libheddle_fake_b.so", "heddle_fake_b");
  std::vector<std::thread> callers;
  for (int t = 0; t < 6; t++)
    callers.emplace_back([&, t] {
      for (int round = 0; round < 5; round++) {
        heddle_model *model = nullptr;
        ASSERT_EQ(heddle_open((t % 2 ? a : b).c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
        expect_runs(model, t % 3);
        EXPECT_STREQ(heddle_last_error(), t % 2 ? "there is no entry number 99; model 'a' has 6"
                                                : "there is no entry number 99; model 'b' has 6");
        EXPECT_EQ(heddle_close(model), HEDDLE_OK);
      }
    });
  for (std::thread &caller : callers)
    caller.join();
}

TEST(Libraries, one_that_replaced_another_is_loaded_beside_it) {
  std::string folder = artifact("replaced", "libheddle_fake_a.so", "x"), path = folder + "/libx.so";
  auto open = [&](const char *name) {
    heddle_model *model = nullptr;
    heddle_model_info info = HEDDLE_INIT(heddle_model_info);
    EXPECT_EQ(heddle_open(folder.c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
    EXPECT_EQ(heddle_model_describe(model, &info), HEDDLE_OK);
    EXPECT_STREQ(info.name, name);
    return model;
  };
  std::vector<heddle_model *> models = {open("a")};
  for (const char *name : {"b", "a", "b"}) { // as `heddle compile` writes: under another name, then renamed
    fs::copy_file(std::string(HEDDLE_FAKE_LIBRARIES) + "/libheddle_fake_" + name + ".so", path + ".part");
    fs::rename(path + ".part", path);
    models.push_back(open(name));
    for (heddle_model *model : models)
      expect_runs(model, 2);
  }
  heddle_model *same = open("b");
  EXPECT_EQ(reinterpret_cast<heddle_head *>(same)->library, reinterpret_cast<heddle_head *>(models.back())->library);
  models.push_back(same);
  for (heddle_model *model : models)
    EXPECT_EQ(heddle_close(model), HEDDLE_OK);
}

TEST(Libraries, a_library_keeps_to_itself_when_anothers_symbols_are_global) {
  std::string a = artifact("a", "libheddle_fake_a.so", "heddle_fake_a");
  std::string b = artifact("b", "libheddle_fake_b.so", "heddle_fake_b");
  void *global = dlopen((a + "/libheddle_fake_a.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(global, nullptr) << dlerror();
  heddle_model *model = nullptr;
  ASSERT_EQ(heddle_open(b.c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
  const auto *head = reinterpret_cast<const heddle_head *>(model);
  EXPECT_NE(head->api, dlsym(global, "heddle_api_1"));
  EXPECT_EQ(head->api->model_free, static_cast<const heddle_api *>(dlsym(head->library, "heddle_api_1"))->model_free);
  expect_runs(model, 0);
  EXPECT_STREQ(heddle_last_error(), "there is no entry number 99; model 'b' has 6");
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
  dlclose(global);
}

TEST(Libraries, a_library_for_another_machine_names_what_is_missing) {
  std::string folder = artifact("future", "libheddle_fake_future.so", "heddle_fake_future");
  heddle_model *model = nullptr;
  EXPECT_EQ(heddle_open(folder.c_str(), nullptr, &model), HEDDLE_UNSUPPORTED_CPU);
  EXPECT_STREQ(
      heddle_last_error(),
      "model 'future' was compiled for x86-64-v3 and needs features that this version does not know "
      "(0x40000000), which this machine lacks; compile it with --target native on this machine, or for a lower "
      "target such as x86-64-v3");
  EXPECT_EQ(model, nullptr);
}

TEST(Libraries, of_several_targets_the_first_that_the_machine_can_run_is_taken_or_the_one_that_is_named) {
  std::string folder = artifact("several", "libheddle_fake_several.so", "heddle_fake_several");
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  auto taken = [&](const char *wanted) -> std::string {
    options.target = wanted;
    heddle_model *model = nullptr;
    if (heddle_status status = heddle_open(folder.c_str(), &options, &model); status != HEDDLE_OK)
      return std::string(heddle_status_name(status)) + ": " + heddle_last_error();
    heddle_model_info info = HEDDLE_INIT(heddle_model_info);
    EXPECT_EQ(heddle_model_describe(model, &info), HEDDLE_OK);
    std::string target = info.target;
    EXPECT_EQ(heddle_close(model), HEDDLE_OK);
    return target;
  };
  EXPECT_EQ(taken(nullptr), "here");
  EXPECT_EQ(taken("beneath"), "beneath");
  EXPECT_TRUE(taken("above").starts_with("HEDDLE_UNSUPPORTED_CPU: model 'several' was compiled for above and needs "));
  EXPECT_EQ(taken("amiga"), "HEDDLE_NOT_FOUND: model 'several' was not compiled for target 'amiga'; it has: "
                            "x86-64-v3, above, here, beneath");
}

TEST(Libraries, a_descriptor_of_another_version_is_refused) {
  std::string folder = artifact("old", "libheddle_fake_old.so", "heddle_fake_old");
  heddle_model *model = nullptr;
  EXPECT_EQ(heddle_open(folder.c_str(), nullptr, &model), HEDDLE_BAD_LIBRARY);
  EXPECT_EQ(std::string(heddle_last_error()),
            "model 'old' has version 99 of the internal interface, its runtime version " +
                std::to_string(HEDDLE_ABI_VERSION));
}

TEST(Libraries, what_is_no_library_of_ours_is_refused) {
  heddle_model *model = nullptr;
  auto expect = [&](const std::string &path, heddle_status status, const std::string &message) {
    EXPECT_EQ(heddle_open(path.c_str(), nullptr, &model), status);
    EXPECT_EQ(std::string(heddle_last_error()), message);
  };
  expect("/nonexistent", HEDDLE_FILE_ERROR,
         "/nonexistent: cannot be loaded: /nonexistent: cannot open shared object file: No such file or directory");
  std::string text = write_temporary("text/libtext.so", {'h', 'i'});
  expect(text, HEDDLE_FILE_ERROR, text + ": cannot be loaded: " + text + ": file too short");
  std::string cut = artifact("cut", "libheddle_fake_a.so", "heddle_fake_a") + "/libheddle_fake_a.so";
  for (uintmax_t bytes = fs::file_size(cut); bytes > 64; bytes = bytes > 4000 ? bytes - 3999 : bytes / 2) {
    fs::resize_file(cut, bytes - 1); // the loader would map it, and fault
    expect(cut, HEDDLE_FILE_ERROR, cut + ": is truncated; copy or compile it again");
  }
  std::string empty = fs::path(write_temporary("empty/readme", {})).parent_path();
  expect(empty, HEDDLE_FILE_ERROR, empty + ": holds no lib*.so; give a folder that `heddle compile` wrote");
  std::string two = artifact("two", "libheddle_fake_a.so", "x");
  artifact("two", "libheddle_fake_b.so", "y");
  expect(two, HEDDLE_FILE_ERROR, two + ": holds several lib*.so; name the one to open");
  Dl_info info;
  ASSERT_TRUE(dladdr(reinterpret_cast<void *>(&std::terminate), &info));
  expect(info.dli_fname, HEDDLE_BAD_LIBRARY, std::string(info.dli_fname) + ": is not a library made by Heddle");
  expect(std::string(5000, 'x'), HEDDLE_FILE_ERROR, std::string(200, 'x') + "…: the path is too long");
  EXPECT_EQ(heddle_open(nullptr, nullptr, &model), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "heddle_open: path is NULL");
  std::string lonely = artifact("lonely", "libheddle_fake_a.so", "heddle_fake_a");
  fs::remove(lonely + "/heddle_fake_a.weights");
  expect(lonely, HEDDLE_FILE_ERROR, lonely + "/heddle_fake_a.weights cannot be opened: No such file or directory");
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  std::string weights = write_temporary("elsewhere", weights_file());
  options.weights = weights.c_str();
  EXPECT_EQ(heddle_open(lonely.c_str(), &options, &model), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(heddle_close(model), HEDDLE_OK);
}

extern "C" int header_in_c(const char *folder); // layout/header.c

TEST(Libraries, a_c_program_calls_every_function) {
  EXPECT_EQ(header_in_c(artifact("c", "libheddle_fake_a.so", "heddle_fake_a").c_str()), 26) << heddle_last_error();
}

struct Loaded {
  const char *name;
  bool found = false, has_thread_locals = false;
};

// A thread allocates a plugin's thread-local variables at their first use, and glibc ends the process when it can't.
TEST(Libraries, a_plugin_has_messages_per_thread_and_no_thread_local_variable) {
  const std::string path = std::string(HEDDLE_FAKE_LIBRARIES) + "/libheddle_fake_plugin.so";
  void *plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(plugin) << dlerror();
  Loaded loaded{"libheddle_fake_plugin.so"};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto *loaded = static_cast<Loaded *>(data);
        if (std::string(info->dlpi_name).ends_with(loaded->name)) {
          loaded->found = true;
          for (int i = 0; i < info->dlpi_phnum; i++)
            loaded->has_thread_locals |= info->dlpi_phdr[i].p_type == PT_TLS;
        }
        return 0;
      },
      &loaded);
  EXPECT_TRUE(loaded.found);
  EXPECT_FALSE(loaded.has_thread_locals);

  auto fails = reinterpret_cast<int32_t (*)(const char *)>(dlsym(plugin, "plugin_fails"));
  auto message = reinterpret_cast<const char *(*)()>(dlsym(plugin, "plugin_message"));
  EXPECT_NE(fails("/nowhere/first"), HEDDLE_OK);
  std::vector<std::thread> threads;
  std::mutex all;
  std::condition_variable changed;
  constexpr int count = 200; // at once
  int arrived = 0;
  for (int i = 0; i < count; i++)
    threads.emplace_back([&, i] {
      const std::string own = "/nowhere/" + std::to_string(i) + ".so";
      EXPECT_NE(fails(own.c_str()), HEDDLE_OK);
      std::unique_lock lock(all);
      arrived++;
      changed.notify_all();
      changed.wait(lock, [&] { return arrived == count; });
      EXPECT_NE(std::string(message()).find(own), std::string::npos) << message();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_NE(std::string(message()).find("/nowhere/first"), std::string::npos) << message();
  for (int i = 0; i < 1000; i++) // more than there is room for
    std::thread([&] {
      EXPECT_NE(fails("/nowhere/later"), HEDDLE_OK);
      EXPECT_NE(*message(), 0);
    }).join();
  dlclose(plugin);
}

TEST(Libraries, statuses_have_names) {
  EXPECT_STREQ(heddle_status_name(HEDDLE_OK), "HEDDLE_OK");
  EXPECT_STREQ(heddle_status_name(HEDDLE_BAD_LIBRARY), "HEDDLE_BAD_LIBRARY");
  EXPECT_STREQ(heddle_status_name(99), "unknown status");
}

} // namespace
