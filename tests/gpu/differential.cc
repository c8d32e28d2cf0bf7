// C functions, compiled by clang for x86 and for NVPTX at several levels, give equal bits on both: the emulator
// against the processor that it runs on.
#include "tests/gpu/compiled.h"
#include "tests/gpu/device.h"

#include <dlfcn.h>

#include <random>

namespace gpu_test {
namespace {

class Differential : public Gpu, public testing::WithParamInterface<const char *> {};

TEST_P(Differential, functions_give_the_bits_of_x86) {
  std::string level = GetParam(), base = testing::TempDir() + "differential" + level;
  std::string common =
      std::string(HEDDLE_CLANG) + " " + level + " -ffp-contract=off -nostdlib " + source("differential.c");
  ASSERT_TRUE(compiles(common +
                       " --target=nvptx64-nvidia-cuda -march=sm_80 -Xclang -target-feature -Xclang +ptx80 -S -o " +
                       base + ".ptx"));
  ASSERT_TRUE(compiles(common + " -shared -fPIC -o " + base + ".so"));
  void *library = dlopen((base + ".so").c_str(), RTLD_NOW);
  ASSERT_TRUE(library) << dlerror();
  struct Row {
    const char *name;
    uint64_t (*function)(uint64_t, uint64_t, uint64_t);
  };
  auto *rows = static_cast<const Row *>(dlsym(library, "differential_functions"));
  ASSERT_TRUE(rows);

  constexpr unsigned count = 4096;
  std::mt19937_64 random(7);
  std::vector<uint64_t> values[3];
  for (auto &v : values)
    for (unsigned i = 0; i < count; i++)
      v.push_back(i % 16 == 0 ? random() % 4 - 2 : i % 3 ? random() : random() >> random() % 64);
  Buffer<uint64_t> a(values[0]), b(values[1]), c(values[2]);
  Program program(read_file(base + ".ptx"));
  int functions = 0;
  for (const Row *row = rows; row->name; row++, functions++) {
    Buffer<uint64_t> out(count);
    CUfunction f = program.kernel((std::string(row->name) + "_kernel").c_str());
    ASSERT_EQ(launch_blocks(f, {count / 128, 1, 1}, {128, 1, 1}, 0, a.address, b.address, c.address, out.address), 0)
        << row->name << ": " << heddle_emulator_message();
    std::vector<uint64_t> got = out.read();
    for (unsigned i = 0; i < count; i++)
      if (uint64_t expected = row->function(values[0][i], values[1][i], values[2][i]); got[i] != expected) {
        ADD_FAILURE() << row->name << " of " << std::hex << values[0][i] << ", " << values[1][i] << ", " << values[2][i]
                      << ": " << got[i] << ", on x86 " << expected;
        break;
      }
  }
  EXPECT_GT(functions, 50);
  dlclose(library);
}

INSTANTIATE_TEST_SUITE_P(Levels, Differential, testing::Values("-O1", "-O2", "-O3"),
                         [](const auto &info) { return std::string(info.param).substr(1); });

} // namespace
} // namespace gpu_test
