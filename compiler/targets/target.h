// What a kernel's schedule needs to know of the machine it is compiled for: facts, no decisions. The targets are
// the rows of targets.def. `native` is resolved here, so every later room sees the name of a row.
#pragma once

#include "dsl/errors/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

struct Target {
  std::string name;
  int lanes;             // f32 values in a vector register
  int registers;         // vector registers
  int64_t l1;            // bytes of the first data cache of a core
  int64_t l2;            // bytes of the second
  std::string halide;    // as Halide spells it, without what emit/halide adds
  uint32_t cpu_features; // HEDDLE_CPU_* of runtime/abi.h
};

/// All targets, from the least demanding on.
std::span<const Target> targets();

/// The target of that name; `native` is the most demanding one that this machine can run. The message of an
/// unknown name lists the known ones.
Result<Target> find_target(std::string_view name);

/// The HEDDLE_CPU_* bits of this machine.
uint32_t host_cpu_features();

} // namespace heddle
