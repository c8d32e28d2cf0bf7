// Halide's own CUDA runtime and the kernels that it generates, on the emulated GPU, against the same algorithm
// compiled for the processor.
#include "tests/gpu/driver/control.h"

#include <Halide.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace Halide;

namespace {

Target gpu() { return get_host_target().with_feature(Target::CUDA).with_feature(Target::CUDACapability80); }

template <class T> Buffer<T> filled(std::vector<int> sizes, double scale, unsigned seed) {
  Buffer<T> buffer(sizes);
  std::mt19937 random(seed);
  buffer.for_each_value([&](T &v) { v = T((double(random() % 2001) / 1000 - 1) * scale); });
  buffer.set_host_dirty();
  return buffer;
}

/// The function, made twice: scheduled for the GPU and as it is.
template <class T> void compare(const std::function<Func(bool gpu)> &make, std::vector<int> sizes, double tolerance) {
  heddle_emulator_clear_counters();
  Buffer<T> on_gpu(sizes), on_cpu(sizes);
  make(true).realize(on_gpu, gpu());
  on_gpu.copy_to_host();
  EXPECT_GT(heddle_emulator_launches(""), 0u) << "nothing ran on the emulated GPU: " << heddle_emulator_message();
  make(false).realize(on_cpu, get_host_target());
  double worst = 0;
  on_cpu.for_each_element([&](const int *at) {
    double a = double(on_cpu(at)), b = double(on_gpu(at));
    worst = std::max(worst, std::fabs(a - b) / std::max(1.0, std::fabs(a)));
  });
  EXPECT_LE(worst, tolerance);
}

TEST(HalideKernels, product_with_both_operands_in_shared_memory) {
  const int m = 64, n = 64, k = 64, tile = 4, step = 8;
  Buffer<float> a = filled<float>({k, m}, 1, 1), b = filled<float>({n, k}, 0.3, 2), bias = filled<float>({n}, 1, 3);
  auto make = [&](bool on_gpu) {
    Var x("x"), y("y"), bx, by, tx, ty, xi, yi;
    Func A("A"), B("B"), sum("sum"), out("out");
    Var i, j;
    A(i, j) = a(i, j);
    B(i, j) = b(i, j);
    RDom r(0, k);
    sum(x, y) = 0.0f;
    sum(x, y) += A(r, y) * B(x, r);
    Expr v = sum(x, y) + bias(x);
    out(x, y) = v / (1.0f + exp(-v));
    if (on_gpu) {
      RVar ko, ki;
      out.bound(x, 0, n)
          .bound(y, 0, m)
          .tile(x, y, bx, by, xi, yi, 8 * tile, 8 * tile)
          .tile(xi, yi, tx, ty, xi, yi, tile, tile);
      out.gpu_blocks(bx, by).gpu_threads(tx, ty).unroll(xi).unroll(yi);
      sum.compute_at(out, bx)
          .store_in(MemoryType::Register)
          .tile(x, y, tx, ty, xi, yi, tile, tile)
          .gpu_threads(tx, ty)
          .unroll(xi)
          .unroll(yi);
      sum.update().split(r, ko, ki, step).tile(x, y, tx, ty, xi, yi, tile, tile).reorder(xi, yi, ki, tx, ty, ko);
      sum.update().gpu_threads(tx, ty).unroll(xi).unroll(yi).unroll(ki);
      A.compute_at(sum, ko)
          .store_in(MemoryType::GPUShared)
          .split(j, ty, yi, tile)
          .reorder(yi, i, ty)
          .gpu_threads(i, ty)
          .unroll(yi);
      B.compute_at(sum, ko)
          .store_in(MemoryType::GPUShared)
          .split(i, tx, xi, tile)
          .reorder(xi, tx, j)
          .gpu_threads(tx, j)
          .unroll(xi);
    } else {
      A.compute_root(), B.compute_root(), sum.compute_root();
    }
    return out;
  };
  compare<float>(make, {n, m}, 1e-5);
}

TEST(HalideKernels, softmax_by_threads_of_a_block) {
  const int columns = 256, rows = 13;
  Buffer<float> x = filled<float>({columns, rows}, 5, 1);
  auto make = [&](bool on_gpu) {
    Var c("c"), i("i"), u("u"), co, ci;
    Func part("part"), most("most"), e("e"), part_sum("part_sum"), sum("sum"), out("out");
    RDom r(0, columns / 64), l(0, 64);
    part(u, i) = -1e30f;
    part(u, i) = max(part(u, i), x(u + 64 * r, i));
    most(i) = -1e30f;
    most(i) = max(most(i), part(l, i));
    e(c, i) = exp(x(c, i) - most(i));
    part_sum(u, i) = 0.0f;
    part_sum(u, i) += e(u + 64 * r, i);
    sum(i) = 0.0f;
    sum(i) += part_sum(l, i);
    out(c, i) = e(c, i) / sum(i);
    if (on_gpu) {
      out.bound(c, 0, columns).split(c, co, ci, 64).reorder(co, ci, i).gpu_blocks(i).gpu_threads(ci).unroll(co);
      for (Func *f : {&part, &part_sum}) {
        f->compute_at(out, i).gpu_threads(u);
        f->update().reorder(r, u).gpu_threads(u).unroll(r);
      }
      e.compute_at(out, i)
          .store_in(MemoryType::GPUShared)
          .split(c, co, ci, 64)
          .reorder(co, ci)
          .gpu_threads(ci)
          .unroll(co);
      most.compute_at(out, i), sum.compute_at(out, i);
    } else {
      part.compute_root(), most.compute_root(), e.compute_root(), part_sum.compute_root(), sum.compute_root();
    }
    return out;
  };
  compare<float>(make, {columns, rows}, 1e-5);
}

TEST(HalideKernels, functions_of_elements_at_sizes_that_no_tile_divides) {
  const int w = 77, h = 13;
  Buffer<float> p = filled<float>({w, h}, 4, 1), q = filled<float>({w, h}, 2, 2);
  auto make = [&](bool on_gpu) {
    Var x("x"), y("y"), bx, by, tx, ty;
    Func out("out");
    Expr a = p(x, y), b = q(x, y);
    out(x, y) = select(a > 0.0f, log(a + 1.0f), sin(a)) + sqrt(abs(b)) / (1.0f + exp(-a)) + erf(b) + tanh(a) +
                cast<float>(x % 7) + pow(abs(b) + 0.1f, a) * 0.01f + floor(a) +
                cast<float>(cast<int8_t>(b * 50.0f) >> 1);
    if (on_gpu)
      out.gpu_tile(x, y, bx, by, tx, ty, 32, 4, TailStrategy::GuardWithIf);
    return out;
  };
  compare<float>(make, {w, h}, 1e-5);
}

TEST(HalideKernels, integers_of_all_widths) {
  const int n = 1000;
  Buffer<int> p = filled<int>({n}, 1e9, 1), q = filled<int>({n}, 1000, 2);
  auto make = [&](bool on_gpu) {
    Var x("x"), b, t;
    Func out("out");
    Expr a = p(x), c = q(x);
    Expr wide = cast<int64_t>(a) * cast<int64_t>(c);
    out(x) = cast<int>(wide >> 7) ^ cast<int>(cast<uint64_t>(a) / 1000003) ^ (a / select(c == 0, 1, c)) ^ (a % 17) ^
             cast<int>(cast<int16_t>(a) * cast<int16_t>(c)) ^ cast<int>(cast<uint8_t>(a) + cast<uint8_t>(c)) ^
             count_leading_zeros(a) ^ popcount(c) ^ cast<int>(absd(a, c)) ^ min(a, c) ^ max(a, -c) ^ (a << (c & 15)) ^
             (a >> (c & 15));
    if (on_gpu)
      out.gpu_tile(x, b, t, 64, TailStrategy::GuardWithIf);
    return out;
  };
  compare<int>(make, {n}, 0);
}

TEST(HalideKernels, lookups_histograms_and_scans) {
  const int n = 300, bins = 16;
  Buffer<int> ids = filled<int>({n}, 1000, 1);
  auto make = [&](bool on_gpu) {
    Var x("x"), b, t;
    Func histogram("histogram"), scan("scan"), out("out");
    RDom r(0, n), s(1, bins - 1);
    histogram(x) = 0;
    histogram(((ids(r) % bins) + bins) % bins) += 1;
    scan(x) = histogram(x);
    scan(s) += scan(s - 1);
    out(x) = scan(clamp(ids(x) % bins, 0, bins - 1)) * 3 + x;
    histogram.compute_root(), scan.compute_root();
    if (on_gpu) {
      histogram.gpu_tile(x, b, t, 16)
          .update()
          .atomic()
          .gpu_tile(r.x, RVar("ro"), RVar("ri"), 32, TailStrategy::GuardWithIf);
      scan.gpu_single_thread().update().gpu_single_thread();
      out.gpu_tile(x, b, t, 32, TailStrategy::GuardWithIf);
    }
    return out;
  };
  compare<int>(make, {n}, 0);
}

TEST(HalideKernels, a_chain_of_kernels_with_device_memory_between) {
  const int n = 24, s = 37;
  Buffer<float> x = filled<float>({n, s}, 1, 1), w = filled<float>({3 * n, n}, 0.2, 2);
  auto make = [&](bool on_gpu) {
    Var j("j"), i("i"), bx, by, tx, ty;
    std::vector<Func> all;
    RDom k(0, n), keys(0, s);
    Func qkv("qkv"), score("score"), most("most"), sum("sum"), out("out");
    qkv(j, i) = 0.0f;
    qkv(j, i) += x(k, i) * w(j, k);
    score(j, i) = 0.0f;
    score(j, i) += qkv(k, i) * qkv(n + k, j) * 0.2f;
    most(i) = -1e30f;
    most(i) = max(most(i), score(keys, i));
    sum(i) = 0.0f;
    sum(i) += exp(score(keys, i) - most(i));
    out(j, i) = 0.0f;
    out(j, i) += exp(score(keys, i) - most(i)) / sum(i) * qkv(2 * n + j, keys);
    for (Func f : {qkv, score, most, sum, out}) {
      if (f.name() != out.name())
        f.compute_root();
      for (int u = -1; on_gpu && u < f.num_update_definitions(); u++) {
        Stage stage = u < 0 ? Stage(f) : f.update(u);
        if (f.dimensions() == 1)
          stage.gpu_tile(i, bx, tx, 32, TailStrategy::GuardWithIf);
        else
          stage.gpu_tile(j, i, bx, by, tx, ty, 32, 4, TailStrategy::GuardWithIf);
      }
    }
    return out;
  };
  compare<float>(make, {n, s}, 1e-5);
}

} // namespace
