// Locations carry the names of definitions and weights through all passes; a path is compared word by word.
#include "compiler/ir/precision.h"

#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"

namespace heddle::ir {

using namespace mlir;

std::string precision_of(ModuleOp module) {
  auto precision = module->getAttrOfType<StringAttr>(names::precision);
  return precision ? precision.str() : "f32";
}

bool is_beneath(StringRef path, StringRef name) {
  return name.consume_front(path) && (name.empty() || name.front() == '.');
}

/// Bits of a factor.
static int width(StringRef precision) {
  return precision == "int8" ? 8 : precision == "bf16" ? 16 : precision == "tf32" ? 19 : 32;
}

Precisions::Precisions(ModuleOp module) : module_(precision_of(module)) {
  if (auto kept = module->getAttrOfType<DictionaryAttr>(names::keep))
    for (NamedAttribute part : kept)
      kept_.emplace_back(part.getName().str(), cast<StringAttr>(part.getValue()).str());
}

/// What an op computes, and the weights that it reads.
static std::vector<Definition> parts_of(Operation *op) {
  std::vector<Definition> out = definitions_in(op->getLoc());
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (auto get = operand.getDefiningOp<GetOp>())
        if (auto weight = SymbolTable::lookupNearestSymbolFrom<WeightOp>(get, get.getWeightAttr()))
          llvm::append_range(out, definitions_in(weight.getLoc()));
  });
  return out;
}

std::string Precisions::of(Operation *op) const {
  std::string out = module_;
  if (kept_.empty())
    return out;
  size_t longest = 0;
  for (const Definition &part : parts_of(op))
    for (const auto &[path, precision] : kept_) {
      if (!is_beneath(path, part.name) || path.size() < longest ||
          (path.size() == longest && width(precision) < width(out)))
        continue;
      longest = path.size();
      out = precision;
    }
  return out;
}

std::vector<std::string> Precisions::unreached(ArrayRef<Operation *> ops) const {
  std::vector<std::string> out;
  for (const auto &[path, precision] : kept_)
    out.push_back(path);
  for (Operation *op : kept_.empty() ? ArrayRef<Operation *>() : ops)
    for (const Definition &part : parts_of(op))
      std::erase_if(out, [&](const std::string &path) { return is_beneath(path, part.name); });
  return out;
}

bool Precisions::has(StringRef precision) const {
  return module_ == precision || llvm::any_of(kept_, [&](const auto &part) { return part.second == precision; });
}

} // namespace heddle::ir
