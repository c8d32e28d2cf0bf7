// What goes wrong on the device. An instruction that finds a fault throws; the launch catches it, and the driver
// turns it into the code that CUDA has for it. (Exceptions: an emulated trap leaves any depth of vector code.)
#pragma once

#include "tests/gpu/driver/types.h"

#include <stdexcept>
#include <string>

namespace ptx {

/// CUresult, as far as the emulator has a use for it.
enum class Code : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  invalid_ptx = 218,
  invalid_source = 300,
  file_not_found = 301,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  illegal_instruction = 715,
  misaligned_address = 716,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_unmatched = 903,
  stream_capture_unjoined = 904,
  graph_exec_update_failure = 910,
  unknown = 999,
};

struct Error : std::runtime_error {
  Code code;
  Error(Code code, const std::string &text) : std::runtime_error(text), code(code) {}
};

/// "0x7f00"
std::string hex(u64 value);

} // namespace ptx
