// Kernels as MLIR's stock pipeline lowers them: tensor cores through nvgpu and wmma, cp.async, shuffles, atomics.
#include "tests/gpu/compiled.h"
#include "tests/gpu/device.h"

#include <random>

namespace gpu_test {
namespace {

using f16 = _Float16;

/// The string behind `assembly = "`, without MLIR's escapes.
std::string assembly_of(const std::string &mlir) {
  const std::string begin = "assembly = \"";
  std::string ptx;
  for (size_t at = mlir.find(begin) + begin.size(); at < mlir.size() && mlir[at] != '"'; at++) {
    if (mlir[at] != '\\') {
      ptx += mlir[at];
      continue;
    }
    ptx += mlir[at + 1] == '\\' ? '\\' : char(std::stoi(mlir.substr(at + 1, 2), nullptr, 16));
    at += mlir[at + 1] == '\\' ? 1 : 2;
  }
  return ptx;
}

class MlirKernels : public Gpu {
protected:
  void SetUp() override {
    Gpu::SetUp();
    std::string out = own_file("products.mlir");
    ASSERT_TRUE(compiles(std::string(HEDDLE_MLIR_OPT) +
                         " --convert-scf-to-cf --gpu-lower-to-nvvm-pipeline=\"cubin-chip=sm_80 "
                         "cubin-features=+ptx80 cubin-format=isa\" " +
                         source("products.mlir") + " -o " + out));
    program = std::make_unique<Program>(assembly_of(read_file(out)));
  }

  void TearDown() override {
    std::remove(own_file("products.mlir").c_str());
    Gpu::TearDown();
  }

  std::unique_ptr<Program> program;
};

/// What MLIR passes for a memref: two pointers, an offset, sizes, strides.
template <int rank> struct MemRef {
  CUdeviceptr allocated, aligned;
  uint64_t offset, sizes[rank], strides[rank];
};

CUresult launch_with(CUfunction f, std::array<unsigned, 3> grid, unsigned threads, std::vector<uint64_t> arguments) {
  std::vector<void *> pointers;
  for (uint64_t &a : arguments)
    pointers.push_back(&a);
  CUresult r = cuLaunchKernel(f, grid[0], grid[1], grid[2], threads, 1, 1, 0, nullptr, pointers.data(), nullptr);
  return r ? r : cuCtxSynchronize();
}

void add_matrix(std::vector<uint64_t> &arguments, CUdeviceptr p, uint64_t rows, uint64_t columns) {
  arguments.insert(arguments.end(), {p, p, 0, rows, columns, columns, 1});
}
void add_vector(std::vector<uint64_t> &arguments, CUdeviceptr p, uint64_t n) {
  arguments.insert(arguments.end(), {p, p, 0, n, 1});
}

std::vector<f16> random_matrix(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<f16> values(n);
  for (f16 &v : values)
    v = f16(float(int(random() % 2001) - 1000) / 1000);
  return values;
}

TEST_F(MlirKernels, products_on_tensor_cores) {
  constexpr int n = 64;
  std::vector<f16> a = random_matrix(n * n, 1), b = random_matrix(n * n, 2);
  Buffer<f16> da(a), db(b);
  for (bool wmma : {false, true}) {
    Buffer<float> dc(n * n);
    std::vector<uint64_t> arguments;
    add_matrix(arguments, da.address, n, n), add_matrix(arguments, db.address, n, n),
        add_matrix(arguments, dc.address, n, n);
    CUresult r = wmma ? launch_with(program->kernel("wmma_product"), {n / 16, n / 16, 1}, 32, arguments)
                      : launch_with(program->kernel("product"), {n / 8, n / 32, 1}, 64, arguments);
    ASSERT_EQ(r, 0) << heddle_emulator_message();
    std::vector<float> c = dc.read();
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
          sum += double(a[size_t(i * n + k)]) * double(wmma ? b[size_t(k * n + j)] : b[size_t(j * n + k)]);
        ASSERT_NEAR(c[size_t(i * n + j)], sum, 2e-5) << (wmma ? "wmma" : "mma.sync") << " " << i << " " << j;
      }
  }
  heddle_emulator_counter matrix;
  ASSERT_TRUE(heddle_emulator_get_counter("product", "matrix", &matrix));
  EXPECT_EQ(matrix.warps, uint64_t(n / 16) * (n / 8) * (n / 16)); // as many as the shape needs
}

TEST_F(MlirKernels, sums_of_rows) {
  constexpr uint64_t rows = 9, columns = 77;
  std::vector<float> x(rows * columns);
  for (size_t i = 0; i < x.size(); i++)
    x[i] = float(int(i * 7919 % 2001) - 1000) / 256; // sums are exact in any order
  Buffer<float> dx(x), ds(rows), dt(std::vector<float>{0});
  std::vector<uint64_t> arguments;
  add_matrix(arguments, dx.address, rows, columns), add_vector(arguments, ds.address, rows),
      add_vector(arguments, dt.address, 1);
  ASSERT_EQ(launch_with(program->kernel("row_sums"), {rows, 1, 1}, 32, arguments), 0) << heddle_emulator_message();
  std::vector<float> s = ds.read();
  float total = 0;
  for (size_t i = 0; i < rows; i++) {
    float sum = 0;
    for (size_t j = 0; j < columns; j++)
      sum += x[i * columns + j];
    EXPECT_EQ(s[i], sum) << i;
    total += sum;
  }
  EXPECT_EQ(dt.read()[0], total);
}

/// Of the kernel's own barriers and waits, each one that is taken away is missed; but for the last one, behind which
/// nothing is copied any more.
TEST_F(MlirKernels, without_a_barrier_or_a_wait_are_found_out) {
  std::string ptx = assembly_of(read_file(own_file("products.mlir")));
  constexpr int n = 64;
  Buffer<f16> da(random_matrix(n * n, 1)), db(random_matrix(n * n, 2));
  int removed = 0;
  size_t last = ptx.rfind("bar.sync", ptx.find("wmma"));
  for (std::string instruction : {"bar.sync", "cp.async.wait_group"})
    for (size_t at = ptx.find(instruction); at != ptx.npos; at = ptx.find(instruction, at + 1)) {
      if (at == last)
        continue;
      std::string without = ptx;
      without.replace(at, without.find(';', at) + 1 - at, "");
      Program changed(without);
      Buffer<float> dc(n * n);
      std::vector<uint64_t> arguments;
      add_matrix(arguments, da.address, n, n), add_matrix(arguments, db.address, n, n),
          add_matrix(arguments, dc.address, n, n);
      EXPECT_NE(launch_with(changed.kernel("product"), {n / 8, n / 32, 1}, 64, arguments), 0)
          << instruction << " at " << at;
      EXPECT_NE(std::string(heddle_emulator_message()).find("kernel product, PTX line"), std::string::npos)
          << heddle_emulator_message();
      heddle_emulator_reset();
      removed++;
    }
  EXPECT_GE(removed, 3);
}

} // namespace
} // namespace gpu_test
