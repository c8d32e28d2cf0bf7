// Conversions element by element. f16 and bf16 are rounded to nearest even, as the runtime rounds them.
#include "compiler/io/host_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace heddle {
namespace {

struct Row {
  DType dtype;
  const char *name;
  size_t width;
};
constexpr Row rows[] = {{DType::f32, "F32", 4}, {DType::bf16, "BF16", 2}, {DType::f16, "F16", 2},
                        {DType::f64, "F64", 8}, {DType::i8, "I8", 1},     {DType::i32, "I32", 4},
                        {DType::i64, "I64", 8}, {DType::u8, "U8", 1},     {DType::boolean, "BOOL", 1}};

template <class T> T load(const std::byte *at) {
  T out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
template <class T> void store(std::byte *at, T value) { std::memcpy(at, &value, sizeof value); }

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float from_f16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 0) { // subnormal: a multiple of 2^-24
    float size = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -size : size;
  }
  uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

/// Rounds a double to `mantissa` explicit bits with the exponents of a format whose smallest normal is 2^least and
/// whose largest finite value is `most`.
double round_to(double value, int mantissa, int least, double most) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), least);
  double unit = std::ldexp(1.0, exponent - mantissa);
  double rounded = std::nearbyint(value / unit) * unit;
  return std::fabs(rounded) > most ? std::copysign(HUGE_VAL, value) : rounded;
}

double round_f16(double value) { return round_to(value, 10, -14, 65504.0); }
double round_bf16(double value) { return round_to(value, 7, -126, 3.3895313892515355e38); }

uint16_t to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffff;
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (size >= 0x477ff000) // 65520 and more
    return sign | 0x7c00;
  if (size < 0x38800000) // below 2^-14: the addition rounds to a multiple of 2^-24
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000);
  return sign | static_cast<uint16_t>((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

/// Elements `first` … of a tensor of floats as the 16 bits of `dtype`.
void read_half(const TensorView &tensor, DType dtype, int64_t first, std::span<uint16_t> out) {
  bool bf16 = dtype == DType::bf16;
  if (tensor.dtype == DType::f64) { // once, not through f32
    for (size_t i = 0; i < out.size(); ++i) {
      double value = read_element(tensor, first + i);
      float narrow = static_cast<float>(bf16 ? round_bf16(value) : round_f16(value));
      out[i] = bf16 ? to_bf16(narrow) : to_f16(narrow);
    }
    return;
  }
  constexpr size_t some = 256;
  float wide[some];
  for (size_t done = 0; done < out.size(); done += some) {
    size_t count = std::min(some, out.size() - done);
    read_f32(tensor, first + done, {wide, count});
    for (size_t i = 0; i < count; ++i)
      out[done + i] = bf16 ? to_bf16(wide[i]) : to_f16(wide[i]);
  }
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}

double rounded(double value, Type type) {
  switch (type) {
  case Type::f32:
    return static_cast<float>(value);
  case Type::f16:
    return round_f16(value);
  case Type::bf16:
    return round_bf16(value);
  default:
    return value;
  }
}

/// "[1, 2]" for the element `at` in row-major order.
std::string place_text(const std::vector<int64_t> &shape, int64_t at) {
  std::vector<int64_t> place(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    place[d] = at % shape[d];
    at /= shape[d];
  }
  return shape_text(place);
}

Result<Array> integers(const TensorView &tensor, Type wanted, const std::string &name) {
  double least = wanted == Type::boolean ? 0 : wanted == Type::i8 ? -128 : std::numeric_limits<int32_t>::min();
  double most = wanted == Type::boolean ? 1 : wanted == Type::i8 ? 127 : std::numeric_limits<int32_t>::max();
  Array out{wanted, tensor.shape, std::vector<double>(tensor.count())};
  for (size_t i = 0; i < out.data.size(); ++i) {
    double value = read_element(tensor, i);
    if (value < least || value > most)
      return Error{"`" + name + "` has the value " + std::to_string(static_cast<int64_t>(value)) + " at " +
                   place_text(tensor.shape, i) + ", which is no " + type_name(wanted) + ": the values go from " +
                   std::to_string(static_cast<int64_t>(least)) + " to " + std::to_string(static_cast<int64_t>(most))};
    out.data[i] = value;
  }
  return out;
}

Array floats(const TensorView &tensor, Type wanted) {
  Array out{wanted, tensor.shape, std::vector<double>(tensor.count())};
  for (size_t i = 0; i < out.data.size(); ++i)
    out.data[i] = rounded(read_element(tensor, i), wanted);
  return out;
}

} // namespace

size_t byte_width(DType dtype) { return rows[static_cast<int>(dtype)].width; }
std::string_view dtype_name(DType dtype) { return rows[static_cast<int>(dtype)].name; }

std::optional<DType> find_dtype(std::string_view name) {
  for (const Row &row : rows)
    if (name == row.name)
      return row.dtype;
  return std::nullopt;
}

int64_t TensorView::count() const {
  int64_t out = 1;
  for (int64_t extent : shape)
    out *= extent;
  return out;
}

std::string shape_text(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

double read_element(const TensorView &tensor, int64_t index) {
  const std::byte *at = tensor.bytes.data() + index * byte_width(tensor.dtype);
  switch (tensor.dtype) {
  case DType::f32:
    return load<float>(at);
  case DType::bf16:
    return from_bf16(load<uint16_t>(at));
  case DType::f16:
    return from_f16(load<uint16_t>(at));
  case DType::f64:
    return load<double>(at);
  case DType::i8:
    return load<int8_t>(at);
  case DType::i32:
    return load<int32_t>(at);
  case DType::i64:
    return static_cast<double>(load<int64_t>(at));
  case DType::u8:
    return load<uint8_t>(at);
  case DType::boolean:
    return load<uint8_t>(at) != 0;
  }
  return 0;
}

void read_f32(const TensorView &tensor, int64_t first, std::span<float> out) {
  const std::byte *at = tensor.bytes.data() + first * byte_width(tensor.dtype);
  if (tensor.dtype == DType::f32) {
    std::memcpy(out.data(), at, out.size_bytes());
  } else if (tensor.dtype == DType::bf16) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = from_bf16(load<uint16_t>(at + 2 * i));
  } else if (tensor.dtype == DType::f16) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = from_f16(load<uint16_t>(at + 2 * i));
  } else {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(read_element(tensor, first + i));
  }
}

