// Which instructions this machine has, and whether the operating system saves their registers. Checked when a model
// is loaded, so that a library compiled for another machine says so instead of dying of an illegal instruction.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static uint64_t saved_registers(void) { // XCR0
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static bool all(uint32_t value, uint32_t bits) { return (value & bits) == bits; }

uint32_t rt_cpu_features(void) {
  uint32_t a, b1, c1, d1, b7, c7, d7, a71 = 0, unused;
  if (!__get_cpuid(1, &a, &b1, &c1, &d1) || !all(c1, bit_OSXSAVE) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
    return 0;
  if (a >= 1)
    __get_cpuid_count(7, 1, &a71, &unused, &unused, &unused);
  uint64_t saved = saved_registers();
  bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6, tiles = (saved & 0x60000) == 0x60000;
  uint32_t features = 0;
  if (ymm && all(c1, bit_AVX | bit_FMA | bit_F16C) && all(b7, bit_AVX2))
    features |= HEDDLE_CPU_AVX2;
  if (zmm && all(b7, bit_AVX512F | bit_AVX512CD | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
    features |= HEDDLE_CPU_AVX512;
  if (zmm && all(c7, bit_AVX512VNNI))
    features |= HEDDLE_CPU_AVX512_VNNI;
  if (zmm && all(a71, 1u << 5))
    features |= HEDDLE_CPU_AVX512_BF16;
  if (tiles && all(d7, 1u << 24 | 1u << 22 | 1u << 25)) // TILE, BF16, INT8
    features |= HEDDLE_CPU_AMX;
  return features;
}

heddle_status rt_cpu_check(const heddle_model_desc *desc) {
  static const struct {
    uint32_t bit;
    const char *name;
  } names[] = {{HEDDLE_CPU_AVX2, "AVX2 with FMA and F16C"},
               {HEDDLE_CPU_AVX512, "AVX-512 (F, CD, BW, DQ, VL)"},
               {HEDDLE_CPU_AVX512_VNNI, "AVX-512 VNNI"},
               {HEDDLE_CPU_AVX512_BF16, "AVX-512 BF16"},
               {HEDDLE_CPU_AMX, "AMX (TILE, BF16, INT8)"}};
  uint32_t missing = desc->cpu_features & ~rt_cpu_features();
  if (missing) {
    rt_text list = {.length = 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (missing & names[i].bit)
        rt_append(&list, "%s%s", list.length ? " and " : "", names[i].name);
    if (!list.length)
      rt_append(&list, "features that this version does not know (0x%x)", missing);
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s and needs %s, which this machine lacks; compile it with "
                   "--target native on this machine, or for a lower target such as x86-64-v3",
                   desc->name, desc->target, list.data);
  }
  if (desc->cpu_features & HEDDLE_CPU_AMX && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0)
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s, but the operating system does not permit AMX tiles to this "
                   "process; compile it for a target without AMX, such as x86-64-v4+bf16",
                   desc->name, desc->target);
  return HEDDLE_OK;
}
