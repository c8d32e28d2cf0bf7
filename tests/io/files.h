// What the tests of files share: a folder of their own, small files in it, and their bytes.
#pragma once

#include "compiler/io/host_tensor.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>

namespace heddle {

class Files : public testing::Test {
protected:
  void SetUp() override {
    const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("heddle_" + std::string(test->test_suite_name()) + "_" + test->name() + "_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string &name) const { return (folder_ / name).string(); }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return path(name);
  }
  std::string read(const std::string &name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder_))
      out.push_back(entry.path().lexically_relative(folder_).string());
    std::sort(out.begin(), out.end());
    return out;
  }
  /// A message without the folder's name.
  template <class T> std::string message(const Result<T> &result) const {
    if (result)
      return "no error";
    std::string out = result.error().message;
    for (size_t at; (at = out.find(folder_.string() + "/")) != std::string::npos;)
      out.erase(at, folder_.string().size() + 1);
    return out;
  }

  std::filesystem::path folder_;
};

template <class T> HostTensor tensor_of(DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  HostTensor out{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty())
    std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

} // namespace heddle
