// `--precision bf16`: products with weights multiply bf16 and add up in f32; everything else stays as the program has
// it. A weight is stored in bf16. An activation is rounded once, where it is produced, and the rounding becomes part of
// the kernel that produces it. Where the target has no instruction for products of bf16 only weights are narrow: that
// saves memory, and rounding activations would save nothing.
//
//   heddle.weight @w : tensor<768x768xf32>                     heddle.weight @w : tensor<768x768xbf16>
//   %p = linalg.generic … ins(%x, %w : …f32, …f32) {           %n = linalg.generic ins(%x) { arith.truncf }
//     %0 = arith.mulf %a, %b : f32                      →      %p = linalg.generic … ins(%n, %w : …bf16, …bf16) {
//     …                                                          %0 = arith.mulf (arith.extf %a), (arith.extf %b) : f32
//
// So are both operands of a product of two activations, such as attention's, where the target has the instruction: the
// weights of a softmax, which never leave their kernel, are rounded in it (skip_roundings.cc). Products between which
// there are only element-wise ops and reductions are one kernel's, which multiplies one type: all of them or none. What
// comes from a state, or is read at computed places, stays f32, and so do short sums, and parts that are to be kept so;
// a weight that these share with others is stored in both types. GPUs round what is read of parts, too, or at places
// that slide along with the rows, such as the keys of neighbours.
//
// An erf, tanh or exp that makes what is rounded so needn't have all digits right (roundings.h).
//
// `--precision tf32` changes no type: products are marked, and variants for tensor cores round what they multiply.
#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/attention/sliding.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/roundings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;
using contraction::Product;

namespace {

/// The tensor that an element of a body comes from, where it is an operand's or a read's; null otherwise.
Value tensor_read(linalg::LinalgOp op, Value element) {
  if (auto argument = dyn_cast<BlockArgument>(element); argument && argument.getOwner() == op.getBlock())
    return op->getOperand(argument.getArgNumber());
  if (auto read = element.getDefiningOp<tensor::ExtractOp>())
    return read.getTensor();
  return {};
}

class Narrowing {
public:
  Narrowing(ModuleOp module, FloatType type, bool activations, bool parts)
      : module_(module), symbols_(module), precisions_(module), type_(type), activations_(activations), parts_(parts) {}

  void run() {
    SmallVector<Product> products, of_activations;
    for (func::FuncOp entry : entries(module_))
      entry.walk([&](linalg::GenericOp op) {
        if (auto product = contraction::product_of(op); product && is_wanted(*product))
          products.push_back(*product);
        else if (product && !has_weight(*product))
          of_activations.push_back(*product);
      });
    if (activations_)
      llvm::append_range(products, narrowable(of_activations));
    llvm::SetVector<Operation *> weights;
    for (const Product &product : products)
      for (const contraction::Factor *factor : {&product.left, &product.right})
        if (ir::WeightOp weight = weight_of(product, *factor))
          weights.insert(weight);
    for (Operation *weight : weights)
      narrow(cast<ir::WeightOp>(weight));
    if (activations_)
      for (const Product &product : products)
        for (const contraction::Factor *factor : {&product.left, &product.right})
          narrow(product, *factor);
    for (auto [tensor, rounded] : rounded_)
      if (rounded && tensor.hasOneUse())
        approximate_functions(tensor);
  }

private:
  ir::WeightOp weight_of(const Product &product, const contraction::Factor &factor) {
    Value tensor = tensor_read(product.op, contraction::element_read(factor.value));
    auto get = tensor ? tensor.getDefiningOp<ir::GetOp>() : ir::GetOp();
    return get ? symbols_.lookup<ir::WeightOp>(get.getWeight()) : ir::WeightOp();
  }

  bool has_weight(const Product &product) {
    return weight_of(product, product.left) || weight_of(product, product.right);
  }

  /// Those of the products of activations that are narrowed: with all others that they meet in a kernel.
  SmallVector<Product> narrowable(ArrayRef<Product> products) {
    llvm::EquivalenceClasses<Operation *> kernels;
    for (const Product &product : products) {
      kernels.insert(product.op);
      llvm::SetVector<Operation *> behind;
      behind.insert(product.op);
      for (size_t i = 0; i < behind.size(); ++i)
        for (Value operand : behind[i]->getOperands())
          if (auto op = operand.getDefiningOp<linalg::GenericOp>();
              op && (i == 0 || !contraction::product_of(cast<linalg::LinalgOp>(behind[i]))))
            behind.insert(op);
      for (Operation *op : behind)
        if (llvm::any_of(products, [&](const Product &other) { return other.op == op; }))
          kernels.unionSets(product.op, op);
    }
    llvm::SmallPtrSet<Operation *, 8> wide;
    for (const Product &product : products)
      if (stays_wide(product.op) || !is_worth_rounding(product) || !reads_rounded(product, product.left) ||
          !reads_rounded(product, product.right))
        wide.insert(kernels.getLeaderValue(product.op));
    return llvm::filter_to_vector(
        products, [&](const Product &product) { return !wide.contains(kernels.getLeaderValue(product.op)); });
  }

