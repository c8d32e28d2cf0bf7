// A weight that is read at constant places of an axis only is several weights: the three matrices of a fused query, key
// and value projection, the four of an LSTM cell, the one of a filter of 1 x 1. As weights of their own they are plain
// operands, which kernels read in place and in panels; what is not read is not stored.
//
//   heddle.weight @w : tensor<768x3x768xf32> names ["w"] stored [768, 2304]
//   %0 = tensor.extract %w[%d, %c1, %n]
// →
//   heddle.weight @w.1 : tensor<768x768xf32> names ["w"] stored [768, 2304] part [768, 3, 768] at [-1, 1, -1]
//   %0 = tensor.extract %w.1[%d, %n]
//
// Relies on constants being folded; simplify makes operands of the reads.
#include "compiler/ir/dialect.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// All reads of a weight; nothing where something reads it whole, or as another shape.
std::optional<SmallVector<tensor::ExtractOp>> reads_of_elements(ir::WeightOp weight, ArrayRef<ir::GetOp> gets) {
  SmallVector<tensor::ExtractOp> reads;
  for (ir::GetOp get : gets) {
    if (get.getType() != weight.getType())
      return std::nullopt;
    for (Operation *user : get->getUsers())
      if (auto read = dyn_cast<tensor::ExtractOp>(user))
        reads.push_back(read);
      else
        return std::nullopt;
  }
  return reads;
}

/// The constant places of a read, -1 where a place is no constant.
SmallVector<int64_t> constants_of(tensor::ExtractOp read) {
  return llvm::map_to_vector(read.getIndices(), [](Value place) -> int64_t {
    APInt number;
    return matchPattern(place, m_ConstantInt(&number)) ? number.getSExtValue() : -1;
  });
}

void split(ir::WeightOp weight, ArrayRef<tensor::ExtractOp> reads, SymbolTable &symbols) {
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<bool> fixed(type.getRank(), true);
  for (tensor::ExtractOp read : reads)
    for (auto [axis, place] : llvm::enumerate(constants_of(read)))
      fixed[axis] = fixed[axis] && place >= 0 && place < type.getDimSize(axis);
  if (llvm::all_of(fixed, [](bool f) { return f; }) || llvm::none_of(fixed, [](bool f) { return f; }))
    return;
  SmallVector<int64_t> shape;
  for (auto [axis, extent] : llvm::enumerate(type.getShape()))
    if (!fixed[axis])
      shape.push_back(extent);
  auto part_type = RankedTensorType::get(shape, type.getElementType());

  std::map<SmallVector<int64_t>, ir::WeightOp> parts;
  OpBuilder builder(weight);
  for (tensor::ExtractOp read : reads) {
    SmallVector<int64_t> at = constants_of(read);
    std::string name = weight.getSymName().str();
    SmallVector<Value> places;
    for (auto [axis, place] : llvm::enumerate(at))
      if (fixed[axis]) {
        name += "." + std::to_string(place);
      } else {
        place = -1;
        places.push_back(read.getIndices()[axis]);
      }
    ir::WeightOp &part = parts[at];
    if (!part) {
      part = ir::WeightOp::create(builder, weight.getLoc(), builder.getStringAttr(name), TypeAttr::get(part_type),
                                  weight.getNames(), weight.getStoredAttr(),
                                  builder.getDenseI64ArrayAttr(type.getShape()), builder.getDenseI64ArrayAttr(at),
                                  ir::LayoutAttr(), ir::DerivedAttr(), ir::GatheredAttr(), ir::ComputedAttr());
      symbols.insert(part, Block::iterator(weight));
    }
    OpBuilder here(read.getTensor().getDefiningOp());
    Value value = ir::GetOp::create(here, read.getTensor().getLoc(), part_type, part.getSymName());
    here.setInsertionPoint(read);
    read.replaceAllUsesWith(tensor::ExtractOp::create(here, read.getLoc(), value, places).getResult());
    read.erase();
  }
}

struct SplitWeights : PassWrapper<SplitWeights, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitWeights)
  StringRef getArgument() const override { return "split_weights"; }
  StringRef getDescription() const override { return "weights of which only parts are read become one weight each"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::MapVector<StringRef, SmallVector<ir::GetOp>> gets;
    getOperation().walk([&](ir::GetOp get) { gets[get.getWeight()].push_back(get); });
    for (auto weight : llvm::make_early_inc_range(getOperation().getOps<ir::WeightOp>())) {
      auto found = gets.find(weight.getSymName());
      if (found == gets.end() || weight.getPart() || weight.getGathered() || weight.getComputed() || weight.getLayout())
        continue;
      if (auto reads = reads_of_elements(weight, found->second))
        split(weight, *reads, symbols);
    }
  }
};

} // namespace

std::unique_ptr<Pass> split_weights() { return std::make_unique<SplitWeights>(); }

} // namespace heddle::passes
