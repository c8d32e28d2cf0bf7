// The bits of cpu_features.def, and which of them this machine has. Shared by the runtime and the compiler.
#ifndef HEDDLE_CPU_FEATURES_H
#define HEDDLE_CPU_FEATURES_H

#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
#define HEDDLE_CPU_FEATURE(name, text, registers, c1, b7, c7, d7, a71, cx, halide, beyond, llvm)                       \
  HEDDLE_CPU_NUMBER_##name,
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
};

enum {
#define HEDDLE_CPU_FEATURE(name, text, registers, c1, b7, c7, d7, a71, cx, halide, beyond, llvm)                       \
  HEDDLE_CPU_##name = 1 << HEDDLE_CPU_NUMBER_##name,
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
};

// Bits of XCR0: the registers that the operating system saves.
#define HEDDLE_YMM 0x6u
#define HEDDLE_ZMM 0xe6u
#define HEDDLE_TILES 0x60000u

static inline uint32_t heddle_host_cpu_features(void) {
  uint32_t a, b, c1, d, b7, c7, d7, a71 = 0, cx = 0, unused, low, high;
  if (!__get_cpuid(1, &a, &b, &c1, &d) || !(c1 & bit_OSXSAVE) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
    return 0;
  if (a >= 1)
    __get_cpuid_count(7, 1, &a71, &unused, &unused, &unused);
  __get_cpuid(0x80000001u, &a, &b, &cx, &d);
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  uint32_t features = 0;
#define HEDDLE_CPU_FEATURE(name, text, registers, want_c1, want_b7, want_c7, want_d7, want_a71, want_cx, halide,       \
                           beyond, llvm)                                                                               \
  if (!((registers) & ~low) && !((want_c1) & ~c1) && !((want_b7) & ~b7) && !((want_c7) & ~c7) && !((want_d7) & ~d7) && \
      !((want_a71) & ~a71) && !((want_cx) & ~cx))                                                                      \
    features |= HEDDLE_CPU_##name;
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
  return features;
}

// Whether the operating system lets this process use those of the machine's features. Linux (ARCH_REQ_XCOMP_PERM) is
// asked for tiles, whose registers it keeps room for from then on.
static inline int heddle_is_permitted(uint32_t features) {
  return !(features & HEDDLE_CPU_AMX) || syscall(SYS_arch_prctl, 0x1023, 18 /* tile data */) == 0;
}

#endif
