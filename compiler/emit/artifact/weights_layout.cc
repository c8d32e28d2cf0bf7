// Offsets are running sums of aligned sizes. The id hashes what both sides must agree on (the library's name, each
// weight's names, part, type, layout and offset), so a file of another layout is refused while new values under an
// unchanged layout are accepted.
#include "compiler/emit/artifact/weights_layout.h"

#include "compiler/ir/dialect.h"
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
static uint64_t build_number(ModuleOp module, StringRef name, StringRef target) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << name << " " << target << " " << version << "\n";
  module.print(out);
  return llvm::xxh3_64bits(text);
}

WeightsLayout lay_out_weights(ModuleOp module, StringRef name, StringRef target) {
  WeightsLayout out;
  std::string text;
  llvm::raw_string_ostream description(text);
  description << name << "\n";
  for (auto weight : module.getOps<ir::WeightOp>()) {
    auto type = cast<RankedTensorType>(weight.getType());
    int64_t elements = type.getNumElements();
    if (auto layout = weight.getLayout())
      elements = llvm::product_of(layout::memory_shape(layout->getMap(), type.getShape()));
    int64_t bytes = elements * passes::element_bytes(type.getElementType());
    out.numbers[weight.getSymName().str()] = out.items.size();
    out.items.push_back({weight.getSymName().str(), out.payload_bytes, bytes});
    description << weight.getNames() << " " << weight.getPartAttr() << weight.getAtAttr() << weight.getDerivedAttr()
                << type << " " << weight.getLayoutAttr() << " " << out.payload_bytes << "\n";
    out.payload_bytes += llvm::alignTo(bytes, alignment);
  }
  auto hash = llvm::xxh3_128bits(llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  std::memcpy(out.id.data(), &hash.low64, 8);
  std::memcpy(out.id.data() + 8, &hash.high64, 8);
  out.build = build_number(module, name, target);
  return out;
}

} // namespace heddle
