// For GPUs: calls of one product that could be made side by side become one call, of a kernel with all of their
// results, such as queries, keys and values of a layer; and so do calls of element-wise kernels whose results have one
// shape, and which read the same: the parts of what one product made. A launch takes some microseconds, and a small one
// leaves most of the device idle.
//
//   %q = call @k1(%B, %x, %wq, %bq)                   %q, %k, %v = call @k5(%B, %x, %wq, %bq, %wk, %bk, %wv, %bv)
//   %k = call @k1(%B, %x, %wk, %bk)            →
//   %v = call @k1(%B, %x, %wv, %bv)
#include "compiler/ir/dialect.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/nest.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Calls at most, so that a kernel's code stays small.
constexpr size_t most_calls = 4;

bool comes_before(Operation *op, Operation *place) {
  return op->getBlock() != place->getBlock() || op->isBeforeInBlock(place);
}

/// Whether an op could stand in front of `place`, together with what it needs, which `moved` gets in order.
bool can_come_before(Operation *op, Operation *place, SmallVector<Operation *> &moved) {
  for (Value operand : op->getOperands()) {
    Operation *made = operand.getDefiningOp();
    if (!made || comes_before(made, place) || llvm::is_contained(moved, made))
      continue;
    if (made == place || made->getNumRegions() > 0 || isa<func::CallOp>(made) || !isPure(made) ||
        !can_come_before(made, place, moved))
      return false;
    moved.push_back(made);
  }
  return true;
}

class Joining {
public:
  explicit Joining(ModuleOp module) : module_(module), symbols_(module) {}

  void run() {
    bool changed = false;
    for (func::CallOp call : kernel_calls_of(module_)) {
      if (done_.contains(call) || (!is_product(call) && !is_pointwise(call)))
        continue;
      SmallVector<func::CallOp> calls{call};
      for (Operation *next = call->getNextNode(); next && calls.size() < most_calls && !ir::may_end_call(next);
           next = next->getNextNode())
        if (auto other = dyn_cast<func::CallOp>(next); other && may_join(call, other))
          calls.push_back(other);
      done_.insert(calls.begin(), calls.end());
      if (calls.size() > 1)
        join(calls), changed = true;
    }
    if (changed)
      merge_equal_kernels(module_);
  }

private:
  func::FuncOp kernel_of(func::CallOp call) { return symbols_.lookup<func::FuncOp>(call.getCallee()); }

  bool is_product(func::CallOp call) {
    auto [known, is_new] = products_.try_emplace(kernel_of(call), false);
    if (is_new) {
      auto nests = contraction::nests_of(kernel_of(call));
      known->second = nests && nests->size() == 1;
    }
    return known->second;
  }

  bool have_one_kernel(func::CallOp first, func::CallOp second) {
    return second.getCallee() == first.getCallee() &&
           llvm::all_of(llvm::zip_equal(first.getOperands(), second.getOperands()), [](auto pair) {
             auto [p, q] = pair;
             return isa<RankedTensorType>(p.getType()) || p == q;
           });
  }
  bool is_pointwise(func::CallOp call) {
    auto [known, is_new] = pointwise_.try_emplace(kernel_of(call), false);
    if (is_new)
      known->second = kind_of(kernel_of(call)).name == "pointwise";
    return known->second;
  }
  /// Whether both make elements at the same places of something that both read.
  bool are_alike(func::CallOp first, func::CallOp second) {
    func::FuncOp one = kernel_of(first), other = kernel_of(second);
    auto numbers = [](func::CallOp call) { // sizes among them
      return llvm::filter_to_vector(call.getOperands(), [](Value v) { return !isa<RankedTensorType>(v.getType()); });
    };
    auto extents = [](func::FuncOp kernel) {
      llvm::SmallSetVector<Attribute, 1> out;
      for (unsigned i = 0; i < kernel.getNumResults(); ++i)
        out.insert(kernel.getResultAttr(i, ir::names::extents));
      return out;
    };
    auto own = extents(one);
    bool shares = llvm::any_of(first.getOperands(), [&](Value v) {
      return isa<RankedTensorType>(v.getType()) && llvm::is_contained(second.getOperands(), v);
    });
    return shares && is_pointwise(second) && numbers(first) == numbers(second) && own.size() == 1 && own.front() &&
           own == extents(other) && one->getDiscardableAttrDictionary() == other->getDiscardableAttrDictionary();
  }