  /// Whether a sum is long enough. Measured, attention with heads of 16, 32 and 64 features: 10, 29 and 40 % faster;
  /// and in short sums little of the rounding averages out.
  static bool is_worth_rounding(const Product &product) {
    constexpr int64_t least_terms = 32;
    linalg::LinalgOp op = product.op;
    int64_t terms = 1;
    for (auto [extent, kind] : llvm::zip_equal(op.getStaticLoopRanges(), op.getIteratorTypesArray()))
      if (kind == utils::IteratorType::reduction)
        terms *= ShapedType::isDynamic(extent) ? least_terms : extent;
    return terms >= least_terms;
  }

  /// Whether a factor is an element of what a kernel makes, which can round it.
  bool reads_rounded(const Product &product, const contraction::Factor &factor) {
    bool whole = isa<BlockArgument>(factor.value);
    return is_made(product.op, factor.value) &&
           (whole || (parts_ && (is_of_a_part(factor.value) || slides(product.op, factor.value))));
  }

  /// Whether a value is such an element, or a constant where conditions say so.
  static bool is_made(linalg::LinalgOp op, Value element) {
    if (auto choice = element.getDefiningOp<arith::SelectOp>())
      return llvm::all_of(ValueRange{choice.getTrueValue(), choice.getFalseValue()},
                          [&](Value arm) { return matchPattern(arm, m_Constant()) || is_made(op, arm); });
    Value tensor = tensor_read(op, element);
    return tensor && element.getType().isF32() && tensor.getDefiningOp<linalg::GenericOp>();
  }

  /// t[b, i, 2, h, e]: the values that were computed with queries and keys.
  static bool is_of_a_part(Value element) {
    auto read = element.getDefiningOp<tensor::ExtractOp>();
    return read && llvm::all_of(read.getIndices(), [](Value place) {
             return place.getDefiningOp<linalg::IndexOp>() || matchPattern(place, m_Constant());
           });
  }

  /// Whether a factor is read at places that slide along with rows of the result, as keys of neighbours are.
  static bool slides(linalg::LinalgOp op, Value factor) {
    auto loops = llvm::seq(0u, op.getNumLoops());
    return llvm::any_of(loops, [&](unsigned row) {
      return op.getIteratorTypesArray()[row] == utils::IteratorType::parallel && llvm::any_of(loops, [&](unsigned key) {
               auto slide = key != row ? attention::slide_of(op, factor, row, key) : std::nullopt;
               return slide && slide->row == 1 && slide->key > 0;
             });
    });
  }

  bool stays_wide(Operation *op) {
    std::string precision = precisions_.of(op);
    return precision == "f32" || precision == "tf32";
  }
  /// Of a use of a weight, which an op reads as an operand or in its body.
  bool stays_wide(OpOperand &use) {
    auto body = use.getOwner()->getParentOfType<linalg::GenericOp>();
    return stays_wide(body ? body.getOperation() : use.getOwner());
  }

  bool is_wanted(const Product &product) {
    if (stays_wide(product.op))
      return false;
    bool real = product.left.value.getType().isF32() && product.right.value.getType().isF32();
    for (const contraction::Factor *factor : {&product.left, &product.right})
      if (ir::WeightOp weight = weight_of(product, *factor))
        return real && can_be_narrow(weight);
    return false;
  }

  /// Whether all readers of a narrow weight take it element by element, so that they can widen what they read.
  bool can_be_narrow(ir::WeightOp weight) {
    auto [known, is_new] = narrowable_.try_emplace(weight, true);
    if (!is_new)
      return known->second;
    bool out = true;
    module_.walk([&](ir::GetOp get) {
      if (get.getWeight() != weight.getSymName())
        return;
      for (OpOperand &use : get->getUses()) {
        auto reader = dyn_cast<linalg::GenericOp>(use.getOwner());
        out &= stays_wide(use) || isa<tensor::ExtractOp>(use.getOwner()) || (reader && reader.isDpsInput(&use));
      }
    });
    return narrowable_[weight] = out;
  }

  void narrow(ir::WeightOp weight) {
    SmallVector<ir::GetOp> gets;
    module_.walk([&](ir::GetOp get) {
      if (get.getWeight() == weight.getSymName())
        gets.push_back(get);
    });
    bool has_wide_use = llvm::any_of(gets, [&](ir::GetOp get) {
      return llvm::any_of(get->getUses(), [&](OpOperand &use) { return stays_wide(use); });
    });
    ir::WeightOp into = weight;
    if (has_wide_use) { // it is stored in both types
      into = weight.clone();
      into.setSymName(weight.getSymName().str() + ".bf16");
      symbols_.insert(into, std::next(Block::iterator(weight)));
    }
    into.setType(cast<RankedTensorType>(weight.getType()).clone(type_));
    for (ir::GetOp get : gets) {
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : get->getUses())
        if (!stays_wide(use))
          uses.push_back(&use);
      if (uses.empty())
        continue;
      OpBuilder builder(get);
      Value seen = ir::GetOp::create(builder, get.getLoc(), cast<RankedTensorType>(get.getType()).clone(type_),
                                     into.getSymName());
      for (OpOperand *use : uses) {
        use->set(seen);
        widen_read(*use);
      }
      if (get->use_empty())
        get.erase();
    }
  }

