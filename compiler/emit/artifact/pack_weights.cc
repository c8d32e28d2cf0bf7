// Each weight is cut into pieces of a few megabytes; threads take pieces and write them straight to their place in the
// file, which is all zeros before: that is the padding. A layout is a transposition, done in blocks that stay in the
// first cache.
#include "compiler/emit/artifact/pack_weights.h"

#include "compiler/emit/artifact/computed.h"
#include "compiler/emit/artifact/gather.h"
#include "compiler/emit/artifact/parallel.h"
#include "compiler/emit/artifact/quantize.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/entry_values.h"
#include "runtime/abi.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstring>
#include <memory>

namespace heddle {

using namespace mlir;

static constexpr int64_t payload_offset = 4096; // a page, so that the payload is aligned as the mapping is
static constexpr int64_t piece_elements = 1 << 20;

/// What the weights of a module are taken from.
struct Tensors {
  TensorView find(ir::WeightOp weight) const {
    if (weight.getComputed())
      return computed.find(weight);
    for (auto name : weight.getNames().getAsRange<StringAttr>())
      if (const TensorView *tensor = files->find(name.str()))
        return *tensor;
    return {};
  }

  const WeightFiles *files; // null: the model has none
  ComputedWeights computed = {};
};

namespace {

/// A weight with a layout, seen as [outer, lanes, inner]: `lanes` is the axis of which most elements lie close to each
/// other. Where an element lies is the sum of three addresses.
struct LaidOut {
  LaidOut(RankedTensorType type, AffineMap layout) {
    layout::Addresses addresses(layout, type.getShape());
    unsigned axis = 0;
    for (AffineExpr result : layout.getResults())
      if (layout::Digit digit = *layout::digit_of(result); digit.radix == 0 && digit.divisor > group) {
        axis = digit.axis;
        group = digit.divisor;
      }
    outer = addresses.along(0, axis);
    lanes = addresses.along(axis).vec();
    inner = addresses.along(axis + 1, unsigned(type.getRank()));
  }

