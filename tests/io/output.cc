// Output is whole or absent.
#include "compiler/io/output.h"
#include "compiler/io/input.h"

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
  ASSERT_TRUE(folder->write("a.txt", "x"));
  EXPECT_FALSE(std::filesystem::exists(path("deep/out")));
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(names(), (std::vector<std::string>{"deep", "deep/out", "deep/out/a.txt"}));
}

TEST_F(Output, an_existing_folder_keeps_its_other_files) {
  write("out/a.txt", "old");
  write("out/b.txt", "other");
  Result<OutputFolder> folder = OutputFolder::create(path("out"));
  ASSERT_TRUE(folder);
  ASSERT_TRUE(folder->write("a.txt", "new"));
  EXPECT_EQ(read("out/a.txt"), "old");
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/a.txt", "out/b.txt"}));
  EXPECT_EQ(read("out/a.txt"), "new");
  EXPECT_EQ(read("out/b.txt"), "other");
}

TEST_F(Output, a_replaced_file_keeps_its_mode_and_a_link_to_it_stays_a_link) {
  write("a.txt", "old");
  chmod(path("a.txt").c_str(), 0600);
  std::filesystem::create_symlink("a.txt", path("link"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  struct stat a;
  ASSERT_EQ(stat(path("a.txt").c_str(), &a), 0);
  EXPECT_EQ(a.st_mode & 07777, 0600u);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read("a.txt"), "new");
  EXPECT_EQ(names(), (std::vector<std::string>{"a.txt", "link"}));
}

TEST_F(Output, what_was_read_is_replaced_only_where_it_is_said) {
  write("a.txt", "old");
  std::filesystem::create_symlink("a.txt", path("link"));
  {
    FilesStay files;
    ASSERT_TRUE(read_file(path("a.txt")));
    for (const char *name : {"a.txt", "link"})
      EXPECT_EQ(message(write_file(path(name), "new")),
                std::string(name) +
                    ": is an input of this command, which its output would replace; name another file to write");
    EXPECT_EQ(read("a.txt"), "old");
    EXPECT_TRUE(rewrite_file(path("a.txt"), "new"));
    EXPECT_EQ(read("a.txt"), "new");
    ASSERT_TRUE(read_file(path("a.txt")));
    ASSERT_TRUE(write_file(path("b.txt"), "first"));
    EXPECT_EQ(message(write_file(path("b.txt"), "second")),
              "b.txt: is another output of this command, which this one would replace; name another file to write");
  }
  EXPECT_TRUE(write_file(path("a.txt"), "newer"));
  EXPECT_EQ(read("a.txt"), "newer");
}

TEST_F(Output, a_folder_in_which_an_input_would_be_replaced_is_left_as_it_is) {
  FilesStay files;
  std::filesystem::create_directory(path("out"));
  write("out/b.txt", "old");
  ASSERT_TRUE(read_file(path("out/b.txt")));
  Result<OutputFolder> folder = OutputFolder::create(path("out"));
  ASSERT_TRUE(folder);
  for (const char *name : {"a.txt", "b.txt"})
    ASSERT_TRUE(folder->write(name, "new"));
  EXPECT_EQ(
      message(folder->commit()),
      "out/b.txt: is an input of this command, which its output would replace; name another folder to write into");
  EXPECT_EQ(read("out/b.txt"), "old");
  EXPECT_FALSE(std::filesystem::exists(path("out/a.txt")));
}

TEST_F(Output, devices_and_fifos_are_refused_and_stay_what_they_are) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(message(write_file(path("pipe"), "x")), "pipe: is not a regular file; name a file to write");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  EXPECT_EQ(message(write_file("/dev/null", "x")), "/dev/null: is not a regular file; name a file to write");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Output, a_folder_in_which_one_file_cannot_be_replaced_keeps_all_its_old_ones) {
  for (const char *name : {"out/a.txt", "out/b.txt", "out/d.txt"})
    write(name, std::string("old ") + name);
  std::filesystem::create_directory(path("out/c.txt"));
  Result<OutputFolder> folder = OutputFolder::create(path("out"));
  ASSERT_TRUE(folder);
  for (const char *name : {"a.txt", "b.txt", "c.txt", "d.txt", "e.txt"})
    ASSERT_TRUE(folder->write(name, "new"));
  EXPECT_EQ(message(folder->commit()), "out/c.txt: cannot write: Is a directory");
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/a.txt", "out/b.txt", "out/c.txt", "out/d.txt"}));
  for (const char *name : {"out/a.txt", "out/b.txt", "out/d.txt"})
    EXPECT_EQ(read(name), std::string("old ") + name);
}

TEST_F(Output, two_that_make_the_same_new_folder_both_succeed_and_the_last_one_stays) {
  Result<OutputFolder> first = OutputFolder::create(path("out")), second = OutputFolder::create(path("out"));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(first->write("a.txt", "1") && first->write("b.txt", "1"));
  ASSERT_TRUE(second->write("a.txt", "2") && second->write("b.txt", "2"));
  ASSERT_TRUE(first->commit());
  ASSERT_TRUE(second->commit());
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/a.txt", "out/b.txt"}));
  EXPECT_EQ(read("out/a.txt") + read("out/b.txt"), "22");
}

TEST_F(Output, a_folder_that_vanishes_meanwhile_is_an_error) {
  write("deep/out/a.txt", "old");
  Result<OutputFolder> folder = OutputFolder::create(path("deep/out"));
  ASSERT_TRUE(folder);
  ASSERT_TRUE(folder->write("a.txt", "new"));
  std::filesystem::remove_all(path("deep"));
  EXPECT_EQ(message(folder->write("b.txt", "new")), "deep/out/b.txt: cannot write: No such file or directory");
  EXPECT_EQ(message(folder->map("c", 5000)), "deep/out/c: cannot write: No such file or directory");
  EXPECT_EQ(message(folder->commit()), "deep/out: cannot write: No such file or directory");
  EXPECT_TRUE(names().empty());
}

TEST_F(Output, a_mapped_file_has_its_bytes_and_one_that_is_too_large_is_refused) {
  Result<OutputFolder> folder = OutputFolder::create(path("out"));
  ASSERT_TRUE(folder);
  {
    Result<MappedOutput> file = folder->map("a", 5000);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->bytes().size(), 5000u);
    file->bytes()[4999] = std::byte('x');
  }
  EXPECT_EQ(message(folder->map("b", size_t(1) << 62)), "out/b: cannot write: File too large");
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(read("out/a"), std::string(4999, '\0') + "x");
}

TEST_F(Output, what_is_unfinished_is_removed_when_the_process_ends_by_exit) {
  EXPECT_EXIT(
      {
        std::atexit(remove_unfinished);
        Result<OutputFile> file = OutputFile::create(path("a.txt"));
        Result<OutputFolder> folder = OutputFolder::create(path("out"));
        Result<MappedOutput> mapped = folder->map("deep", 100);
        std::exit(names().size() == 3 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(names().empty());
}

TEST_F(Output, a_folder_that_is_not_committed_leaves_nothing) {
  {
    Result<OutputFolder> folder = OutputFolder::create(path("out"));
    ASSERT_TRUE(folder);
    ASSERT_TRUE(folder->write("a.txt", "x"));
  }
  EXPECT_TRUE(names().empty());
}

} // namespace
} // namespace heddle
