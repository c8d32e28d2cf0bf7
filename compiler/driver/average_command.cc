// `average`: one file of weights from several, the checkpoints of a run: of each tensor the mean of its elements.
#include "compiler/driver/commands.h"
#include "compiler/io/safetensors.h"
#include "compiler/io/weight_file.h"

#include <algorithm>

namespace heddle {

/// `all`: the tensor of that name of each file.
static Result<HostTensor> mean_of(const std::string &name, const std::vector<TensorView> &all,
                                  const std::vector<std::string> &files) {
  const TensorView &first = all[0];
  HostTensor out{first.dtype, first.shape, std::vector<std::byte>(first.bytes.begin(), first.bytes.end())};
  bool real =
      first.dtype == DType::f32 || first.dtype == DType::bf16 || first.dtype == DType::f16 || first.dtype == DType::f64;
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].dtype != first.dtype || all[i].shape != first.shape)
      return Error{files[i] + ": `" + name + "` is " + std::string(dtype_name(all[i].dtype)) +
                   shape_text(all[i].shape) + ", but " + std::string(dtype_name(first.dtype)) +
                   shape_text(first.shape) + " in " + files[0] + "; average checkpoints of one model"};
    if (!real && !std::ranges::equal(all[i].bytes, first.bytes))
      return Error{files[i] + ": `" + name + "` holds other whole numbers than in " + files[0] +
                   ", which have no mean; average checkpoints of one model"};
  }
  if (!real)
    return out;
  std::vector<double> means(first.count());
  for (const TensorView &one : all)
    for (size_t i = 0; i < means.size(); ++i)
      means[i] += read_element(one, int64_t(i)) / double(all.size());
  read_as({DType::f64, first.shape, std::as_bytes(std::span(means))}, first.dtype, 0, out.bytes);
  return out;
}

Status average_command(const AverageCommand &options) {
  std::vector<WeightFile> files;
  for (const std::string &path : options.files) {
    Result<WeightFile> file = open_weight_file(path);
    if (!file)
      return file.error();
    files.push_back(std::move(*file));
    for (const auto &[name, tensor] : files.back().tensors)
      if (!files.front().tensors.count(name))
        return Error{path + ": has `" + name + "`, which " + options.files[0] +
                     " lacks; average checkpoints of one model"};
  }
  std::map<std::string, HostTensor> means;
  std::map<std::string, TensorView> views;
  for (const auto &[name, tensor] : files[0].tensors) {
    std::vector<TensorView> all;
    for (size_t i = 0; i < files.size(); ++i) {
      auto found = files[i].tensors.find(name);
      if (found == files[i].tensors.end())
        return Error{options.files[i] + ": lacks `" + name + "`, which " + options.files[0] +
                     " has; average checkpoints of one model"};
      all.push_back(found->second);
    }
    Result<HostTensor> mean = mean_of(name, all, options.files);
    if (!mean)
      return mean.error();
    views[name] = (means[name] = std::move(*mean)).view();
  }
  return write_safetensors(options.output, views);
}

} // namespace heddle
