// Stored are what the kernel returns, and stages that would otherwise be computed many times over, as are nearly all
// reductions; every other stage is computed where it is read, by the same thread. Threads of a warp write neighbours,
// so that what they write, and most of what they read, lies in few sectors.
#include "compiler/kernels/each_element.h"

#include "compiler/gpu/program.h"

#include "compiler/ir/shapes.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {

using namespace mlir;
using linalg::LinalgOp;

namespace {

constexpr int64_t threads = 128;

/// Operations from which on an element is not computed again where it is read; a reduction counts as many more.
constexpr int64_t most_repeated = 8, reduction = 1 << 20;

int64_t operations(LinalgOp op) {
  int64_t count = op.getNumReductionLoops() > 0 ? reduction : 0;
  op.getBlock()->walk([&](Operation *inner) {
    bool is_function = isa<math::MathDialect>(inner->getDialect()) && !isa<math::AbsFOp, math::FloorOp>(inner);
    count += is_function ? most_repeated : 1;
  });
  return count;
}

/// The op that a use stands in or belongs to.
LinalgOp reader_of(Operation *user) {
  auto reader = dyn_cast<LinalgOp>(user);
  return reader ? reader : user->getParentOfType<LinalgOp>();
}

/// Which stages are stored, in program order.
class Stages {
public:
  explicit Stages(gpu::Program &program) {
    for (auto op : program.kernel().getOps<LinalgOp>()) {
      if (isa<linalg::FillOp>(op.getOperation()))
        continue;
      int64_t cost = operations(op);
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (auto found = inlined_.find(operand.getDefiningOp()); found != inlined_.end())
            cost = std::min(cost + found->second, reduction * reduction);
      });
      bool is_returned = llvm::any_of(op->getResults(), [&](Value result) { return program.is_kept(result); });
      if (is_returned || is_repeated(op, cost))
        stored_.push_back(op);
      else
        inlined_[op] = cost;
    }
  }

  ArrayRef<LinalgOp> stored() const { return stored_; }

private:
  /// Whether an element would be computed more than once, and that is dear.
  static bool is_repeated(LinalgOp op, int64_t cost) {
    if (cost <= most_repeated)
      return false;
    int64_t readers = 0, own = op.getNumParallelLoops();
    bool more_often = false;
    for (Operation *user : op->getUsers()) {
      LinalgOp reader = reader_of(user);
      ++readers;
      more_often |= !reader || user != reader.getOperation() || int64_t(reader.getNumLoops()) > own;
    }
    return readers > 1 || more_often;
  }

  SmallVector<LinalgOp> stored_;
  DenseMap<Operation *, int64_t> inlined_; // what an element takes
};

LogicalResult write_stage(gpu::Program &program, LinalgOp op) {
  auto formulas = ir::loop_extents(op);
  if (failed(formulas))
    return op->emitOpError("has a loop whose extent no operand tells");
  SmallVector<unsigned> parallel;
  op.getParallelDims(parallel);
  SmallVector<AffineExpr> items;
  for (unsigned loop : parallel)
    items.push_back((*formulas)[loop]);
  return program.launch(items, threads, threads, [&](gpu::Program::Thread &thread) {
    OpBuilder &b = thread.b;
    Location loc = thread.loc;
    SmallVector<Value> extents;
    Value count = arith::ConstantIndexOp::create(b, loc, 1);
    for (AffineExpr item : items) {
      extents.push_back(thread.elements.size(item, program.kernel()));
      count = arith::MulIOp::create(b, loc, count, extents.back());
    }
    Value first = arith::MulIOp::create(b, loc, thread.block, arith::ConstantIndexOp::create(b, loc, threads));
    Value item = arith::AddIOp::create(b, loc, first, thread.number);
    Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, item, count);
    auto own = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
    b.setInsertionPointToStart(own.thenBlock());
    SmallVector<Value> place = gpu::digits(thread, item, extents);
    SmallVector<Value> values = thread.elements.compute(op, place);
    if (values.empty())
      return failure();
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (program.is_kept(result))
        thread.elements.store(result, thread.elements.place_of(op, i, place), values[i]);
    return success();
  });
}

LogicalResult write(gpu::Program &program, const ScheduleRow &, const Target &) {
  Stages stages(program);
  for (LinalgOp op : stages.stored()) {
    for (Value result : op->getResults())
      if (!result.use_empty() && failed(program.keep(result)))
        return failure();
    if (failed(write_stage(program, op)))
      return failure();
  }
  return success();
}

Result<std::vector<Candidate>> candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  // Every operation waits for what it loads, from caches at best: a sixteenth of the peak.
  double rate = target.gpu->flops / 16;
  auto seconds = [kernel, rate](ArrayRef<int64_t> at) mutable {
    double points = 0;
    kernel.walk([&](LinalgOp op) { points += sizes::points_of(op, at); });
    return 5e-6 + 2 * points / rate;
  };
  return std::vector<Candidate>{{{"each_element", {}}, seconds}};
}

} // namespace

const Variant each_element = {
    "each_element", "a launch for each stage, a thread for each element", {}, candidates, nullptr, false, 1, write};

} // namespace heddle
