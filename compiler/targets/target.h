// What a kernel's schedule needs to know of the machine it is compiled for: facts, no decisions. The targets are
// the rows of targets.def and gpus.def. `native` is resolved here, so every later room sees the name of a row.
#pragma once

#include "dsl/errors/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

class Records; // compiler/choose/records.h

/// What a GPU has beside what every target has.
struct Gpu {
  std::string_view name; // of the target
  int sm;                // compute capability, ten times: 80
  int ptx;               // version of the PTX that is written, ten times: 70
  int driver;            // least version of the driver that reads it, as cuDriverGetVersion gives it: 11000
  int multiprocessors;
  int64_t shared;      // bytes of shared memory that a block may have without asking
  int64_t shared_most; // and at most
  double flops;        // f32 operations per second
  double tensor_flops; // of bf16 on tensor cores, with sums of f32
  double memory_rate;  // bytes per second
};

struct Target {
  std::string name;
  int lanes;     // f32 values in a vector register
  int registers; // vector registers
  int64_t l1;    // bytes of the first data cache of a core
  int64_t l2;    // bytes of the second
  // Of a core, when it has the machine to itself: to tell the cost of schedules apart.
  double gigahertz;
  double l2_bytes_per_cycle, l3_bytes_per_cycle, memory_bytes_per_cycle;
  double dot_bf16;  // multiply-adds of f32 in whose time a vdpbf16ps is done
  uint32_t base;    // of every kernel: HEDDLE_CPU_* of runtime/cpu_features.h
  uint32_t further; // what variants may need beyond that
  /// What was measured of kernels' candidates on this machine; null: nothing.
  std::shared_ptr<const Records> records = nullptr;
  const Gpu *gpu = nullptr; // null: a CPU

  uint32_t cpu_features() const { return base | further; }
  double seconds(double cycles) const { return cycles / (gigahertz * 1e9); }
};

/// All CPUs, from the least demanding on, and all GPUs.
std::span<const Target> targets();
std::span<const Target> gpu_targets();

/// The target of that name; `native` is the most demanding one that this machine can run, but for those whose further
/// instructions are slow here. The message of an unknown name lists the known ones.
Result<Target> find_target(std::string_view name);

/// These features in Halide's words: "x86-64-linux-sse41-…".
std::string halide_name(uint32_t cpu_features);
/// Whether these words allow Halide features beyond those.
bool halide_allows_more(uint32_t cpu_features);
/// And in LLVM's words, which allow exactly them: "+avx2,…".
std::string llvm_features(uint32_t cpu_features);

} // namespace heddle
