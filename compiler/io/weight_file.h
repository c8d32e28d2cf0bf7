// One file of named tensors, in any format that weights come in: safetensors, NumPy's archives (.npz) and what PyTorch
// saves (.pt, .bin). The format is told by the first bytes, not by the name.
#pragma once

#include "compiler/io/host_tensor.h"

#include <map>
#include <memory>

namespace heddle {

struct WeightFile {
  std::map<std::string, TensorView> tensors; // valid while a copy of `bytes` lives
  std::shared_ptr<const void> bytes;         // the mapping, and what had to be unpacked or put in order
};

Result<WeightFile> open_weight_file(const std::string &path);

/// Words of a file as a message can have them: control characters become question marks.
std::string one_line(std::string text);

} // namespace heddle
