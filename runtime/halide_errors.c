// What kernels compiled with Halide's assertions call when one fails, which only tests do. Each records one sentence,
// in the session or, without one, as the thread's last error, and returns Halide's code; the first of a run stays.
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 3, 4))) static int fault(void *user_context, int code, const char *format, ...) {
  char text[sizeof(((heddle_session *)0)->fault)];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const rt_slot *slot = user_context;
  heddle_session *session = slot ? slot->session : NULL;
  if (!session)
    rt_fail(HEDDLE_KERNEL_FAILED, "%s", text);
  else if (!atomic_exchange(&session->faulted, true))
    snprintf(session->fault, sizeof session->fault, "%s", text);
  return code;
}

#define HOOK(name, ...) int halide_error_##name(void *c, ##__VA_ARGS__)

HOOK(bounds_inference_call_failed, const char *stage, int result) {
  return fault(c, result, "bounds query of extern stage %s failed with %d", stage, result);
}
HOOK(extern_stage_failed, const char *stage, int result) {
  return fault(c, result, "extern stage %s failed with %d", stage, result);
}
HOOK(explicit_bounds_too_small, const char *func, const char *var, int min, int max, int min_required,
     int max_required) {
  return fault(c, -2, "bounds %d..%d given for %s in %s do not cover %d..%d", min, max, var, func, min_required,
               max_required);
}
HOOK(bad_type, const char *func, uint32_t given, uint32_t correct) {
  return fault(c, -3, "%s has type 0x%x, expected 0x%x", func, given, correct);
}
HOOK(access_out_of_bounds, const char *func, int dimension, int min_touched, int max_touched, int min, int max) {
  return fault(c, -4, "%s is accessed at %d..%d of dimension %d, which is %d..%d", func, min_touched, max_touched,
               dimension, min, max);
}
HOOK(buffer_allocation_too_large, const char *buffer, uint64_t size, uint64_t most) {
  return fault(c, -5, "allocation of %s has %llu bytes, at most %llu", buffer, (unsigned long long)size,
               (unsigned long long)most);
}
HOOK(buffer_extents_too_large, const char *buffer, int64_t size, int64_t most) {
  return fault(c, -6, "buffer %s has %lld elements, at most %lld", buffer, (long long)size, (long long)most);
}
HOOK(constraints_make_required_region_smaller, const char *buffer, int dimension, int min, int extent, int required_min,
     int required_extent) {
  return fault(c, -7, "dimension %d of %s is constrained to %d + %d, but %d + %d is required", dimension, buffer, min,
               extent, required_min, required_extent);
}
HOOK(constraint_violated, const char *var, int value, const char *constrained, int constrained_value) {
  return fault(c, -8, "%s is %d, but %s is %d", var, value, constrained, constrained_value);
}
HOOK(param_too_small_i64, const char *param, int64_t value, int64_t min) {
  return fault(c, -9, "parameter %s is %lld, at least %lld", param, (long long)value, (long long)min);
}
HOOK(param_too_small_u64, const char *param, uint64_t value, uint64_t min) {
  return fault(c, -9, "parameter %s is %llu, at least %llu", param, (unsigned long long)value, (unsigned long long)min);
}
HOOK(param_too_small_f64, const char *param, double value, double min) {
  return fault(c, -9, "parameter %s is %g, at least %g", param, value, min);
}
HOOK(param_too_large_i64, const char *param, int64_t value, int64_t max) {
  return fault(c, -10, "parameter %s is %lld, at most %lld", param, (long long)value, (long long)max);
}
HOOK(param_too_large_u64, const char *param, uint64_t value, uint64_t max) {
  return fault(c, -10, "parameter %s is %llu, at most %llu", param, (unsigned long long)value, (unsigned long long)max);
}
HOOK(param_too_large_f64, const char *param, double value, double max) {
  return fault(c, -10, "parameter %s is %g, at most %g", param, value, max);
}
HOOK(out_of_memory) { return fault(c, -11, "out of memory"); }
HOOK(buffer_argument_is_null, const char *buffer) { return fault(c, -12, "buffer argument %s is NULL", buffer); }
HOOK(debug_to_file_failed, const char *func, const char *file, int code) {
  return fault(c, -13, "writing %s to %s failed with %d", func, file, code);
}
HOOK(device_interface_no_device) { return fault(c, -36, "a buffer has a device interface but no device"); }
HOOK(no_device_interface) { return fault(c, -19, "a buffer has no device interface"); }
HOOK(host_and_device_dirty) { return fault(c, -37, "a buffer is dirty on host and device"); }
HOOK(unaligned_host_ptr, const char *func, int alignment) {
  return fault(c, -24, "%s is not aligned to %d bytes", func, alignment);
}
HOOK(bad_fold, const char *func, const char *var, const char *loop) {
  return fault(c, -25, "%s of %s is folded over loop %s, which does not visit it in order", var, func, loop);
}
HOOK(bad_extern_fold, const char *func, int dimension, int min, int extent, int valid_min, int factor) {
  return fault(c, -35, "dimension %d of %s is folded by %d from %d, but an extern stage reads %d + %d", dimension, func,
               factor, valid_min, min, extent);
}
HOOK(fold_factor_too_small, const char *func, const char *var, int factor, const char *loop, int required) {
  return fault(c, -26, "%s of %s is folded by %d over loop %s, which needs %d", var, func, factor, loop, required);
}
HOOK(requirement_failed, const char *condition, const char *message) {
  return fault(c, -27, "requirement %s failed: %s", condition, message);
}
HOOK(buffer_extents_negative, const char *buffer, int dimension, int extent) {
  return fault(c, -28, "dimension %d of buffer %s has extent %d", dimension, buffer, extent);
}
HOOK(specialize_fail, const char *message) { return fault(c, -31, "no specialization fits: %s", message); }
HOOK(host_is_null, const char *func) { return fault(c, -34, "buffer %s has no data", func); }
HOOK(buffer_is_null, const char *routine) { return fault(c, -38, "a buffer given to %s is NULL", routine); }
HOOK(device_crop_failed) { return fault(c, -41, "cropping on the device failed"); }
HOOK(bad_dimensions, const char *func, int32_t given, int32_t correct) {
  return fault(c, -43, "%s has %d dimensions, expected %d", func, given, correct);
}
HOOK(device_dirty_with_no_device_support, const char *buffer) {
  return fault(c, -44, "buffer %s is dirty on a device, but the kernel runs on the host", buffer);
}
HOOK(storage_bound_too_small, const char *func, const char *var, int provided, int required) {
  return fault(c, -45, "storage bound %d for %s of %s is less than %d", provided, var, func, required);
}
HOOK(split_factor_not_positive, const char *func, const char *original, const char *outer, const char *inner,
     const char *factor_text, int factor) {
  return fault(c, -46, "%s of %s is split into %s and %s by %s = %d", original, func, outer, inner, factor_text,
               factor);
}
HOOK(vscale_invalid, const char *func, int at_run_time, int at_compile_time) {
  return fault(c, -47, "vscale of %s is %d, compiled for %d", func, at_run_time, at_compile_time);
}
