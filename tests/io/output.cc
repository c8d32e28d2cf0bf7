// Output is whole or absent.
#include "compiler/io/output.h"

#include "tests/io/files.h"

#include <sys/stat.h>

namespace heddle {
namespace {

using Output = Files;

TEST_F(Output, a_file_appears_when_it_is_committed) {
  Result<OutputFile> file = OutputFile::create(path("a.txt"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("hello"));
  ASSERT_TRUE(file->pad(8));
  EXPECT_EQ(file->size(), 8u);
  EXPECT_FALSE(std::filesystem::exists(path("a.txt")));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(names(), std::vector<std::string>{"a.txt"});
  EXPECT_EQ(read("a.txt"), std::string("hello\0\0\0", 8));
}

TEST_F(Output, what_is_not_committed_leaves_the_old_file_and_nothing_else) {
  write("a.txt", "old");
  {
    Result<OutputFile> file = OutputFile::create(path("a.txt"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("new"));
  }
  EXPECT_EQ(names(), std::vector<std::string>{"a.txt"});
  EXPECT_EQ(read("a.txt"), "old");
}

TEST_F(Output, a_file_has_the_mode_of_any_new_file) {
  ASSERT_TRUE(write_file(path("a.txt"), "x"));
  std::ofstream(path("b.txt")) << "x";
  struct stat a, b;
  ASSERT_EQ(stat(path("a.txt").c_str(), &a), 0);
  ASSERT_EQ(stat(path("b.txt").c_str(), &b), 0);
  EXPECT_EQ(a.st_mode, b.st_mode);
}

TEST_F(Output, a_place_that_cannot_be_written_says_so) {
  EXPECT_EQ(message(write_file(path("none/a.txt"), "x")), "none/a.txt: cannot write: No such file or directory");
  write("d/a.txt", "");
  EXPECT_EQ(message(write_file(path("d"), "x")), "d: is a folder; name a file to write");
  EXPECT_EQ(message(OutputFolder::create(path("d/a.txt"))), "d/a.txt: is a file; name a folder to write into");
}

TEST_F(Output, a_folder_appears_when_it_is_committed) {
  Result<OutputFolder> folder = OutputFolder::create(path("deep/out/"));
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_file(folder->file("a.txt"), "x"));
  EXPECT_FALSE(std::filesystem::exists(path("deep/out")));
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(names(), (std::vector<std::string>{"deep", "deep/out", "deep/out/a.txt"}));
}

TEST_F(Output, an_existing_folder_keeps_its_other_files) {
  write("out/a.txt", "old");
  write("out/b.txt", "other");
  Result<OutputFolder> folder = OutputFolder::create(path("out"));
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_file(folder->file("a.txt"), "new"));
  EXPECT_EQ(read("out/a.txt"), "old");
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/a.txt", "out/b.txt"}));
  EXPECT_EQ(read("out/a.txt"), "new");
  EXPECT_EQ(read("out/b.txt"), "other");
}

TEST_F(Output, a_folder_that_is_not_committed_leaves_nothing) {
  {
    Result<OutputFolder> folder = OutputFolder::create(path("out"));
    ASSERT_TRUE(folder);
    ASSERT_TRUE(write_file(folder->file("a.txt"), "x"));
  }
  EXPECT_TRUE(names().empty());
}

} // namespace
} // namespace heddle
