// Files of sessions where the system refuses something: locks, room, or a file that is another one.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
bool without_locks = false; // as a file system that has none
}
// Libraries that the tests load find this one before libc's.
extern "C" int flock(int file, int operation) noexcept {
  if (!without_locks)
    return int(syscall(SYS_flock, file, operation));
  errno = ENOLCK;
  return -1;
}

namespace {

namespace fs = std::filesystem;

struct SessionFiles : testing::Test {
  heddle_model *model = fake::load_library("stateful");
  heddle_session *session = nullptr;
  fs::path folder = fs::temp_directory_path() / ("heddle_session_files_" + std::to_string(getpid()));
  std::string path = folder / "session";

  SessionFiles() {
    fs::create_directory(folder);
    EXPECT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK) << heddle_last_error();
    std::vector<float> x = {1, 2, 3, 4, 5, 6};
    int32_t fail = 0;
    heddle_tensor inputs[] = {fake::tensor("x", HEDDLE_F32, x.data(), {2, 3}),
                              fake::tensor("fail", HEDDLE_I32, &fail, {})};
    EXPECT_EQ(heddle_run(session, 0, inputs, 2, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  }
  ~SessionFiles() override {
    EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
    EXPECT_EQ(heddle_close(model), HEDDLE_OK);
    fs::remove_all(folder);
  }
};

TEST_F(SessionFiles, without_locks_nothing_is_written_and_the_reason_said) {
  without_locks = true;
  EXPECT_EQ(heddle_session_save_file(session, path.c_str()), HEDDLE_FILE_ERROR);
  without_locks = false;
  EXPECT_EQ(heddle_last_error(), path + " cannot be written: No locks available");
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(heddle_session_save_file(session, path.c_str()), HEDDLE_OK) << heddle_last_error();
}

TEST_F(SessionFiles, the_limit_of_a_file_s_size_does_not_end_the_program) {
  rlimit before, small;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = {100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  heddle_status status = heddle_session_save_file(session, path.c_str());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status, HEDDLE_FILE_ERROR);
  EXPECT_EQ(heddle_last_error(), path + " cannot be written: File too large");
  EXPECT_TRUE(fs::is_empty(folder));
  sigset_t pending, blocked;
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&pending, SIGXFSZ));
  EXPECT_FALSE(sigismember(&blocked, SIGXFSZ));
}

TEST_F(SessionFiles, a_link_stays_and_a_file_keeps_its_mode) {
  std::ofstream(path) << "old";
  fs::permissions(path, fs::perms(0600));
  fs::create_symlink("session", folder / "link");
  EXPECT_EQ(heddle_session_save_file(session, (folder / "link").c_str()), HEDDLE_OK) << heddle_last_error();
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600));
  EXPECT_EQ(heddle_session_restore_file(session, path.c_str()), HEDDLE_OK) << heddle_last_error();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

TEST_F(SessionFiles, another_file_is_refused_before_it_is_read) {
  std::ofstream(path) << "not one of ours";
  fs::resize_file(path, uintmax_t(1) << 40); // sparse, and more than there is memory
  EXPECT_EQ(heddle_session_restore_file(session, path.c_str()), HEDDLE_INVALID_ARGUMENT);
  EXPECT_EQ(heddle_last_error(), path + " does not hold a saved session; give one that heddle_session_save_file wrote");
}

TEST_F(SessionFiles, what_is_restored_counts_to_the_limit_of_memory) {
  ASSERT_EQ(heddle_session_save_file(session, path.c_str()), HEDDLE_OK) << heddle_last_error();
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.memory_limit = 1;
  heddle_session *other = nullptr;
  ASSERT_EQ(heddle_session_create(model, &options, &other), HEDDLE_OK);
  EXPECT_EQ(heddle_session_restore_file(other, path.c_str()), HEDDLE_OUT_OF_MEMORY);
  EXPECT_NE(std::string(heddle_last_error()).find("more than the limit of 1; raise memory_limit"), std::string::npos)
      << heddle_last_error();
  heddle_memory_info info = HEDDLE_INIT(heddle_memory_info);
  ASSERT_EQ(heddle_session_memory(other, &info), HEDDLE_OK);
  EXPECT_EQ(info.state_bytes, 0);
  EXPECT_EQ(heddle_session_free(other), HEDDLE_OK);
}

} // namespace