  std::vector<int64_t> outer, lanes, inner; // addresses
  int64_t group = 1;                        // indices of the axis `lanes` that no other ones lie between
};

/// The elements of a weight, in the order in which it has them, from the tensor of which it may be a part.
class Source {
public:
  Source(ir::WeightOp weight, TensorView tensor, DType dtype) : tensor_(std::move(tensor)), dtype_(dtype) {
    if (auto gathered = weight.getGathered())
      gather_ = std::make_shared<Gather>(*gathered);
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

  /// What is derived from these elements, read as floats, instead of them.
  void derive(std::shared_ptr<const Quantization> quantization, ir::Derivation what) {
    quantization_ = std::move(quantization);
    derivation_ = what;
  }

  void read(int64_t begin, std::span<std::byte> out) const {
    if (quantization_)
      return quantization_->read(derivation_, begin, out);
    if (gather_)
      return gather(begin, out);
    if (at_.empty())
      return read_as(tensor_, dtype_, begin, out);
    size_t each = byte_width(dtype_);
    while (!out.empty()) {
      int64_t within = begin % run_, count = std::min<int64_t>(run_ - within, out.size() / each);
      read_as(tensor_, dtype_, start_of(begin / run_) + within, out.first(count * each));
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

  void gather(int64_t begin, std::span<std::byte> out) const {
    size_t each = byte_width(dtype_);
    gather_->for_each(begin, out.size() / each, [&](size_t i, int64_t from) {
      std::span<std::byte> element = out.subspan(i * each, each);
      if (from < 0)
        std::ranges::fill(element, std::byte(0));
      else
        read_as(tensor_, dtype_, from, element);
    });
  }

  TensorView tensor_;
  DType dtype_;                       // in the packed file
  SmallVector<int64_t> extents_, at_; // of the axes up to the last one that has one place
  int64_t run_ = 1;                   // elements that lie in one piece
  std::shared_ptr<const Gather> gather_;
  std::shared_ptr<const Quantization> quantization_;
  ir::Derivation derivation_ = ir::Derivation::quantized;
};

/// Part of a weight that one thread writes: elements `begin` .. `end` of a row-major weight, or groups of lanes.
struct Piece {
  Source source;
  std::byte *to; // of the whole weight
  int64_t begin, end;
  int64_t each; // bytes of an element
  std::shared_ptr<const LaidOut> layout;
};

} // namespace

/// Groups `begin` .. `end` of a weight. Element: any type of as many bytes as the weight's.
template <class Element> static void write_groups(const Piece &piece) {
  const LaidOut &at = *piece.layout;
  int64_t extent = at.lanes.size(), inner = at.inner.size();
  std::vector<Element> rows(at.group * inner);
  Element *out = reinterpret_cast<Element *>(piece.to);
  for (int64_t first = piece.begin * at.group; first < std::min(piece.end * at.group, extent); first += at.group) {
    int64_t count = std::min(at.group, extent - first);
    for (size_t o = 0; o < at.outer.size(); ++o) {
      piece.source.read((o * extent + first) * inner, std::as_writable_bytes(std::span(rows.data(), count * inner)));
      constexpr int64_t block = 16; // columns: one cache line of each row
      for (int64_t i = 0; i < inner; i += block)
        for (int64_t j = 0; j < count; ++j) {
          Element *row = out + at.outer[o] + at.lanes[first + j];
          for (int64_t k = i; k < std::min(i + block, inner); ++k)
            row[at.inner[k]] = rows[j * inner + k];
        }
    }
  }
}

static void write(const Piece &piece) {
  if (!piece.layout)
    piece.source.read(piece.begin,
                      {piece.to + piece.begin * piece.each, size_t((piece.end - piece.begin) * piece.each)});
  else if (piece.each == 4)
    write_groups<uint32_t>(piece);
  else if (piece.each == 2)
    write_groups<uint16_t>(piece);
  else
    write_groups<uint8_t>(piece);
}

/// Which floats a derived weight comes from, as text: equal for its numbers, scales and sums.
static std::string floats_of(ir::WeightOp weight) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << weight.getNames() << weight.getPartAttr() << weight.getAtAttr() << weight.getGatheredAttr()
      << weight.getComputedAttr();
  for (int64_t extent : weight.getDerived()->getShape())
    out << " " << extent;
  for (int64_t axis : weight.getDerived()->getChannels())
    out << ":" << axis;
  out << " " << weight.getDerived()->getPairSum();
  return text;
}

/// The scales of all weights that are derived from floats, by the text of what they are derived from.
static llvm::StringMap<std::shared_ptr<const Quantization>> quantize(ModuleOp module, const Tensors &tensors) {
  llvm::StringMap<std::shared_ptr<const Quantization>> out;
  std::vector<std::pair<llvm::StringMapEntry<std::shared_ptr<const Quantization>> *, ir::WeightOp>> wanted;
  for (auto weight : module.getOps<ir::WeightOp>())
    if (weight.getDerived())
      if (auto [entry, is_new] = out.try_emplace(floats_of(weight)); is_new)
        wanted.emplace_back(&*entry, weight);
  for_each_parallel(wanted.size(), [&](int64_t i) {
    auto [entry, weight] = wanted[i];
    Source floats(weight, tensors.find(weight), DType::f32);
    entry->second = std::make_shared<Quantization>(*weight.getDerived(), [floats](int64_t begin, std::span<float> out) {
      floats.read(begin, std::as_writable_bytes(out));
    });
    return true;
  });
  return out;
}

static void cut(ModuleOp module, const WeightsLayout &layout, const Tensors &tensors, std::byte *payload,
                std::vector<Piece> &out) {
  llvm::StringMap<std::shared_ptr<const Quantization>> quantizations = quantize(module, tensors);
  for (ir::WeightOp weight : ir::packed_weights(module)) {
    if (layout[weight.getSymName()].shared)
      continue;
    auto type = cast<RankedTensorType>(weight.getType());
    Piece piece{.source = Source(weight, tensors.find(weight), dtype_of_element(type.getElementType())),
                .to = payload + layout[weight.getSymName()].offset,
                .begin = 0,
                .end = type.getNumElements(),
                .each = ir::element_bytes(type.getElementType()),
                .layout = {}};
    if (auto derived = weight.getDerived())
      piece.source.derive(quantizations[floats_of(weight)], derived->getWhat());
    int64_t step = piece_elements;
    if (auto layout = weight.getLayout()) {
      piece.layout = std::make_shared<LaidOut>(type, layout->getMap());
      int64_t extent = piece.layout->lanes.size(), group = piece.layout->group;
      piece.end = llvm::divideCeil(extent, group);
      step = std::max<int64_t>(1, piece_elements / std::max<int64_t>(type.getNumElements() / extent * group, 1));
    }
    for (int64_t begin = 0, end = piece.end; begin < end; begin += step) {
      piece.begin = begin;
      piece.end = std::min(begin + step, end);
      out.push_back(piece);
    }
  }
}

size_t packed_bytes(const WeightsLayout &layout) { return payload_offset + layout.payload_bytes; }

Status pack_weights(llvm::ArrayRef<TargetModule> modules, llvm::ArrayRef<WeightsLayout> layouts,
                    const WeightFiles *files, std::span<std::byte> out, Progress &progress) {
  const WeightsLayout &layout = layouts.front();
  std::byte *payload = out.data() + payload_offset;
  std::vector<Piece> pieces;
  std::vector<Tensors> tensors; // pieces read them
  tensors.reserve(modules.size());
  for (auto [module, own] : llvm::zip_equal(modules, layouts)) {
    Tensors &of = tensors.emplace_back(files);
    auto read = [&](ir::WeightOp weight, DType dtype, std::span<std::byte> elements) {
      Source(weight, of.find(weight), dtype).read(0, elements);
    };
    if (Status computed = of.computed.compute(module.module, read); !computed)
      return computed;
    cut(module.module, own, of, payload, pieces);
  }
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
  header.build = layout.build;
  header.checksum = llvm::xxHash64(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(payload), layout.payload_bytes));
  std::memcpy(out.data(), &header, sizeof header);
  return Done{};
}

} // namespace heddle