  /// Moves what the second call needs in front of the first, where that is possible.
  bool may_join(func::CallOp first, func::CallOp second) {
    if (done_.contains(second) || !(is_product(first) ? have_one_kernel(first, second) : are_alike(first, second)))
      return false;
    SmallVector<Operation *> moved;
    if (!can_come_before(second, first, moved))
      return false;
    for (Operation *op : moved)
      op->moveBefore(first);
    return true;
  }

  void join(ArrayRef<func::CallOp> calls) {
    func::FuncOp kernel = kernel_of(calls.front());
    OpBuilder builder(kernel);
    SmallVector<Value> operands;
    SmallVector<Type> inputs, outputs;
    SmallVector<DictionaryAttr> arguments, results;
    SmallVector<SmallVector<unsigned>> numbers(calls.size());        // of the arguments that each call's copy takes
    std::map<std::pair<const void *, const void *>, unsigned> known; // by operand and what is said of it
    for (size_t number = 0; number < calls.size(); ++number) {
      func::CallOp call = calls[number];
      func::FuncOp own = kernel_of(call);
      for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
        DictionaryAttr said = own.getArgAttrDict(unsigned(i));
        auto [found, is_new] =
            known.try_emplace({operand.getAsOpaquePointer(), said.getAsOpaquePointer()}, unsigned(operands.size()));
        numbers[number].push_back(found->second);
        if (!is_new)
          continue;
        operands.push_back(operand);
        inputs.push_back(operand.getType());
        arguments.push_back(said);
      }
      llvm::append_range(outputs, own.getResultTypes());
      for (unsigned result = 0; result < own.getNumResults(); ++result)
        results.push_back(own.getResultAttrDict(result));
    }
    auto joined = func::FuncOp::create(builder, kernel.getLoc(), kernel.getName().str() + ".joined",
                                       builder.getFunctionType(inputs, outputs));
    joined.setPrivate();
    for (NamedAttribute attribute : kernel->getDiscardableAttrs())
      joined->setAttr(attribute.getName(), attribute.getValue());
    auto given = [&](DictionaryAttr attributes) { return attributes ? attributes : builder.getDictionaryAttr({}); };
    joined.setAllArgAttrs(llvm::map_to_vector(arguments, given));
    joined.setAllResultAttrs(llvm::map_to_vector(results, given));
    symbols_.insert(joined);
    Block *block = joined.addEntryBlock();
    OpBuilder body = OpBuilder::atBlockEnd(block);
    SmallVector<Value> returned;
    for (size_t number = 0; number < calls.size(); ++number) {
      func::FuncOp own = kernel_of(calls[number]);
      IRMapping map;
      for (auto [argument, number] : llvm::zip_equal(own.getArguments(), numbers[number]))
        map.map(argument, block->getArgument(number));
      for (Operation &op : own.front().without_terminator())
        body.clone(op, map);
      for (Value value : own.front().getTerminator()->getOperands())
        returned.push_back(map.lookupOrDefault(value));
    }
    func::ReturnOp::create(body, kernel.getLoc(), returned);
    OpBuilder site(calls.front());
    SmallVector<Location> places = llvm::map_to_vector(calls, [](Operation *call) { return call->getLoc(); });
    auto whole = func::CallOp::create(site, FusedLoc::get(module_.getContext(), places), joined, operands);
    size_t next = 0;
    for (Operation *call : calls)
      for (Value result : call->getResults())
        result.replaceAllUsesWith(whole.getResult(next++));
    for (Operation *call : calls)
      call->erase();
  }

  ModuleOp module_;
  SymbolTable symbols_;
  DenseSet<Operation *> done_;
  DenseMap<Operation *, bool> products_, pointwise_; // by kernel
};

struct JoinProducts : PassWrapper<JoinProducts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(JoinProducts)
  explicit JoinProducts(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "join_products"; }
  StringRef getDescription() const override {
    return "for GPUs: equal products, or element-wise kernels, side by side are one";
  }

  void runOnOperation() override {
    if (target.gpu)
      Joining(getOperation()).run();
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> join_products(const Target &target) { return std::make_unique<JoinProducts>(target); }

} // namespace heddle::passes
