// For GPUs: calls of one product that could be made side by side become one call, of a kernel with all of their
// results, such as queries, keys and values of a layer. A launch takes some microseconds, and a small one leaves most
// of the device idle.
//
//   %q = call @k1(%B, %x, %wq, %bq)                   %q, %k, %v = call @k5(%B, %x, %wq, %bq, %wk, %bk, %wv, %bv)
//   %k = call @k1(%B, %x, %wk, %bk)            →
//   %v = call @k1(%B, %x, %wv, %bv)
#include "compiler/ir/dialect.h"
#include "compiler/kernels/product/nest.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Calls of one kernel at most, so that its code stays small.
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
      if (done_.contains(call) || !is_product(call))
        continue;
      SmallVector<func::CallOp> calls{call};
      for (Operation *next = call->getNextNode(); next && calls.size() < most_calls; next = next->getNextNode())
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

  /// Moves what the second call needs in front of the first, where that is possible.
  bool may_join(func::CallOp first, func::CallOp second) {
    if (second.getCallee() != first.getCallee() || done_.contains(second))
      return false;
    for (auto [p, q] : llvm::zip_equal(first.getOperands(), second.getOperands()))
      if (!isa<RankedTensorType>(p.getType()) && p != q)
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
    SmallVector<Type> inputs;
    SmallVector<DictionaryAttr> arguments, results;
    SmallVector<SmallVector<unsigned>> numbers(calls.size()); // of the arguments that each call's copy takes
    for (size_t number = 0; number < calls.size(); ++number)
      for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
        Value operand = calls[number]->getOperand(i);
        bool shared = llvm::all_of(calls, [&](Operation *other) { return other->getOperand(i) == operand; });
        if (shared && number > 0) {
          numbers[number].push_back(numbers[0][i]);
          continue;
        }
        numbers[number].push_back(unsigned(operands.size()));
        operands.push_back(operand);
        inputs.push_back(operand.getType());
        arguments.push_back(kernel.getArgAttrDict(i));
      }
    SmallVector<Type> outputs;
    for (size_t i = 0; i < calls.size(); ++i) {
      llvm::append_range(outputs, kernel.getResultTypes());
      for (unsigned result = 0; result < kernel.getNumResults(); ++result)
        results.push_back(kernel.getResultAttrDict(result));
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
    for (ArrayRef<unsigned> taken : numbers) {
      IRMapping map;
      for (auto [argument, number] : llvm::zip_equal(kernel.getArguments(), taken))
        map.map(argument, block->getArgument(number));
      for (Operation &op : kernel.front().without_terminator())
        body.clone(op, map);
      for (Value value : kernel.front().getTerminator()->getOperands())
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
  DenseMap<Operation *, bool> products_; // by kernel
};

struct JoinProducts : PassWrapper<JoinProducts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(JoinProducts)
  explicit JoinProducts(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "join_products"; }
  StringRef getDescription() const override { return "for GPUs: equal products side by side are one kernel"; }

  void runOnOperation() override {
    if (target.gpu)
      Joining(getOperation()).run();
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> join_products(const Target &target) { return std::make_unique<JoinProducts>(target); }

} // namespace heddle::passes
