// Stored are what the kernel returns, and stages that would otherwise be computed many times over, as are nearly all
// reductions; every other stage is computed where it is read, by the same thread. Threads of a warp write neighbours,
// so that what they write, and most of what they read, lies in few sectors. Or the threads of a warp share the terms of
// an element that is a sum, neighbours among them, and have the whole by shuffles: rows of norms, products of a row or
// two. Stages of equal loops, of which none reads another one, are one launch.
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

constexpr int64_t threads = 128, warp = 32;

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

/// A stage that is stored, and those that are computed where it reads them, in program order.
struct Stage {
  LinalgOp op;
  SmallVector<LinalgOp> inlined;

  /// What its reductions are, the inlined ones among them.
  SmallVector<LinalgOp> reductions() const {
    SmallVector<LinalgOp> out;
    for (LinalgOp each : inlined)
      if (each.getNumReductionLoops() > 0)
        out.push_back(each);
    if (LinalgOp(op).getNumReductionLoops() > 0)
      out.push_back(op);
    return out;
  }
};

/// Which stages are stored, in program order.
class Stages {
public:
  explicit Stages(func::FuncOp kernel) {
    auto returned = kernel.front().getTerminator()->getOperands();
    for (auto op : kernel.getOps<LinalgOp>()) {
      if (isa<linalg::FillOp>(op.getOperation()))
        continue;
      int64_t cost = operations(op);
      Stage stage{op, {}};
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (auto found = inlined_.find(operand.getDefiningOp()); found != inlined_.end()) {
            cost = std::min(cost + found->second.first, reduction * reduction);
            llvm::append_range(stage.inlined, found->second.second.inlined);
            stage.inlined.push_back(found->second.second.op);
          }
      });
      bool is_returned =
          llvm::any_of(op->getResults(), [&](Value result) { return llvm::is_contained(returned, result); });
      if (is_returned || is_repeated(op, cost))
        stored_.push_back(std::move(stage));
      else
        inlined_[op] = {cost, std::move(stage)};
    }
  }

  ArrayRef<Stage> stored() const { return stored_; }

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

  SmallVector<Stage> stored_;
  DenseMap<Operation *, std::pair<int64_t, Stage>> inlined_; // and what an element takes
};

/// How many lanes share the elements of a stage: where its reductions can be shared, as many as the row says.
int64_t lanes_of(const Stage &stage, int64_t lanes) {
  return llvm::any_of(stage.reductions(), gpu::combiner_of) ? lanes : 1;
}

/// Stages with equal loops of which none reads another one: they are one launch.
using Group = SmallVector<const Stage *>;

/// The stages in order, in as few groups of neighbours as there can be.
SmallVector<Group> groups_of(const Stages &stages, int64_t lanes) {
  auto loops = [](const Stage &stage) {
    SmallVector<AffineExpr> out;
    LinalgOp op = stage.op;
    auto formulas = ir::loop_extents(op);
    SmallVector<unsigned> parallel;
    op.getParallelDims(parallel);
    for (unsigned loop : parallel)
      out.push_back(succeeded(formulas) ? (*formulas)[loop] : AffineExpr());
    return out;
  };
  auto reads = [](const Stage &stage, LinalgOp other) {
    SmallVector<LinalgOp> ops(stage.inlined);
    ops.push_back(stage.op);
    return llvm::any_of(ops, [&](LinalgOp op) {
      return llvm::any_of(other->getUsers(), [&](Operation *user) { return op->isAncestor(user); });
    });
  };
  SmallVector<Group> out;
  for (const Stage &stage : stages.stored()) {
    bool joins = !out.empty() && lanes_of(stage, lanes) == lanes_of(*out.back().front(), lanes) &&
                 loops(stage) == loops(*out.back().front()) &&
                 llvm::none_of(out.back(), [&](const Stage *earlier) { return reads(stage, earlier->op); });
    if (!joins)
      out.emplace_back();
    out.back().push_back(&stage);
  }
  return out;
}

LogicalResult write_group(gpu::Program &program, const Group &group, int64_t lanes) {
  LinalgOp first_op = group.front()->op;
  auto formulas = ir::loop_extents(first_op);
  if (failed(formulas))
    return first_op->emitOpError("has a loop whose extent no operand tells");
  SmallVector<unsigned> parallel;
  first_op.getParallelDims(parallel);
  SmallVector<AffineExpr> items;
  for (unsigned loop : parallel)
    items.push_back((*formulas)[loop]);
  return program.launch(gpu::Dealt{items, threads / lanes}, threads, [&](gpu::Program::Thread &thread) {
    OpBuilder &b = thread.b;
    Location loc = thread.loc;
    SmallVector<Value> extents;
    Value count = arith::ConstantIndexOp::create(b, loc, 1);
    for (AffineExpr item : items) {
      extents.push_back(thread.elements.size(item, program.kernel()));
      count = arith::MulIOp::create(b, loc, count, extents.back());
    }
    Value width = arith::ConstantIndexOp::create(b, loc, lanes);
    Value first = arith::MulIOp::create(b, loc, thread.block, arith::ConstantIndexOp::create(b, loc, threads / lanes));
    Value item = arith::AddIOp::create(b, loc, first, arith::DivUIOp::create(b, loc, thread.number, width));
    Value lane = arith::RemUIOp::create(b, loc, thread.number, width);
    thread.elements.share(
        {lanes, lane, [&](Value value, int32_t bits) { return program.exchanged(thread, value, bits); }});
    Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, item, count);
    auto own = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
    b.setInsertionPointToStart(own.thenBlock());
    SmallVector<Value> place = gpu::digits(thread, item, extents);
    SmallVector<SmallVector<Value>> values;
    for (const Stage *stage : group)
      if (values.push_back(thread.elements.compute(stage->op, place)); values.back().empty())
        return failure();
    if (lanes > 1) {
      Value zero = arith::ConstantIndexOp::create(b, loc, 0);
      Value is_first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, zero);
      b.setInsertionPointToStart(scf::IfOp::create(b, loc, is_first, /*withElseRegion=*/false).thenBlock());
    }
    for (auto [stage, made] : llvm::zip_equal(group, values)) {
      LinalgOp op = stage->op;
      for (auto [i, result] : llvm::enumerate(op->getResults()))
        if (program.is_kept(result))
          thread.elements.store(result, thread.elements.place_of(op, i, place), made[i]);
    }
    return success();
  });
}

