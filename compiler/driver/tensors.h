// The tensors that `--in` and `--out` name.
#pragma once

#include "compiler/driver/library.h"

#include <string>
#include <vector>

namespace heddle {

/// The words of `--in` as calls. A .safetensors file is a call of its own; NAME=FILE.npy words are gathered into one
/// until a name comes again.
Result<std::vector<TensorMap>> read_calls(const std::vector<std::string> &words);

/// The calls of --in, of which each has one of `entries`, or all the same one, and one of the `files` of another option
/// where these are given; else it is wrong usage.
Result<std::vector<TensorMap>> read_calls(const std::vector<std::string> &words,
                                          const std::vector<std::string> &entries, const char *option,
                                          const std::vector<std::string> &files);

/// A safetensors file, whole or not at all.
Status write_tensors(const std::string &path, const TensorMap &tensors);

/// One line per tensor: name, type, shape, range, mean and the first values.
std::string summary(const TensorMap &tensors);

} // namespace heddle
