// NumPy's .npy files: versions 1 to 3, C order, little-endian (or single bytes). bf16 is not in the format.
#pragma once

#include "compiler/io/host_tensor.h"

namespace heddle {

Result<HostTensor> read_npy(const std::string &path);
Status write_npy(const std::string &path, const TensorView &tensor);

} // namespace heddle
