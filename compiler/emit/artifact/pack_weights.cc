// Each weight is cut into pieces of a few megabytes; threads take pieces and write them straight into the mapped
// file. A panel is a transposition: `width` rows along the axis become the innermost elements, which is done in
// blocks that stay in the first cache.
#include "compiler/emit/artifact/pack_weights.h"

#include "compiler/emit/artifact/parallel.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "runtime/abi.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace heddle {

using namespace mlir;

static constexpr int64_t payload_offset = 4096; // a page, so that the payload is aligned as the mapping is
static constexpr int64_t piece_elements = 1 << 20;

static const TensorView *find_tensor(ir::WeightOp weight, const WeightFiles &files) {
  for (auto name : weight.getNames().getAsRange<StringAttr>())
    if (const TensorView *tensor = files.find(name.str()))
      return tensor;
  return nullptr;
}

namespace {

/// A weight seen as [outer, extent, inner], where `extent` is the axis that is cut
/// into panels. Of the other axes, one of `last` elements that lie `step` apart comes innermost.
struct Panelled {
  int64_t outer = 1, extent = 1, inner = 1, width = 1, last = 1, step = 1;

  /// Where an element of [outer, inner] is among those of the panel.
  int64_t place(int64_t at) const { return (at / (last * step) * step + at % step) * last + at / step % last; }
};

/// The elements of a weight, in the order in which it has them, from the tensor of which it may be a part.
class Source {
public:
  Source(ir::WeightOp weight, const TensorView *tensor, DType dtype) : tensor_(tensor), dtype_(dtype) {
    if (!weight.getPart())
      return;
    for (auto [extent, place] : llvm::zip_equal(*weight.getPart(), *weight.getAt())) {
      if (extent == 1)
        continue;
      extents_.push_back(extent);
      at_.push_back(place);
      run_ = place < 0 ? run_ * extent : 1;
    }
    while (!at_.empty() && at_.back() < 0) { // what lies in one run
      extents_.pop_back();
      at_.pop_back();
    }
  }

  void read(int64_t begin, std::span<std::byte> out) const {
    if (at_.empty())
      return read_as(*tensor_, dtype_, begin, out);
    size_t each = byte_width(dtype_);
    while (!out.empty()) {
      int64_t within = begin % run_, count = std::min<int64_t>(run_ - within, out.size() / each);
      read_as(*tensor_, dtype_, start_of(begin / run_) + within, out.first(count * each));
      out = out.subspan(count * each);
      begin += count;
    }
  }

private:
  /// The element of the tensor with which a run begins.
  int64_t start_of(int64_t number) const {
    int64_t out = 0, step = run_;
    for (size_t axis = at_.size(); axis-- > 0; step *= extents_[axis])
      if (at_[axis] >= 0) {
        out += at_[axis] * step;
      } else {
        out += number % extents_[axis] * step;
        number /= extents_[axis];
      }
    return out;
  }

  const TensorView *tensor_;
  DType dtype_;                       // in the packed file
  SmallVector<int64_t> extents_, at_; // of the axes up to the last one that has one place
  int64_t run_ = 1;                   // elements that lie in one piece
};

/// Part of a weight that one thread writes: elements `begin` .. `end` of a row-major weight, or panels.
struct Piece {
  Source source;
  std::byte *to; // of the whole weight
  int64_t begin, end;
  int64_t each; // bytes of an element
  bool panels;
  Panelled shape;
};

} // namespace

/// Panels `begin` .. `end` of a weight: out[panel][outer][inner][width], or with the last axis right before the width.
/// Element: any type of as many bytes as the weight's.
template <class Element> static void write_panels(const Piece &piece) {
  const Panelled &s = piece.shape;
  std::vector<Element> rows(s.width * s.inner);
  for (int64_t panel = piece.begin; panel < piece.end; ++panel) {
    Element *out = reinterpret_cast<Element *>(piece.to) + panel * s.outer * s.inner * s.width;
    for (int64_t o = 0; o < s.outer; ++o) {
      int64_t first = panel * s.width, count = std::min(s.width, s.extent - first);
      piece.source.read((o * s.extent + first) * s.inner,
                        std::as_writable_bytes(std::span(rows.data(), count * s.inner)));
      std::fill(rows.begin() + count * s.inner, rows.end(), Element());
      constexpr int64_t block = 16; // columns: one cache line of each row
      for (int64_t i = 0; i < s.inner; i += block) {
        int64_t end = std::min(i + block, s.inner), places[block];
        for (int64_t k = i; k < end; ++k)
          places[k - i] = s.place(o * s.inner + k) * s.width;
        for (int64_t j = 0; j < s.width; ++j)
          for (int64_t k = i; k < end; ++k)
            out[places[k - i] + j] = rows[j * s.inner + k];
      }
    }
  }
}

