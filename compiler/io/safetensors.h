// The safetensors format: 8 bytes with the header's length, a JSON header that names tensors with dtype, shape
// and offsets, then their bytes. Files are mapped, not read, and checked wholly before the first use.
#pragma once

#include "compiler/io/host_tensor.h"
#include "compiler/io/input.h"

#include <map>

namespace heddle {

class Safetensors {
public:
  static Result<Safetensors> open(const std::string &path);

  const std::string &path() const { return path_; }
  /// Valid while a copy of this object lives.
  const std::map<std::string, TensorView> &tensors() const { return tensors_; }
  const TensorView *find(const std::string &name) const;
  /// The file's `__metadata__`.
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes the file whole or not at all. Tensors are in the order of their names, each aligned to its element.
Status write_safetensors(const std::string &path, const std::map<std::string, TensorView> &tensors,
                         const std::map<std::string, std::string> &metadata = {});

} // namespace heddle
