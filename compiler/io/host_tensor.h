// Tensors on the host as files hold them: an element type, a shape and row-major little-endian bytes.
// Also their conversion to and from the evaluator's arrays, with the checks that every input gets.
#pragma once

#include "dsl/errors/result.h"
#include "dsl/interp/interp.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

enum class DType { f32, bf16, f16, f64, i8, i32, i64, u8, boolean };

size_t byte_width(DType dtype);
/// As in a safetensors header: "F32", "BF16", "F16", "F64", "I8", "I32", "I64", "U8", "BOOL"; and back.
std::string_view dtype_name(DType dtype);
std::optional<DType> find_dtype(std::string_view name);

/// Bytes that someone else owns (a mapped file, a HostTensor).
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  int64_t count() const;
};

struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  TensorView view() const { return {dtype, shape, bytes}; }
};

/// "[2, 37, 60]"
std::string shape_text(const std::vector<int64_t> &shape);

/// Elements `first` to `first + out.size() - 1` as f32. Any dtype; F64 is rounded.
void read_f32(const TensorView &tensor, int64_t first, std::span<float> out);
/// Elements from `first` on as elements of `dtype`, as many as `out` (which is aligned for them) has room for: floats
/// are rounded to nearest even, once; whole numbers must fit, which check_weights has seen to.
void read_as(const TensorView &tensor, DType dtype, int64_t first, std::span<std::byte> out);
/// One element of any dtype; I64 beyond 2^53 is rounded.
double read_element(const TensorView &tensor, int64_t index);

/// The type of the language that holds these elements: F64 gives f32, I64 and U8 give i32.
Type natural_type(DType dtype);
DType dtype_of(Type type);

/// An input of a call. Integers and bool are accepted as I8, I32, I64, U8 or BOOL where every value fits `wanted`;
/// floats are never converted. `name` is used in the message.
Result<Array> input_array(const TensorView &tensor, Type wanted, const std::string &name);
/// A weight: floats of any width are rounded to `wanted`, integers as for inputs.
Result<Array> weight_array(const TensorView &tensor, Type wanted, const std::string &name);
HostTensor host_tensor(const Array &array);

} // namespace heddle
