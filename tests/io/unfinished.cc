// What a killed process leaves among the temporary files, and who takes it away.
#include "compiler/io/unfinished.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace heddle::test {

namespace fs = std::filesystem;

namespace {

/// A process that makes a temporary folder with something in it and then waits for its end.
struct Holder {
  explicit Holder(const std::string &base) {
    int told[2];
    EXPECT_EQ(pipe(told), 0);
    process = fork();
    if (process == 0) {
      setenv("TMPDIR", base.c_str(), 1);
      auto folder = temporary_folder();
      if (!folder)
        _exit(1);
      fs::create_directory(folder->path() + "/deep");
      std::ofstream(folder->path() + "/deep/weights") << "large";
      if (write(told[1], folder->path().c_str(), folder->path().size()) < 0)
        _exit(1);
      for (;;)
        pause();
    }
    close(told[1]);
    char text[4096];
    ssize_t count = read(told[0], text, sizeof text);
    path.assign(text, size_t(std::max<ssize_t>(count, 0)));
    close(told[0]);
  }
  ~Holder() { end(); }
  void end() {
    if (process > 0) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    process = -1;
  }
  pid_t process;
  std::string path;
};

} // namespace

TEST(TemporaryFolder, OfAKilledProcessIsRemovedByTheNextAndThatOfALivingOneIsNot) {
  std::string base = fs::temp_directory_path() / "heddle-test-XXXXXX";
  ASSERT_TRUE(mkdtemp(base.data()));
  std::ofstream(base + "/heddle-scratch-notes") << "a file of somebody's";
  {
    Holder killed(base), living(base);
    ASSERT_TRUE(fs::exists(killed.path + "/deep/weights"));
    ASSERT_TRUE(fs::exists(living.path + "/deep/weights"));
    killed.end();
    ASSERT_TRUE(fs::exists(killed.path)) << "nothing runs after kill -9";
    Holder next(base);
    EXPECT_FALSE(fs::exists(killed.path));
    EXPECT_TRUE(fs::exists(living.path + "/deep/weights"));
    EXPECT_TRUE(fs::exists(next.path + "/deep/weights"));
  }
  EXPECT_TRUE(fs::exists(base + "/heddle-scratch-notes"));
  fs::remove_all(base);
}

// Many processes at once make folders and look for those of others.
TEST(TemporaryFolder, IsNotTakenFromAProcessThatHasJustMadeIt) {
  std::string base = fs::temp_directory_path() / "heddle-test-XXXXXX";
  ASSERT_TRUE(mkdtemp(base.data()));
  std::vector<pid_t> children;
  for (int child = 0; child < 40; ++child) {
    pid_t process = fork();
    if (process == 0) {
      setenv("TMPDIR", base.c_str(), 1);
      auto folder = temporary_folder();
      usleep(2000);
      bool good = folder && fs::is_directory(folder->path());
      folder->remove();
      _exit(good ? 0 : 1);
    }
    children.push_back(process);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(fs::is_empty(base));
  fs::remove_all(base);
}

} // namespace heddle::test
