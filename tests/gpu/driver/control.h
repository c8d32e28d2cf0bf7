/* What tests may ask of the emulated device, beyond the CUDA driver's interface. C, so that it can be looked up with
   dlsym in a driver library that was loaded by somebody else. */
#ifndef HEDDLE_EMULATOR_CONTROL_H
#define HEDDLE_EMULATOR_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The text of the last error: of a fault, with kernel, PTX line, block and thread. "" where there was none.
   It is valid until the next call of the library. */
const char *heddle_emulator_message(void);

/* Forgets a fault, as a new process would. Allocations and modules stay. */
void heddle_emulator_reset(void);

/* Everything a program can leave behind, for leak checks. */
typedef struct {
  uint64_t allocations, bytes, pinned, modules, streams, events, graphs;
} heddle_emulator_usage;
void heddle_emulator_get_usage(heddle_emulator_usage *usage);

/* How many driver calls were made. */
uint64_t heddle_emulator_calls(void);
/* The n-th driver call from now on (1: the next) fails with this CUresult, and does nothing. 0: none. A code of a
   device's fault (700 to 719) means that the device is lost: the calls behind it fail, too. */
void heddle_emulator_fail_call(uint64_t n, int code);

/* Settings by the name of their environment variable without HEDDLE_EMULATED_, in lower case: sm, threads, sample,
   blocks, checks, memory, limit, version, devices. 0 where there is no such setting. */
int heddle_emulator_set(const char *name, uint64_t value);

typedef struct {
  uint64_t warps;    /* times a warp executed an instruction of this class */
  uint64_t lanes;    /* threads, counted each time */
  uint64_t requests; /* accesses to memory that were measured */
  uint64_t cost;     /* of these: sectors of 32 bytes (global), passes (shared) */
  uint64_t ideal;    /* the least it could have been */
} heddle_emulator_counter;
/* Sums over all launches of the kernels of this name ("": all kernels) since the last clearing. The class is one of
   those that docs/emulated-gpu.md lists. 0 where there is no such class. */
int heddle_emulator_get_counter(const char *kernel, const char *instruction_class, heddle_emulator_counter *counter);
uint64_t heddle_emulator_launches(const char *kernel);
/* Blocks of these launches, and how many of them were executed: fewer where the setting `blocks` says so. */
void heddle_emulator_get_blocks(const char *kernel, uint64_t *launched, uint64_t *executed);
void heddle_emulator_clear_counters(void);

/* The names of all instructions that are executed, a line each. */
const char *heddle_emulator_instructions(void);

#ifdef __cplusplus
}
#endif
#endif
