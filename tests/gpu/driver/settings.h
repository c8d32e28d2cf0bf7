// What can be set about the emulated device: by environment variables, read once, and by the functions of control.h.
#pragma once

#include "tests/gpu/driver/types.h"

#include <atomic>

namespace ptx {

struct Settings {
  int sm = 80;                      // HEDDLE_EMULATED_SM
  unsigned threads = 0;             // HEDDLE_EMULATED_THREADS: workers for blocks; 0: as many as the machine has
  unsigned sample = 1;              // HEDDLE_EMULATED_SAMPLE: memory accesses of each n-th block are measured; 0: none
  unsigned blocks = 0;              // HEDDLE_EMULATED_BLOCKS: at most so many of a launch are executed; 0: all
  bool checks = true;               // HEDDLE_EMULATED_CHECKS=0: no search for races and uninitialised reads
  bool worst_approximation = false; // HEDDLE_EMULATED_APPROX=worst: approximate functions with their largest error
  u64 memory = 8ull << 30;          // HEDDLE_EMULATED_MEMORY: bytes of device memory
  u64 limit = 1ull << 28;           // HEDDLE_EMULATED_LIMIT: jumps that a warp may make before it counts as hanging
  int version = 13000;              // HEDDLE_EMULATED_VERSION: of the driver, and so of the PTX that it takes
  int devices = 1;                  // HEDDLE_EMULATED_DEVICES=0: none
  bool log = false;                 // HEDDLE_EMULATED_LOG=1: each driver call on stderr
  bool report = false;              // HEDDLE_EMULATED_REPORT=1: counters of all kernels on stderr when the process ends
  bool blocking = false;            // CUDA_LAUNCH_BLOCKING=1, as with a device: a launch returns its own fault
  u64 fail_at = 0;                  // HEDDLE_EMULATED_FAIL=N or N:CODE: the N-th driver call fails
  int fail_code = 2;
};

Settings &settings();

} // namespace ptx
