// A tensor is found under the first of its names that the files have.
#include "compiler/emit/artifact/check_weights.h"

#include "llvm/ADT/StringRef.h"

namespace heddle {

static std::string nearest_name(const std::string &name, const WeightFiles &files) {
  std::string best;
  unsigned distance = ~0u;
  for (const auto &[candidate, tensor] : files.tensors())
    if (unsigned d = llvm::StringRef(name).edit_distance(candidate, true, distance); d < distance)
      distance = d, best = candidate;
  return best;
}

static Status check_weight(const Weight &weight, const WeightFiles &files) {
  const TensorView *tensor = nullptr;
  std::string name = weight.names[0];
  for (size_t i = 0; i < weight.names.size() && !tensor; ++i)
    if ((tensor = files.find(weight.names[i])))
      name = weight.names[i];
  if (!tensor) {
    std::string message = files.path() + ": there is no tensor `" + name + "`";
    for (size_t i = 1; i < weight.names.size(); ++i)
      message += " (nor `" + weight.names[i] + "`)";
    if (std::string near = nearest_name(name, files); !near.empty())
      message += "; the nearest name in it is `" + near + "`";
    return Error{message};
  }
  if (tensor->shape != weight.stored)
    return Error{files.path() + ": tensor `" + name + "` has shape " + shape_text(tensor->shape) +
                 ", the model wants " + shape_text(weight.stored) +
                 "; do the settings (config.json, --set) belong to these weights?"};
  auto real = [](Type type) { return type == Type::f32 || type == Type::f16 || type == Type::bf16; };
  if (real(weight.tensor->type) != real(natural_type(tensor->dtype)))
    return Error{files.path() + ": tensor `" + name + "` is " + std::string(dtype_name(tensor->dtype)) +
                 ", the model wants " + (real(weight.tensor->type) ? "a floating-point type" : "integers")};
  return Done{};
}

Status check_weights(const Program &program, const WeightFiles &files) {
  for (const Weight &weight : program.weights)
    if (Status status = check_weight(weight, files); !status)
      return status;
  return Done{};
}

} // namespace heddle
