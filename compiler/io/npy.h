// NumPy's .npy files: versions 1 to 3, C order, little-endian (or single bytes). bf16 is not in the format.
#pragma once

#include "compiler/io/host_tensor.h"

namespace heddle {

struct NpyArray {
  TensorView tensor; // looks into what was parsed
  bool fortran;      // its first axis is the one that varies fastest
};
/// The content of a .npy file; `where` is for messages.
Result<NpyArray> parse_npy(const std::string &where, std::span<const std::byte> bytes);

Result<HostTensor> read_npy(const std::string &path);

} // namespace heddle
