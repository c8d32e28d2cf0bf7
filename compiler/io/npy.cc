// A .npy file: the magic "\x93NUMPY", a version, the header's length, a Python dictionary with exactly the keys
// descr, fortran_order and shape, then the elements.
#include "compiler/io/npy.h"

#include "compiler/io/input.h"

#include <cctype>
#include <charconv>
#include <cstring>

namespace heddle {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr descrs[] = {{"<f4", DType::f32}, {"<f2", DType::f16}, {"<f8", DType::f64}, {"|i1", DType::i8},
                            {"<i4", DType::i32}, {"<i8", DType::i64}, {"|u1", DType::u8},  {"|b1", DType::boolean}};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

/// Reads the dictionary that NumPy writes: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  std::optional<Header> read() {
    Header out;
    int seen = 0;
    if (!eat('{'))
      return std::nullopt;
    while (!eat('}')) {
      std::optional<std::string> key = string();
      if (!key || !eat(':'))
        return std::nullopt;
      if (*key == "descr") {
        std::optional<std::string> descr = string();
        if (!descr)
          return std::nullopt;
        out.descr = *descr;
        seen |= 1;
      } else if (*key == "fortran_order") {
        out.fortran = word("True");
        if (!out.fortran && !word("False"))
          return std::nullopt;
        seen |= 2;
      } else if (*key == "shape") {
        if (!shape(out.shape))
          return std::nullopt;
        seen |= 4;
      } else {
        return std::nullopt;
      }
      if (!eat(',') && peek() != '}')
        return std::nullopt;
    }
    return seen == 7 && peek() == '\0' ? std::optional(out) : std::nullopt;
  }

private:
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(char c) {
    if (peek() != c)
      return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    peek();
    if (text_.substr(at_, w.size()) != w)
      return false;
    at_ += w.size();
    return true;
  }
  std::optional<std::string> string() {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      return std::nullopt;
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool shape(std::vector<int64_t> &out) {
    if (!eat('('))
      return false;
    while (!eat(')')) {
      peek();
      int64_t extent = -1;
      auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (status != std::errc() || extent < 0)
        return false;
      at_ = end - text_.data();
      out.push_back(extent);
      if (!eat(',') && peek() != ')')
        return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

} // namespace

Result<NpyArray> parse_npy(const std::string &path, std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (text.substr(0, magic.size()) != magic || text.size() < 12)
    return Error{path + ": is no .npy file"};
  int version = text[6];
  if (version < 1 || version > 3)
    return Error{path + ": has version " + std::to_string(version) + " of the .npy format; versions 1 to 3 are read"};
  size_t length_width = version == 1 ? 2 : 4, length = 0;
  std::memcpy(&length, text.data() + 8, length_width);
  size_t start = 8 + length_width;
  if (length > text.size() - start)
    return Error{path + ": is truncated: its header has " + std::to_string(length) + " bytes, the file only " +
                 std::to_string(text.size())};
  std::optional<Header> header = HeaderReader(text.substr(start, length)).read();
  if (!header)
    return Error{path + ": is no .npy file: its header cannot be read"};
  const Descr *descr = nullptr;
  for (const Descr &d : descrs)
    if (header->descr == d.text ||
        (d.text[0] == '|' && header->descr.size() == 3 && header->descr.substr(1) == d.text.substr(1)))
      descr = &d;
  if (!descr && !header->descr.empty() && header->descr[0] == '>')
    return Error{path + ": its elements (" + header->descr + ") are big-endian; save it in little-endian order"};
  if (!descr)
    return Error{path + ": its element type " + header->descr +
                 " is not supported; save it as float32, float16, float64, int8, int32, int64, uint8 or bool"};

  TensorView out{descr->dtype, header->shape, {}};
  size_t have = text.size() - start - length;
  size_t need = byte_width(out.dtype);
  for (int64_t extent : out.shape)
    if (__builtin_mul_overflow(need, static_cast<size_t>(extent), &need))
      return Error{path + ": its shape " + shape_text(out.shape) + " is too large"};
  if (have != need)
    return Error{path + ": its shape " + shape_text(out.shape) + " takes " + std::to_string(need) +
                 " bytes, but the file has " + std::to_string(have) + "; the file is truncated or damaged"};
  out.bytes = bytes.last(have);
  return NpyArray{out, header->fortran && header->shape.size() > 1};
}

Result<HostTensor> read_npy(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  Result<NpyArray> array = parse_npy(path, file->bytes());
  if (!array)
    return array.error();
  if (array->fortran)
    return Error{path + ": is in Fortran order; save numpy.ascontiguousarray of it"};
  const TensorView &tensor = array->tensor;
  return HostTensor{tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
}

} // namespace heddle