void read_as(const TensorView &tensor, DType dtype, int64_t first, std::span<std::byte> out) {
  size_t width = byte_width(dtype);
  if (tensor.dtype == dtype) {
    std::memcpy(out.data(), tensor.bytes.data() + first * width, out.size());
  } else if (dtype == DType::f32) {
    read_f32(tensor, first, {reinterpret_cast<float *>(out.data()), out.size() / width});
  } else if (dtype == DType::bf16 || dtype == DType::f16) {
    read_half(tensor, dtype, first, {reinterpret_cast<uint16_t *>(out.data()), out.size() / width});
  } else {
    for (size_t i = 0; i < out.size() / width; ++i) {
      int64_t value = read_element(tensor, first + i);
      std::memcpy(out.data() + i * width, &value, width); // little-endian: the low bytes
    }
  }
}

Type natural_type(DType dtype) {
  switch (dtype) {
  case DType::f32:
  case DType::f64:
    return Type::f32;
  case DType::bf16:
    return Type::bf16;
  case DType::f16:
    return Type::f16;
  case DType::i8:
    return Type::i8;
  case DType::i32:
  case DType::i64:
  case DType::u8:
    return Type::i32;
  case DType::boolean:
    return Type::boolean;
  }
  return Type::f32;
}

DType dtype_of(Type type) {
  switch (type) {
  case Type::f32:
    return DType::f32;
  case Type::f16:
    return DType::f16;
  case Type::bf16:
    return DType::bf16;
  case Type::i32:
    return DType::i32;
  case Type::i8:
    return DType::i8;
  case Type::boolean:
    return DType::boolean;
  }
  return DType::f32;
}

Result<Array> input_array(const TensorView &tensor, Type wanted, const std::string &name) {
  bool right = is_floating(wanted) ? tensor.dtype == dtype_of(wanted) : !is_float(tensor.dtype);
  if (!right)
    return Error{"`" + name + "` is " + std::string(dtype_name(tensor.dtype)) + "; it must be " +
                 (is_floating(wanted) ? std::string(dtype_name(dtype_of(wanted))) : "I8, I32, I64, U8 or BOOL") +
                 ", for inputs are never converted between integers and floats or between widths of floats"};
  if (is_floating(wanted))
    return floats(tensor, wanted);
  return integers(tensor, wanted, name);
}

Result<Array> weight_array(const TensorView &tensor, Type wanted, const std::string &name) {
  if (is_floating(wanted) != is_float(tensor.dtype))
    return Error{"the weight `" + name + "` is " + std::string(dtype_name(tensor.dtype)) + "; the model reads it as " +
                 type_name(wanted)};
  if (is_floating(wanted))
    return floats(tensor, wanted);
  return integers(tensor, wanted, name);
}

HostTensor host_tensor(const Array &array) {
  HostTensor out{dtype_of(array.type), array.shape, {}};
  size_t width = byte_width(out.dtype);
  out.bytes.resize(array.data.size() * width);
  for (size_t i = 0; i < array.data.size(); ++i) {
    std::byte *at = out.bytes.data() + i * width;
    double value = array.data[i];
    switch (array.type) {
    case Type::f32:
      store(at, static_cast<float>(value));
      break;
    case Type::f16:
      store(at, to_f16(static_cast<float>(value)));
      break;
    case Type::bf16:
      store(at, to_bf16(static_cast<float>(value)));
      break;
    case Type::i32:
      store(at, static_cast<int32_t>(value));
      break;
    case Type::i8:
      store(at, static_cast<int8_t>(value));
      break;
    case Type::boolean:
      store(at, static_cast<uint8_t>(value != 0));
      break;
    }
  }
  return out;
}

} // namespace heddle
