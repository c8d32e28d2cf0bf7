// What a kernel compiled with asserts calls when a promise about a buffer is broken: the name of the check is printed
// and the kernel returns it as its status. Kept from Halide's own declarations, whose many signatures don't matter
// here.
#include <cstdio>

#define BROKEN(name)                                                                                                   \
  extern "C" __attribute__((visibility("default"))) int name() {                                                       \
    std::fprintf(stderr, "a kernel failed its check %s\n", #name);                                                     \
    return -1;                                                                                                         \
  }

BROKEN(halide_error_access_out_of_bounds)
BROKEN(halide_error_bad_dimensions)
BROKEN(halide_error_bad_extern_fold)
BROKEN(halide_error_bad_fold)
BROKEN(halide_error_bad_type)
BROKEN(halide_error_bounds_inference_call_failed)
BROKEN(halide_error_buffer_allocation_too_large)
BROKEN(halide_error_buffer_argument_is_null)
BROKEN(halide_error_buffer_extents_negative)
BROKEN(halide_error_buffer_extents_too_large)
BROKEN(halide_error_buffer_is_null)
BROKEN(halide_error_constraint_violated)
BROKEN(halide_error_constraints_make_required_region_smaller)
BROKEN(halide_error_device_dirty_with_no_device_support)
BROKEN(halide_error_device_interface_no_device)
BROKEN(halide_error_explicit_bounds_too_small)
BROKEN(halide_error_extern_stage_failed)
BROKEN(halide_error_fold_factor_too_small)
BROKEN(halide_error_host_and_device_dirty)
BROKEN(halide_error_host_is_null)
BROKEN(halide_error_integer_division_by_zero)
BROKEN(halide_error_no_device_interface)
BROKEN(halide_error_param_too_large_f64)
BROKEN(halide_error_param_too_large_i64)
BROKEN(halide_error_param_too_large_u64)
BROKEN(halide_error_param_too_small_f64)
BROKEN(halide_error_param_too_small_i64)
BROKEN(halide_error_param_too_small_u64)
BROKEN(halide_error_requirement_failed)
BROKEN(halide_error_specialize_fail)
BROKEN(halide_error_split_factor_not_positive)
BROKEN(halide_error_storage_bound_too_small)
BROKEN(halide_error_unaligned_host_ptr)
BROKEN(halide_error_vscale_invalid)
