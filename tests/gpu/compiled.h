// Kernels that other compilers make while the tests run, in a folder of their own.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace gpu_test {

inline std::string source(const char *name) { return std::string(HEDDLE_SOURCE_DIR "/tests/gpu/kernels/") + name; }

inline std::string read_file(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(bool(file)) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs a compiler; its messages stand in the test's output.
inline bool compiles(const std::string &command) {
  int status = system(command.c_str());
  EXPECT_EQ(status, 0) << command;
  return status == 0;
}

} // namespace gpu_test
