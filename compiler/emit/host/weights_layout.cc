// Offsets are running sums of aligned sizes. The id hashes what both sides must agree on (the library's name, each
// weight's names, part, type, layout and offset, and how it is computed), so a file of another layout is refused while
// new values under an unchanged layout are accepted.
#include "compiler/emit/host/weights_layout.h"

#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/entry_values.h"
#include "compiler/version.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

namespace heddle {

using namespace mlir;

static constexpr int64_t alignment = 64; // a cache line, and the widest vector

/// Of a compilation. A hash of the library would not do: it holds the number, and Halide numbers what it names by the
/// order in which a process compiles.
static uint64_t build_number(ArrayRef<TargetModule> modules, StringRef name) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (auto [module, target] : modules) {
    out << name << " " << target.name << " " << version << "\n";
    ModuleOp(module).print(out);
  }
  return llvm::xxh3_64bits(text);
}

/// What the bytes of a weight depend on beside the file of a model's weights.
static std::string description(ir::WeightOp weight, const SymbolTable &symbols) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << weight.getNames() << " " << weight.getPartAttr() << weight.getAtAttr() << weight.getGatheredAttr()
      << weight.getDerivedAttr() << weight.getType() << " " << weight.getLayoutAttr();
  if (auto computed = weight.getComputed()) {
    auto function = symbols.lookup<func::FuncOp>(computed->getFunction().getValue());
    function.getBody().front().print(out); // its name is of no account
    for (FlatSymbolRefAttr of : computed->getOf())
      out << " of (" << description(symbols.lookup<ir::WeightOp>(of.getValue()), symbols) << ")";
  }
  return text;
}

static int64_t packed_bytes_of(ir::WeightOp weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  int64_t elements = type.getNumElements();
  if (auto layout = weight.getLayout())
    elements = llvm::product_of(layout::memory_shape(layout->getMap(), type.getShape()));
  return elements * ir::element_bytes(type.getElementType());
}

/// What a kernel may load of a weight: a read that a condition leaves out is made all the same, of a weight without
/// elements at the first of a dim that has none.
static int64_t readable_bytes_of(ir::WeightOp weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  int64_t elements = 1;
  for (int64_t extent : type.getShape())
    elements *= std::max<int64_t>(extent, 1);
  return std::max(packed_bytes_of(weight), elements * ir::element_bytes(type.getElementType()));
}

std::vector<WeightsLayout> lay_out_weights(ArrayRef<TargetModule> modules, StringRef name) {
  std::vector<WeightsLayout> out(modules.size());
  std::map<std::string, int64_t> before; // offsets of what the modules before have
  std::string text = name.str() + "\n";
  int64_t payload_bytes = 0;
  for (auto [number, layout] : llvm::enumerate(out)) {
    std::map<std::string, int64_t> own;
    ModuleOp module = modules[number].module;
    SymbolTable symbols(module);
    for (ir::WeightOp weight : ir::packed_weights(module)) {
      std::string what = description(weight, symbols);
      int64_t bytes = packed_bytes_of(weight), offset = payload_bytes;
      auto found = before.find(what);
      bool shared = found != before.end();
      if (shared)
        offset = found->second;
      else
        payload_bytes += llvm::alignTo(readable_bytes_of(weight), alignment);
      own.try_emplace(what, offset);
      text += what + " " + std::to_string(offset) + "\n";
      layout.numbers[weight.getSymName().str()] = layout.items.size();
      layout.items.push_back({weight.getSymName().str(), offset, bytes, shared});
    }
    before.merge(own);
  }
  auto hash = llvm::xxh3_128bits(llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  uint64_t build = build_number(modules, name);
  for (WeightsLayout &layout : out) {
    std::memcpy(layout.id.data(), &hash.low64, 8);
    std::memcpy(layout.id.data() + 8, &hash.high64, 8);
    layout.build = build;
    layout.payload_bytes = payload_bytes;
  }
  return out;
}

} // namespace heddle
