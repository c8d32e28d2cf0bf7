// What the tests of the emulated GPU share: a context, buffers, kernels from PTX text, and the message of a fault.
#pragma once

#include "tests/gpu/driver/api/cuda.h"
#include "tests/gpu/driver/control.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" {
CUresult cuInit(unsigned);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize();
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void **, void **);
}

namespace gpu_test {

/// Memory on the device, filled from a vector.
template <class T> class Buffer {
public:
  explicit Buffer(size_t n) : count(n) { EXPECT_EQ(cuMemAlloc_v2(&address, n * sizeof(T)), 0); }
  explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) {
    EXPECT_EQ(cuMemcpyHtoD_v2(address, values.data(), count * sizeof(T)), 0);
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() {
    if (address)
      cuMemFree_v2(address);
  }
  void free() {
    EXPECT_EQ(cuMemFree_v2(address), 0);
    address = 0;
  }
  std::vector<T> read() const {
    std::vector<T> values(count);
    EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)), 0) << heddle_emulator_message();
    return values;
  }

  CUdeviceptr address = 0;
  size_t count;
};

/// Of this process: tests run side by side.
inline std::string own_file(const std::string &name) {
  return testing::TempDir() + std::to_string(getpid()) + "-" + name;
}

/// Where $HEDDLE_PTXAS names NVIDIA's assembler, it must take the text, too. (Texts with a made-up
/// instruction aside.)
inline void expect_valid(const std::string &ptx) {
  const char *ptxas = getenv("HEDDLE_PTXAS");
  if (!ptxas || ptx.find("frobnicate") != ptx.npos)
    return;
  std::string file = own_file("module.ptx"), target = ptx.substr(ptx.find(".target ") + 8, 6);
  target.erase(target.find_last_not_of(",\n\r\t ./") + 1);
  std::ofstream(file) << ptx;
  EXPECT_EQ(system((std::string(ptxas) + " -O0 -arch=" + target + " -o /dev/null " + file).c_str()), 0) << ptx;
}

/// A module, by its text.
class Program {
public:
  explicit Program(const std::string &ptx) {
    expect_valid(ptx);
    EXPECT_EQ(cuModuleLoadData(&module, ptx.c_str()), 0) << heddle_emulator_message();
  }
  Program(const Program &) = delete;
  ~Program() {
    if (module)
      cuModuleUnload(module);
  }
  CUfunction kernel(const char *name) const {
    CUfunction f = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&f, module, name), 0) << heddle_emulator_message();
    return f;
  }

  CUmodule module = nullptr;
};

/// Launches and waits; the arguments are passed as they are.
template <class... A>
CUresult launch_blocks(CUfunction f, std::array<unsigned, 3> grid, std::array<unsigned, 3> block, unsigned shared,
                       A... arguments) {
  void *parameters[] = {&arguments..., nullptr};
  CUresult r =
      cuLaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, nullptr, parameters, nullptr);
  return r ? r : cuCtxSynchronize();
}

class Gpu : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), 0);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    ASSERT_EQ(cuCtxSetCurrent(context), 0);
    heddle_emulator_reset();
    heddle_emulator_clear_counters();
  }
  void TearDown() override { heddle_emulator_reset(); }

  CUcontext context = nullptr;
};

/// PTX of a module for sm_80 with these functions.
inline std::string module_text(const std::string &functions, const std::string &target = "sm_80") {
  return ".version 8.0\n.target " + target + "\n.address_size 64\n" + functions;
}

} // namespace gpu_test