  void narrow(const Product &product, const contraction::Factor &factor) {
    linalg::LinalgOp op = product.op;
    Operation *times = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
    for (Value operand : times->getOperands())
      if (Operation *made = operand.getDefiningOp(); made && isa<arith::MulFOp>(made))
        times = made;
    for (OpOperand &operand : times->getOpOperands()) {
      if (operand.get() != factor.value)
        continue;
      OpBuilder builder(times);
      Value narrow = narrowed(builder, op, factor.value);
      operand.set(widened(builder, narrow.getLoc(), narrow));
    }
    for (Operation &before : llvm::make_early_inc_range(llvm::reverse(*op.getBlock())))
      if (isOpTriviallyDead(&before)) // else its kernel would be given, and another one keep, what it reads
        before.erase();
  }

  /// The element in the narrow type: of a rounded tensor, where it is read from one, else rounded here.
  Value narrowed(OpBuilder &builder, linalg::LinalgOp op, Value element) {
    Value source = unwidened(element); // what the model stores in bf16 or f16
    if (source.getType() == type_)
      return source;
    APFloat constant(0.0);
    if (matchPattern(element, m_ConstantFloat(&constant))) {
      bool inexact;
      constant.convert(type_.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
      return arith::ConstantOp::create(builder, element.getLoc(), builder.getFloatAttr(type_, constant));
    }
    if (auto choice = element.getDefiningOp<arith::SelectOp>()) {
      Value yes = narrowed(builder, op, choice.getTrueValue()), no = narrowed(builder, op, choice.getFalseValue());
      return arith::SelectOp::create(builder, element.getLoc(), choice.getCondition(), yes, no);
    }
    Value tensor = tensor_read(op, source);
    Value rounded = tensor ? rounded_tensor(tensor) : Value();
    if (!rounded)
      return arith::TruncFOp::create(builder, element.getLoc(), type_, element);
    if (auto read = source.getDefiningOp<tensor::ExtractOp>()) {
      OpBuilder there(read);
      return tensor::ExtractOp::create(there, read.getLoc(), rounded, read.getIndices());
    }
    auto argument = cast<BlockArgument>(source);
    op->getOpOperand(argument.getArgNumber()).set(rounded);
    narrow_element(argument, type_); // it may be read for something else, too
    return argument;
  }

  /// A tensor rounded to the narrow type, right behind what makes it. Null where its extents are no formulas.
  Value rounded_tensor(Value tensor) {
    auto [known, is_new] = rounded_.try_emplace(tensor);
    if (!is_new)
      return known->second;
    auto type = cast<RankedTensorType>(tensor.getType());
    OpBuilder builder(module_.getContext());
    auto extents = isa<FloatType>(type.getElementType()) ? ir::build_extents_behind(builder, tensor)
                                                         : FailureOr<SmallVector<OpFoldResult>>(failure());
    if (failed(extents))
      return {};
    return rounded_[tensor] = build_free_rounding(builder, tensor, *extents, type_);
  }

  ModuleOp module_;
  SymbolTable symbols_;
  ir::Precisions precisions_;
  FloatType type_;
  bool activations_, parts_;
  DenseMap<Operation *, bool> narrowable_;
  DenseMap<Value, Value> rounded_;
};

/// Marks the products that may round their factors to tf32.
void mark_rounding(ModuleOp module, const ir::Precisions &precisions) {
  module.walk([&](linalg::GenericOp op) {
    std::optional<Product> product = contraction::product_of(op);
    if (product && precisions.of(op) == "tf32" && product->left.value.getType().isF32() &&
        product->right.value.getType().isF32())
      op->setAttr(ir::names::rounds, UnitAttr::get(op.getContext()));
  });
}

struct NarrowProducts : PassWrapper<NarrowProducts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NarrowProducts)
  explicit NarrowProducts(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "narrow_products"; }
  StringRef getDescription() const override { return "products in the precision that was asked for"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    ir::Precisions precisions(getOperation());
    if (precisions.has("tf32"))
      mark_rounding(getOperation(), precisions);
    if (!precisions.has("bf16") && !precisions.has("int8"))
      return;
    bool multiplies = target.gpu || grouping_kernel_of(Halide::BFloat(16), target); // every GPU does, on tensor cores
    Narrowing(getOperation(), BFloat16Type::get(&getContext()), multiplies, target.gpu != nullptr).run();
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> narrow_products(const Target &target) { return std::make_unique<NarrowProducts>(target); }

} // namespace heddle::passes
