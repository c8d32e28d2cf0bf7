// What torch.save writes of a dictionary of tensors: since PyTorch 1.6 an archive, before a stream of pickles and
// bytes. The pickle is read as data (pickle.h): of the names in it only those of tensors are known.
#pragma once

#include "compiler/io/input.h"
#include "compiler/io/weight_file.h"
#include "compiler/io/zip.h"

#include <deque>

namespace heddle {

/// What the tensors of a file look into.
struct WeightBytes {
  MappedFile file;
  std::deque<std::vector<std::byte>> made;
};

Result<WeightFile> read_torch_archive(const std::string &path, const std::vector<ZipMember> &members,
                                      std::shared_ptr<WeightBytes> bytes);
/// Whether a file begins as torch.save did before 1.6.
bool is_torch_stream(std::string_view bytes);
Result<WeightFile> read_torch_stream(const std::string &path, std::shared_ptr<WeightBytes> bytes);

/// The elements of a tensor whose axes step through its bytes by `strides` elements, in row-major order, put into
/// `room`. All of them lie in the tensor's bytes.
std::span<const std::byte> in_order(const TensorView &tensor, const std::vector<int64_t> &strides,
                                    std::vector<std::byte> &room);

} // namespace heddle
