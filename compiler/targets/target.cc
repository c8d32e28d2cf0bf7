// The table of targets and the resolution of names. What the host can run comes from CPUID through the compiler's
// own builtins and the operating system's word on register state, which those builtins include.
#include "compiler/targets/target.h"

#include "runtime/abi.h"

#include <cpuid.h>

namespace heddle {

static const Target table[] = {
#define HEDDLE_TARGET(name, lanes, registers, l1, l2, halide, features)                                                \
  {name, lanes, registers, l1, l2, halide, features},
#include "compiler/targets/targets.def"
#undef HEDDLE_TARGET
};

std::span<const Target> targets() { return table; }

/// Whether the processor has the AMX tiles and the operating system saves them.
static bool host_has_amx() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25;
  if ((d & (amx_bf16 | amx_tile | amx_int8)) != (amx_bf16 | amx_tile | amx_int8))
    return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) // OSXSAVE
    return false;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tile_state = 3u << 17; // XTILECFG and XTILEDATA
  return (low & tile_state) == tile_state;
}

uint32_t host_cpu_features() {
  __builtin_cpu_init();
  uint32_t features = 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    features |= HEDDLE_CPU_AVX2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    features |= HEDDLE_CPU_AVX512;
  if (__builtin_cpu_supports("avx512vnni"))
    features |= HEDDLE_CPU_AVX512_VNNI;
  // Halide's code for BF16 uses VBMI2 and BITALG too, which Cooper Lake lacks: such a machine counts as one without.
  if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi2") &&
      __builtin_cpu_supports("avx512bitalg"))
    features |= HEDDLE_CPU_AVX512_BF16;
  if (host_has_amx())
    features |= HEDDLE_CPU_AMX;
  return features;
}

Result<Target> find_target(std::string_view name) {
  if (name == "native") {
    uint32_t host = host_cpu_features();
    const Target *best = nullptr;
    for (const Target &target : table)
      if ((target.cpu_features & ~host) == 0)
        best = &target;
    if (!best)
      return Error{"this machine has no AVX2 with FMA and F16C, which the least demanding target (" + table[0].name +
                   ") needs; name a target to compile for another machine"};
    return *best;
  }
  for (const Target &target : table)
    if (target.name == name)
      return target;
  if (name.starts_with("cuda:"))
    return Error{"the target `" + std::string(name) + "` is not built yet; use one of the x86-64 targets"};
  std::string known = "native";
  for (const Target &target : table)
    known += ", " + target.name;
  return Error{"there is no target `" + std::string(name) + "`; the targets are " + known};
}

} // namespace heddle
