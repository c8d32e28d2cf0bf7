// What is computed from weights and constants alone is a weight of its own, which packing computes: factors of batch
// norms, normalised and merged matrices, tables of frequencies. Kernels read it like any other, in panels, too.
//
//   %v = heddle.get @var : tensor<64xf32>
//   %s = linalg.generic ins(%v) … { 1 / sqrt(…) } -> tensor<64xf32>
//     →
//   heddle.weight @computed0 : tensor<64xf32> names [] stored [64] computed <@computes0 of @var>
//   func.func private @computes0(%v: tensor<64xf32>) -> tensor<64xf32> attributes {heddle.computes}
//   %s = heddle.get @computed0 : tensor<64xf32>
//
// Each op is computed alone, so that equal ones are one function, whatever is made of them. Relies on sharing (cse).
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/loop_classes.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/unread_weights.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// How many times as large as what it is made of a weight may be that packing computes: numbers of 8 bits, scaled, are
/// four times as many bytes.
constexpr int64_t most_growth = 4;

/// Bytes up to which it may be larger: tables that are made of a few numbers, or of none.
constexpr int64_t small = 1 << 20;

int64_t bytes_of(RankedTensorType type) { return type.getNumElements() * ir::element_bytes(type.getElementType()); }

/// Whether kernels alone read a value, perhaps in other shapes: what a call returns or a state takes is the call's own.
bool is_read_by_kernels(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(user))
      return is_read_by_kernels(user->getResult(0));
    if (auto op = dyn_cast<linalg::GenericOp>(user))
      return op.isDpsInput(&use);
    return isa<tensor::ExtractOp>(user) && user->getParentOfType<linalg::GenericOp>();
  });
}

/// What an op is made of: weights, and what is copied beside it.
struct Sources {
  llvm::SetVector<ir::GetOp> weights;
  llvm::SetVector<Operation *> copied; // operands first
};

/// False where a value depends on a call.
bool find_sources(Value value, Sources &out) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto get = dyn_cast<ir::GetOp>(op)) {
    out.weights.insert(get);
    return true;
  }
  bool is_constant = isa<arith::ConstantOp>(op);
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    is_constant = empty.getType().hasStaticShape();
  if (!is_constant && !isa<linalg::FillOp>(op))
    return false;
  for (Value operand : op->getOperands())
    if (!find_sources(operand, out))
      return false;
  out.copied.insert(op);
  return true;
}

std::optional<Sources> sources_of(linalg::GenericOp op) {
  if (op->getNumResults() != 1 || !cast<RankedTensorType>(op.getType(0)).hasStaticShape())
    return std::nullopt;
  Sources out;
  for (Value value : needs_of(op))
    if (!find_sources(value, out))
      return std::nullopt;
  int64_t made_of = 0;
  for (ir::GetOp weight : out.weights)
    made_of += bytes_of(cast<RankedTensorType>(weight.getType()));
  auto type = cast<RankedTensorType>(op.getType(0));
  if (type.getNumElements() == 0 || bytes_of(type) > std::max(most_growth * made_of, small))
    return std::nullopt;
  return out;
}

class Computing {
public:
  explicit Computing(ModuleOp module) : module_(module), symbols_(module), builder_(module.getContext()) {
    for (auto weight : module.getOps<ir::WeightOp>())
      last_ = weight;
  }