LogicalResult write(gpu::Program &program, const ScheduleRow &row, const Target &) {
  int64_t lanes = row.params.at("lanes");
  if (lanes != 1 && lanes != warp)
    return program.kernel().emitError("an element is computed by one thread or by a warp");
  Stages stages(program.kernel());
  for (const Group &group : groups_of(stages, lanes)) {
    for (const Stage *stage : group)
      for (Value result : LinalgOp(stage->op)->getResults())
        if (!result.use_empty() && failed(program.keep(result)))
          return failure();
    if (failed(write_group(program, group, lanes_of(*group.front(), lanes))))
      return failure();
  }
  return success();
}

/// Terms of a reduction, with those that the last turn of its lanes lacks.
double padded_terms(LinalgOp op, int64_t lanes) {
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  int64_t innermost = op.getStaticLoopRanges()[reduced.back()];
  innermost = ShapedType::isDynamic(innermost) ? sizes::unknown : std::max<int64_t>(innermost, 1);
  return double(sizes::terms_of(op)) / double(innermost) * double((innermost + lanes - 1) / lanes * lanes);
}

/// What terms take to come from memory, each for one element: four loads of each lane are under way at once, which take
/// 700 ns; and a multiply-add and the other factor's load, of each.
double seconds_of_terms(LinalgOp op, double elements, double of_element, int64_t lanes, const Gpu &device) {
  constexpr double latency = 700e-9, loads_at_once = 4, warps_at_once = 48;
  double bytes = 4;
  for (Value operand : op.getDpsInputs())
    if (auto type = dyn_cast<RankedTensorType>(operand.getType()); type && type.getRank() > 0)
      bytes = std::min(bytes, std::max(1.0, double(type.getElementTypeBitWidth()) / 8));
  double warps = elements * double(lanes) / double(warp);
  warps = std::min(std::max(warps, 1.0), double(device.multiprocessors) * warps_at_once);
  double rate = std::min(device.memory_rate, warps * double(warp) * bytes * loads_at_once / latency);
  return latency + elements * of_element * (bytes / rate + 4 / device.flops);
}

/// What a stage is expected to take at sizes of the kernel, without its launch.
double seconds(const Stage &stage, int64_t lanes, ArrayRef<int64_t> at, const Gpu &device) {
  // Every operation waits for what it loads, from caches at best: a sixteenth of the peak. Lanes that share a sum read
  // neighbours, which are twice as fast. However few elements there are, a term waits some 50 ns for what it loads.
  double rate = device.flops / 16, elements = 1, of_element = 0;
  LinalgOp op = stage.op;
  elements = sizes::points_of(op, at) / double(std::max<int64_t>(1, sizes::terms_of(op)));
  double others = double(stage.inlined.size()) + 1;
  for (LinalgOp sum : stage.reductions())
    of_element += padded_terms(sum, lanes);
  if (lanes > 1) // and all lanes compute what is none, and exchange sums
    return std::max({2 * elements * (of_element / 2 + double(lanes) * (others + 8)) / rate,
                     of_element / double(lanes) * 50e-9, seconds_of_terms(op, elements, of_element, lanes, device)});
  return std::max({2 * elements * (of_element + others) / rate, of_element * 50e-9,
                   seconds_of_terms(op, elements, of_element, lanes, device)});
}

Result<std::vector<Candidate>> candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  Stages stages(kernel);
  std::vector<Candidate> out;
  for (int64_t lanes : {int64_t(1), warp}) {
    if (lanes > 1 && llvm::all_of(stages.stored(), [](const Stage &stage) { return lanes_of(stage, 2) == 1; }))
      break;
    out.push_back({{"each_element", {{"lanes", lanes}}}, [=, device = *target.gpu](ArrayRef<int64_t> at) {
                     double all = gpu::launch_seconds * double(groups_of(stages, lanes).size());
                     for (const Stage &stage : stages.stored())
                       all += seconds(stage, lanes_of(stage, lanes), at, device);
                     return all;
                   }});
  }
  return out;
}

} // namespace

const Variant each_element = {
    .name = "each_element",
    .what = "a launch for stages with equal loops, a thread for each element, or a warp for each that is a sum",
    .parameters = {{"lanes", "threads that share the terms of an element", 1, warp, {1, warp}}},
    .candidates = candidates,
    .version = 3,
    .write = write};

} // namespace heddle
