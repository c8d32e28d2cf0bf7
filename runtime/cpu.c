// Which instructions this machine has, and whether the operating system saves their registers. Checked when a model
// is loaded: of the targets that a library has code for the most demanding one is taken that this machine can run, and
// a library compiled for other machines only says so instead of dying of an illegal instruction.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include "runtime/cpu_features.h"

#include <string.h>

uint32_t rt_cpu_features(void) { return heddle_host_cpu_features(); }

static heddle_status check(const heddle_model_desc *desc) {
  if (desc->device)
    return desc->device->api->check(desc);
  static const char *const names[] = {
#define HEDDLE_CPU_FEATURE(name, text, registers, c1, b7, c7, d7, a71, cx, halide, beyond, llvm) text,
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
  };
  uint32_t missing = desc->cpu_features & ~rt_cpu_features();
  if (missing) {
    rt_text list = {.length = 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (missing & 1u << i)
        rt_append(&list, "%s%s", list.length ? " and " : "", names[i]);
    if (!list.length)
      rt_append(&list, "features that this version does not know (0x%x)", missing);
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s and needs %s, which this machine lacks; compile it with "
                   "--target native on this machine, or for a lower target such as x86-64-v3",
                   desc->name, desc->target, list.data);
  }
  if (!heddle_is_permitted(desc->cpu_features))
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s, but the operating system does not permit AMX tiles to this "
                   "process; compile it for a target without AMX, such as x86-64-v4+vnni",
                   desc->name, desc->target);
  return HEDDLE_OK;
}

heddle_status rt_choose_target(const char *wanted, const heddle_model_desc **desc) {
  heddle_status status = HEDDLE_OK; // where none can be taken, of the least demanding one
  rt_text list = {.length = 0};
  bool named = false;
  for (const heddle_model_desc *at = &heddle_model_descriptor; at; at = at->lower) {
    rt_append(&list, "%s%s", list.length ? ", " : "", at->target);
    if (wanted && strcmp(wanted, at->target) != 0)
      continue;
    named = true;
    status = check(at);
    if (status == HEDDLE_OK) {
      *desc = at;
      return HEDDLE_OK;
    }
  }
  if (!named)
    return rt_fail(HEDDLE_NOT_FOUND, "model '%s' was not compiled for target '%s'; it has: %s",
                   heddle_model_descriptor.name, wanted, list.data);
  return status;
}