  void run() {
    for (func::FuncOp entry : entries(module_)) {
      SmallVector<Operation *> ops; // operands first
      entry.walk([&](Operation *op) {
        if (isa<linalg::GenericOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
          ops.push_back(op);
      });
      for (Operation *op : ops)
        if (auto generic = dyn_cast<linalg::GenericOp>(op))
          compute(generic);
        else
          see_in_another_shape(op);
    }
    erase_unread_weights(module_);
  }

private:
  void compute(linalg::GenericOp op) {
    if (!is_read_by_kernels(op->getResult(0)))
      return;
    std::optional<Sources> sources = sources_of(op);
    if (!sources)
      return;
    auto type = cast<RankedTensorType>(op.getType(0));
    auto function = FlatSymbolRefAttr::get(function_of(op, *sources));
    SmallVector<FlatSymbolRefAttr> of;
    for (ir::GetOp weight : sources->weights)
      of.push_back(weight.getWeightAttr());
    auto computed = ir::ComputedAttr::get(module_.getContext(), function, of);
    ir::WeightOp &weight = weights_[computed];
    if (!weight) {
      if (last_)
        builder_.setInsertionPointAfter(last_);
      else
        builder_.setInsertionPointToStart(module_.getBody());
      weight = ir::WeightOp::create(
          builder_, op.getLoc(), builder_.getStringAttr(unused("computed")), TypeAttr::get(type),
          builder_.getArrayAttr({}), builder_.getDenseI64ArrayAttr(type.getShape()), DenseI64ArrayAttr(),
          DenseI64ArrayAttr(), ir::LayoutAttr(), ir::DerivedAttr(), ir::GatheredAttr(), computed);
      symbols_.insert(weight);
      last_ = weight;
    }
    replace(op, weight, type);
  }

  /// A view of a weight is the weight in that shape.
  void see_in_another_shape(Operation *op) {
    auto get = op->getOperand(0).getDefiningOp<ir::GetOp>();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (get && type.hasStaticShape())
      replace(op, symbols_.lookup<ir::WeightOp>(get.getWeight()), type);
  }

  void replace(Operation *op, ir::WeightOp weight, RankedTensorType type) {
    builder_.setInsertionPoint(op);
    op->getResult(0).replaceAllUsesWith(ir::GetOp::create(builder_, op->getLoc(), type, weight.getSymName()));
    op->erase();
  }

  /// The op as a function of weights; equal ones are the same.
  func::FuncOp function_of(linalg::GenericOp op, const Sources &sources) {
    SmallVector<Type> inputs;
    for (ir::GetOp weight : sources.weights)
      inputs.push_back(weight.getType());
    builder_.setInsertionPointToEnd(module_.getBody());
    auto function =
        func::FuncOp::create(builder_, op.getLoc(), "f", builder_.getFunctionType(inputs, op->getResultTypes()));
    function.setPrivate();
    function->setAttr(ir::names::computes, builder_.getUnitAttr());
    Block *block = function.addEntryBlock();
    IRMapping mapping;
    for (auto [weight, argument] : llvm::zip_equal(sources.weights, block->getArguments()))
      mapping.map(weight->getResult(0), argument);
    builder_.setInsertionPointToStart(block);
    for (Operation *copied : sources.copied)
      builder_.clone(*copied, mapping);
    Operation *made = builder_.clone(*op, mapping);
    func::ReturnOp::create(builder_, op.getLoc(), made->getResults());
    std::string text;
    llvm::raw_string_ostream stream(text);
    function->print(stream, OpPrintingFlags().useLocalScope());
    auto [found, is_new] = functions_.try_emplace(text, function);
    if (!is_new) {
      function.erase();
      return found->second;
    }
    function.setName(unused("computes"));
    symbols_.insert(function);
    return function;
  }

  std::string unused(StringRef word) {
    std::string name;
    for (unsigned number = 0; name.empty() || symbols_.lookup(name); ++number)
      name = word.str() + std::to_string(number);
    return name;
  }

  ModuleOp module_;
  SymbolTable symbols_;
  OpBuilder builder_;
  llvm::StringMap<func::FuncOp> functions_;
  DenseMap<Attribute, ir::WeightOp> weights_;
  ir::WeightOp last_; // of the module's
};

struct ComputeWeights : PassWrapper<ComputeWeights, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ComputeWeights)
  StringRef getArgument() const override { return "compute_weights"; }
  StringRef getDescription() const override { return "what is computed from weights alone is a weight"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override { Computing(getOperation()).run(); }
};

} // namespace

std::unique_ptr<Pass> compute_weights() { return std::make_unique<ComputeWeights>(); }

} // namespace heddle::passes
