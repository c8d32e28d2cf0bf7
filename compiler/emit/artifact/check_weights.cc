// A tensor is found under the first of its names that the files have. Values are looked at only where the model's type
// holds fewer of them than the file's.
#include "compiler/emit/artifact/check_weights.h"

#include "dsl/check/check.h"

#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <map>
#include <set>

namespace heddle {

static const char *const suspicion = "; do the settings (config.json, --set) belong to these weights?";

static const TensorView *find(const Weight &weight, const WeightFiles &files, std::string &name) {
  for (const std::string &candidate : weight.names)
    if (const TensorView *tensor = files.find(candidate)) {
      name = candidate;
      return tensor;
    }
  return nullptr;
}

/// The first value that the model's type cannot hold: a whole number out of its range, or one that would become
/// infinite.
static std::string unfit_value(const TensorView &tensor, Type type) {
  if (tensor.dtype == dtype_of(type))
    return "";
  auto outside = [&](double value) {
    switch (type) {
    case Type::i8:
      return value < -128 || value > 127;
    case Type::i32:
      return value < -0x1p31 || value >= 0x1p31;
    case Type::boolean:
      return value != 0 && value != 1;
    case Type::f16:
      return std::isfinite(value) && std::fabs(value) >= 65520;
    default:
      return false;
    }
  };
  if (type == Type::f32 || type == Type::bf16)
    return "";
  for (int64_t i = 0, n = tensor.count(); i < n; ++i)
    if (double value = read_element(tensor, i); outside(value)) {
      char text[64];
      std::snprintf(text, sizeof text, "%.9g", value);
      return text;
    }
  return "";
}

/// Of those that no weight reads; "" where there is none.
static std::string nearest_name(const std::string &name, const Program &program, const WeightFiles &files) {
  std::string best;
  unsigned distance = ~0u;
  for (const std::string &candidate : unread_tensors(program, files))
    if (unsigned d = llvm::StringRef(name).edit_distance(candidate, true, distance); d < distance)
      distance = d, best = candidate;
  return best;
}

/// The line of the user's files that declares a weight; one of a module of the prelude has its place in its name.
static std::string reader_of(const Weight &weight, const Sources &sources) {
  Span span = weight.tensor->span;
  if (!span.valid() || is_in_prelude(sources, span))
    return "the model";
  return sources.path(span.file) + ":" + std::to_string(sources.position(span.file, span.begin).line);
}

static Status check_weight(const Weight &weight, const Program &program, const Sources &sources,
                           const WeightFiles &files) {
  std::string name = weight.names[0];
  const TensorView *tensor = find(weight, files, name);
  if (!tensor) {
    std::string message = files.path() + ": there is no tensor `" + name + "`";
    for (size_t i = 1; i < weight.names.size(); ++i)
      message += " (nor `" + weight.names[i] + "`)";
    message += ", which " + reader_of(weight, sources) + " reads";
    std::string near = nearest_name(name, program, files);
    return Error{message + (near.empty() ? suspicion : "; the nearest name that nothing reads is `" + near + "`")};
  }
  if (tensor->shape != weight.stored)
    return Error{files.path() + ": tensor `" + name + "` has shape " + shape_text(tensor->shape) + ", " +
                 reader_of(weight, sources) + " wants " + shape_text(weight.stored) + suspicion};
  Type type = weight.tensor->type;
  if (is_floating(type) != is_floating(natural_type(tensor->dtype)))
    return Error{files.path() + ": tensor `" + name + "` is " + std::string(dtype_name(tensor->dtype)) + ", " +
                 reader_of(weight, sources) + " wants " + (is_floating(type) ? "a floating-point type" : "integers")};
  if (std::string value = unfit_value(*tensor, type); !value.empty())
    return Error{files.path() + ": tensor `" + name + "` has the value " + value + ", which " + type_name(type) +
                 " cannot hold" + (type == Type::f16 ? "; bf16 has the range of f32" : "")};
  return Done{};
}

Status check_weights(const Program &program, const Sources &sources, const WeightFiles &files) {
  for (const Weight &weight : program.weights)
    if (Status status = check_weight(weight, program, sources, files); !status)
      return status;
  return Done{};
}

std::vector<std::string> unread_tensors(const Program &program, const WeightFiles &files) {
  std::set<std::string> read;
  for (const Weight &weight : program.weights)
    if (std::string name; find(weight, files, name))
      read.insert(name);
  std::vector<std::string> out;
  for (const auto &[name, tensor] : files.tensors())
    if (!read.contains(name))
      out.push_back(name);
  return out;
}

std::string weight_conversions(const Program &program, const WeightFiles &files) {
  std::map<std::string, int> counts;
  for (const Weight &weight : program.weights) {
    std::string name;
    const TensorView *tensor = find(weight, files, name);
    if (!tensor || tensor->dtype == dtype_of(weight.tensor->type) || !is_floating(weight.tensor->type))
      continue;
    bool wider = byte_width(tensor->dtype) < byte_width(dtype_of(weight.tensor->type));
    ++counts[std::string(wider ? "widened" : "rounded") + " from " + std::string(dtype_name(tensor->dtype)) + " to " +
             type_name(weight.tensor->type)];
  }
  std::string out;
  for (const auto &[what, count] : counts)
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  return out;
}

} // namespace heddle