static void write(const Piece &piece) {
  if (!piece.panels)
    piece.source.read(piece.begin,
                      {piece.to + piece.begin * piece.each, size_t((piece.end - piece.begin) * piece.each)});
  else if (piece.each == 4)
    write_panels<uint32_t>(piece);
  else if (piece.each == 2)
    write_panels<uint16_t>(piece);
  else
    write_panels<uint8_t>(piece);
}

static DType dtype_of_element(mlir::Type element) {
  if (element.isF32())
    return DType::f32;
  if (element.isBF16())
    return DType::bf16;
  if (element.isF16())
    return DType::f16;
  return element.isInteger(1) ? DType::boolean : element.isInteger(8) ? DType::i8 : DType::i32;
}

static std::vector<Piece> cut(ModuleOp module, const WeightsLayout &layout, const WeightFiles *files,
                              std::byte *payload) {
  std::vector<Piece> out;
  for (auto weight : module.getOps<ir::WeightOp>()) {
    auto type = cast<RankedTensorType>(weight.getType());
    Piece piece{.source = Source(weight, find_tensor(weight, *files), dtype_of_element(type.getElementType())),
                .to = payload + layout[weight.getSymName()].offset,
                .begin = 0,
                .end = type.getNumElements(),
                .each = passes::element_bytes(type.getElementType()),
                .panels = false,
                .shape = {}};
    int64_t step = piece_elements;
    if (auto panels = weight.getLayout()) {
      Panelled &s = piece.shape;
      s.width = panels->getWidth();
      for (auto [axis, extent] : llvm::enumerate(type.getShape()))
        (int64_t(axis) < panels->getAxis()    ? s.outer
         : int64_t(axis) == panels->getAxis() ? s.extent
                                              : s.inner) *= extent;
      if (panels->getLast() >= 0) {
        s.last = type.getDimSize(panels->getLast());
        for (int64_t axis = panels->getLast() + 1; axis < type.getRank(); ++axis)
          s.step *= axis == panels->getAxis() ? 1 : type.getDimSize(axis);
      }
      piece.panels = true;
      piece.end = llvm::divideCeil(s.extent, s.width);
      step = std::max<int64_t>(1, piece_elements / (s.outer * s.inner * s.width));
    }
    for (int64_t begin = 0, end = piece.end; begin < end; begin += step) {
      piece.begin = begin;
      piece.end = std::min(begin + step, end);
      out.push_back(piece);
    }
  }
  return out;
}

namespace {

/// A file of known size, mapped for writing.
class MappedOutput {
public:
  MappedOutput(const std::string &path, size_t bytes) : size_(bytes) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      error_ = errno;
    else if ((error_ = posix_fallocate(descriptor_, 0, bytes)) == 0) { // a full disk shows here, not as SIGBUS
      void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
      at == MAP_FAILED ? void(error_ = errno) : void(data_ = static_cast<std::byte *>(at));
    }
  }
  MappedOutput(const MappedOutput &) = delete;
  ~MappedOutput() {
    if (data_)
      munmap(data_, size_);
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  std::byte *data() const { return data_; }
  int error() const { return error_; }

private:
  size_t size_;
  int descriptor_ = -1, error_ = 0;
  std::byte *data_ = nullptr;
};

} // namespace

Status pack_weights(ModuleOp module, const WeightsLayout &layout, const WeightFiles *files, const std::string &path,
                    Progress &progress) {
  MappedOutput out(path, payload_offset + layout.payload_bytes);
  if (!out.data())
    return Error{path + ": cannot be written: " + std::strerror(out.error())};
  std::byte *payload = out.data() + payload_offset;

  std::vector<Piece> pieces = cut(module, layout, files, payload);
  progress.stage("packing weights", pieces.size());
  for_each_parallel(pieces.size(), [&](int64_t i) {
    write(pieces[i]);
    progress.step();
    return true;
  });

  heddle_weights_header header{};
  std::memcpy(header.magic, HEDDLE_WEIGHTS_MAGIC, sizeof header.magic);
  header.version = 1;
  header.header_bytes = sizeof header;
  header.payload_offset = payload_offset;
  header.payload_bytes = layout.payload_bytes;
  std::memcpy(header.id, layout.id.data(), sizeof header.id);
  header.checksum = llvm::xxHash64(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(payload), layout.payload_bytes));
  std::memcpy(out.data(), &header, sizeof header);
  return Done{};
}

} // namespace heddle
