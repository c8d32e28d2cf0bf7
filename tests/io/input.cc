// Only regular files are read, and nothing waits.
#include "compiler/io/input.h"

#include "compiler/io/config.h"
#include "compiler/io/manifest.h"
#include "compiler/io/npy.h"
#include "compiler/io/token_ids.h"
#include "tests/io/files.h"

#include <sys/stat.h>

namespace heddle {
namespace {

using Input = Files;

TEST_F(Input, a_file_is_read_whole) {
  std::string text = "a\0b\n";
  EXPECT_EQ(*read_file(write("a", text)), text);
  EXPECT_EQ(*read_file(write("empty", "")), "");
  std::string large(100000, 'x');
  EXPECT_EQ(*read_file(write("large", large)), large);
  EXPECT_NE(read_file("/proc/self/status")->find("Name:"), std::string::npos); // its size is told as 0
}

TEST_F(Input, what_is_no_regular_file_is_named_and_not_waited_for) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(message(read_file(path("pipe"))), "pipe: is a FIFO, not a regular file");
  EXPECT_EQ(message(MappedFile::open(path("pipe"))), "pipe: is a FIFO, not a regular file");
  EXPECT_EQ(message(read_file("/dev/zero")), "/dev/zero: is a device, not a regular file");
  write("d/a", "");
  EXPECT_EQ(message(read_file(path("d"))), "d: is a folder, not a regular file");
  EXPECT_EQ(message(read_file(path("absent"))), "absent: cannot read: No such file or directory");
}

TEST_F(Input, every_reader_refuses_a_fifo) {
  for (const char *name : {"x.npy", "x.json", "config.json", "generation_config.json"})
    ASSERT_EQ(mkfifo(path(name).c_str(), 0600), 0);
  EXPECT_EQ(message(read_npy(path("x.npy"))), "x.npy: is a FIFO, not a regular file");
  EXPECT_EQ(message(read_config(path("x.json"))), "x.json: is a FIFO, not a regular file");
  EXPECT_EQ(message(read_manifest(path("x.json"))), "x.json: is a FIFO, not a regular file");
  EXPECT_EQ(message(read_token_ids(folder_.string())), "generation_config.json: is a FIFO, not a regular file");
}

TEST_F(Input, a_file_too_large_for_a_text_is_refused_before_it_is_read) {
  write("large", "");
  std::filesystem::resize_file(path("large"), uint64_t(1) << 33); // of holes
  EXPECT_EQ(message(read_file(path("large"))), "large: is too large; at most 256 MB are read");
}

} // namespace
} // namespace heddle
