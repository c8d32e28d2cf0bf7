// One loop nest for the whole kernel: task (parallel) → row → everything of that row. Reductions along the row keep
// one partial result per lane (several registers of them) and join these at the end; stages that several others read
// are stored for one row; scalars of a row (mean, maximum) are computed once per row.
#include "compiler/kernels/rows.h"

#include "compiler/halide/infinities.h"
#include "compiler/halide/threads.h"
#include "compiler/ir/dialect.h"
#include "compiler/kernels/inlining.h"
#include "compiler/kernels/loads_first.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace heddle::rows {

using mlir::linalg::LinalgOp;

/// Position of loop `loop` among the axes of result 0, or -1.
static int axis_of_loop(LinalgOp op, unsigned loop) {
  for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults()))
    if (expr == mlir::getAffineDimExpr(loop, op.getContext()))
      return int(axis);
  return -1;
}

bool reduces_across(LinalgOp op) {
  mlir::AffineMap result = op.getMatchingIndexingMap(op.getDpsInitOperand(0)), largest;
  auto kinds = op.getIteratorTypesArray();
  for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
    mlir::AffineMap map = op.getMatchingIndexingMap(operand);
    bool reduced = false;
    for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
      reduced |= kinds[loop] == mlir::utils::IteratorType::reduction && map.isFunctionOfDim(loop);
    if (reduced && (!largest || map.getNumResults() > largest.getNumResults()))
      largest = map;
  }
  if (result.getNumResults() == 0)
    return false;
  if (largest && largest.getResults().back() == result.getResults().back())
    return true;
  // A window over a picture: what is read at computed places is contiguous along the result's innermost axis.
  bool across = false;
  op.getBlock()->walk([&](mlir::tensor::ExtractOp read) {
    auto index = read.getIndices().empty() ? mlir::linalg::IndexOp()
                                           : read.getIndices().back().getDefiningOp<mlir::linalg::IndexOp>();
    across |= index && mlir::getAffineDimExpr(unsigned(index.getDim()), op.getContext()) == result.getResults().back();
  });
  return across;
}

int shared_axes(mlir::func::FuncOp kernel) {
  int rows = std::numeric_limits<int>::max();
  contraction::Reductions reductions;
  for (mlir::Operation &nested : kernel.getBody().front()) {
    auto op = llvm::dyn_cast<LinalgOp>(nested);
    if (!op || llvm::isa<mlir::linalg::FillOp>(nested))
      continue;
    int rank = int(op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getNumResults());
    if (op.getNumReductionLoops() > 0)
      rows = std::min(rows, reduces_across(op) ? rank - 1 : rank);
    // What the op reads of other stages must lie at its own row.
    for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
      if (!reductions.are_behind(operand->get())) // it can be computed where it is read, wherever that is
        continue;
      int common = 0;
      for (mlir::AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
        auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
        if (!dim || axis_of_loop(op, dim.getPosition()) != common)
          break;
        ++common;
      }
      rows = std::min(rows, common);
    }
    bool aligned = true;
    op.getBlock()->walk([&](mlir::tensor::ExtractOp read) { aligned &= !reductions.are_behind(read.getTensor()); });
    if (!aligned)
      return -1;
  }
  bool reduces = rows != std::numeric_limits<int>::max();
  for (mlir::Type type : kernel.getResultTypes()) {
    int rank = int(llvm::cast<mlir::RankedTensorType>(type).getRank());
    rows = std::min(rows, reduces ? rank : std::max(rank - 1, 0));
  }
  return std::max(rows, 0);
}

/// What an element costs, roughly, in eighths of a nanosecond: one where only memory counts, more where functions are
/// evaluated.
static int64_t element_cost(mlir::func::FuncOp kernel) {
  int64_t cost = 1;
  kernel.walk([&](mlir::Operation *op) {
    if (llvm::isa<mlir::math::ExpOp, mlir::math::ErfOp, mlir::math::TanhOp, mlir::math::LogOp, mlir::math::PowFOp>(op))
      cost += 2;
    else if (llvm::isa<mlir::math::SinOp, mlir::math::CosOp>(op))
      cost += 4;
  });
  return cost;
}

/// How many times as long it takes to read a row of a weight in panels, whose elements lie lines apart.
constexpr double slowdown_of_panels = 5;

/// What is computed element by element: the most of all stages.
static double elements(mlir::func::FuncOp kernel, llvm::ArrayRef<int64_t> sizes) {
  double out = 1;
  kernel.walk([&](LinalgOp op) { out = std::max(out, sizes::points_of(op, sizes)); });
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument) {
    auto given = kernel.getArgAttrOfType<ir::LayoutAttr>(argument, ir::names::layout);
    if (given && !given.getMap().isIdentity())
      return out * slowdown_of_panels;
  }
  return out;
}

/// What a task takes beside its work: it is handed out and sets up its loops.
constexpr double task_seconds = 0.3e-6;

/// Tasks of some 20 us, so that waking another thread pays, and finer ones.
static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &) {
  int64_t cost = element_cost(kernel), most = std::max<int64_t>(65536 / cost, 2048);
  std::vector<Candidate> out;
  for (int64_t grain : {most, most / 4})
    out.push_back({{"rows", {{"grain", grain}}}, [=](llvm::ArrayRef<int64_t> sizes) {
                     double count = elements(kernel, sizes);
                     return count * double(cost) / 8e9 + (std::ceil(count / double(grain)) - 1) * task_seconds;
                   }});
  return out;
}

namespace {

class RowNest {
public:
  RowNest(LoweredKernel &kernel, int rows, int64_t grain, const Target &target)
      : kernel_(kernel), rows_(rows), grain_(int(grain)), lanes_(target.lanes) {}

  Status build() {
    join_outputs(kernel_);
    kernel_.passes.push_back(loads_first());
    find_host();
    for (KernelOutput &output : kernel_.outputs)
      arrange(output);
    for (KernelOutput &output : kernel_.outputs)
      if (one_nest() && output.func.name() != host().func.name())
        output.func.compute_with(host().func, row_);
    for (LoweredOp &stage : kernel_.stages)
      place(stage);
    return Done{};
  }

private:
  /// The output in whose loops everything is computed, where one is enough: it is the only one, or the others are
  /// written in the same loop over rows, such as the scales of rows that are rounded. Of several axes fused to one loop
  /// of a nest of several outputs Halide doesn't see that an iteration is one row (measured: 12 to 100 times as long).
  KernelOutput &host() { return kernel_.outputs[host_]; }
  bool one_nest() const { return one_nest_; }

  void find_host() {
    for (size_t i = 0; i < kernel_.outputs.size(); ++i)
      if (kernel_.outputs[i].axes.size() >= host().axes.size())
        host_ = i;
    one_nest_ = kernel_.outputs.size() == 1 ||
                (rows_ == 1 && !no_reductions() && !looks_up() && int(host().axes.size()) > rows_ &&
                 std::ranges::any_of(kernel_.outputs,
                                     [&](const KernelOutput &output) { return int(output.axes.size()) == rows_; }));
  }

  /// Whether something is read at computed places: in a nest of several outputs Halide guards such reads one by one
  /// (measured: an embedding with its norm takes 36 times as long).
  bool looks_up() {
    bool found = false;
    kernel_.function.walk([&](mlir::tensor::ExtractOp) { found = true; });
    return found;
  }

  /// Elements that one row of an output or of what it is made from takes; of more than a grain, a grain.
  Halide::Expr row_length() {
    Halide::Expr longest = 1;
    auto times = [&](const Halide::Expr &length, const Halide::Expr &extent) { // which may need more than 32 bits
      return Halide::cast<int>(
          min(Halide::cast<int64_t>(length) * Halide::cast<int64_t>(extent), Halide::Expr(int64_t(grain_))));
    };
    auto consider = [&](Halide::Expr length) { longest = Halide::Internal::simplify(max(longest, length)); };
    for (const KernelOutput &output : kernel_.outputs) {
      Halide::Expr length = 1;
      for (size_t axis = rows_; axis < output.axes.size(); ++axis)
        length = times(length, output.axes[axis].extent);
      consider(length);
    }
    for (const LoweredOp &stage : kernel_.stages) {
      Halide::Expr length = 1;
      for (const LoweredLoop &loop : stage.loops)
        if (loop.reduction)
          length = times(length, loop.extent);
      consider(length);
    }
    return longest;
  }

  /// The lanes for a row of that length: a power of two, no wider than needed. Two numbers are none: of two lanes that
  /// are computed one by one, a and b, Halide 21 makes a ramp from a with the step b - a, which is another number in
  /// floats, NaN beside an infinite one.
  int width_for(int64_t size) const {
    if (size == 2)
      return 1;
    return size < 0 || size >= lanes_ ? lanes_ : int(std::bit_ceil(uint64_t(std::max<int64_t>(size, 1))));
  }

  /// Registers of lanes to work on at once: all of what divides the row evenly, up to four.
  int unroll_for(int64_t size, int width) const {
    if (size < 0)
      return 1;
    for (int unroll : {4, 3, 2})
      if (size % (width * unroll) == 0)
        return unroll;
    return 1;
  }

  /// Lanes along `var`.
  template <class Definition> void vectorize(Definition definition, Halide::Var var, int64_t size) {
    int width = width_for(size), unroll = unroll_for(size, width);
    if (width == 1) {
      if (size == 2)
        definition.unroll(var);
      return;
    }
    Halide::Var block("block"), lane("lane");
    definition.split(var, block, lane, width, Halide::TailStrategy::GuardWithIf).vectorize(lane);
    if (unroll > 1)
      definition.unroll(block, unroll);
  }

  void arrange(KernelOutput &output) {
    Halide::Func &func = output.func;
    func.compute_root();
    if (output.axes.empty())
      return;
    if (rows_ == 0) { // a single axis, or nothing that goes by rows
      OutputAxis &lane = output.axes.back();
      if (one_nest() && output.axes.size() == 1 && no_reductions()) {
        func.split(lane.var, task_, row_, elements_of_task(lane.extent), Halide::TailStrategy::GuardWithIf)
            .parallel(task_);
        vectorize(Halide::Stage(func), row_, -1);
      } else {
        vectorize(Halide::Stage(func), lane.var, lane.size);
      }
      return;
    }
    // Rows outermost, in order, as one loop.
    Halide::Var fused = output.axes[0].var;
    for (int axis = 1; axis < rows_; ++axis) {
      Halide::Var next("rows" + std::to_string(axis));
      func.fuse(output.axes[axis].var, fused, next);
      fused = next;
    }
    if (OutputAxis &lane = output.axes.back(); has_long_rows(output)) {
      Halide::Var piece("piece"), pieces("pieces");
      func.split(lane.var, piece, lane.var, elements_of_task(lane.extent), Halide::TailStrategy::GuardWithIf)
          .fuse(piece, fused, pieces);
      fused = pieces;
    }
    Halide::Expr rows = 1;
    for (int axis = 0; axis < rows_; ++axis)
      rows *= output.axes[axis].extent;
    Halide::Expr rows_of_task = iterations_of_task(max((grain_ + row_length() - 1) / row_length(), 1), rows);
    rows_of_task = Halide::Internal::simplify(rows_of_task);
    func.split(fused, task_, row_, rows_of_task, Halide::TailStrategy::GuardWithIf).parallel(task_);
    if (int(output.axes.size()) > rows_)
      vectorize(Halide::Stage(func), output.axes.back().var, output.axes.back().size);
  }

  /// Whether a row may be longer than a task, and pieces of it can be computed by themselves: what is stored for a row
  /// would be stored for each piece.
  bool has_long_rows(const KernelOutput &output) {
    const OutputAxis &lane = output.axes.back();
    return one_nest() && no_reductions() && int(output.axes.size()) == rows_ + 1 &&
           (lane.size < 0 || lane.size > grain_) && std::ranges::all_of(kernel_.stages, [&](LoweredOp &stage) {
             return users_of(stage) < 2 || is_cheap(stage);
           });
  }

  bool no_reductions() {
    return std::none_of(kernel_.stages.begin(), kernel_.stages.end(),
                        [](const LoweredOp &s) { return s.has_update(); });
  }

  /// Elements of a task, in whole vectors: tasks of equal size, so that the last one has few vectors past the end.
  Halide::Expr elements_of_task(const Halide::Expr &elements) const {
    int unit = 4 * lanes_;
    Halide::Expr grain = max(iterations_of_task(grain_, elements) / unit, 1) * unit;
    Halide::Expr tasks = max((elements + (grain - 1)) / grain, 1);
    return Halide::Internal::simplify(max((elements + tasks * unit - 1) / (tasks * unit), 1) * unit);
  }

  /// How many stages and outputs read a stage. A body that extracts counts as many: it may read anywhere.
  int users_of(const LoweredOp &stage) {
    int users = 0;
    for (mlir::OpResult result : stage.op->getResults())
      if (kernel_.stage_of(result) == &stage)
        for (mlir::OpOperand &use : result.getUses())
          users += use.getOwner()->getBlock() == &kernel_.function.getBody().front() ? 1 : 2;
    return users;
  }

  void place(LoweredOp &stage) {
    bool by_rows = rows_ > 0 && one_nest() && !free_of_rows(stage);
    bool has_lanes = int(stage.axes.size()) > rows_;
    if (!stage.has_update()) {
      bool scalar_of_row = !has_lanes && reductions_.are_behind(stage.op->getResult(0));
      if (!scalar_of_row && (users_of(stage) < 2 || is_cheap(stage)))
        return; // inlined
      if (!by_rows && !reductions_.are_behind(stage.op->getResult(0)))
        return; // recomputed where it is read
    }
    if (by_rows)
      stage.func.compute_at(host().func, row_);
    else
      stage.func.compute_root();
    if (by_rows && kernel_.hoists_storage)
      stage.func.hoist_storage(host().func, task_);
    if (has_lanes)
      vectorize(Halide::Stage(stage.func), stage.axes.back(), size_of(stage, stage.axes.back()));
    if (stage.has_update())
      reduce(stage);
  }

  /// Reading it again costs no more than reading its copy would.
  bool is_cheap(LoweredOp &stage) {
    return std::distance(stage.op.getBlock()->begin(), stage.op.getBlock()->end()) == 1; // nothing but the yield
  }

  /// Whether the stage has no axes of rows, such as a bias made of two: it belongs to no row.
  bool free_of_rows(const LoweredOp &stage) { return int(stage.axes.size()) < rows_; }

  static int64_t size_of(const LoweredOp &stage, const Halide::Var &var) {
    for (const LoweredLoop &loop : stage.loops)
      if (!loop.reduction && loop.var.same_as(var))
        return loop.size;
    return -1;
  }

  static bool can_be_split(LoweredOp &stage) {
    if (stage.op.getNumDpsInits() != 1 || adds_infinities(stage.op))
      return false;
    return llvm::isa_and_nonnull<mlir::arith::AddFOp, mlir::arith::MulFOp, mlir::arith::MaximumFOp,
                                 mlir::arith::MinimumFOp, mlir::arith::MaxNumFOp, mlir::arith::MinNumFOp,
                                 mlir::arith::AddIOp, mlir::arith::MulIOp, mlir::arith::MaxSIOp, mlir::arith::MinSIOp>(
        combiner_of(stage.op));
  }

  void reduce(LoweredOp &stage) {
    Halide::Stage update = stage.func.update();
    if (reduces_across(stage.op)) { // lanes along the result
      Halide::Var inner = stage.axes.back();
      std::vector<Halide::VarOrRVar> order;
      int64_t size = size_of(stage, inner);
      int width = width_for(size), unroll = unroll_for(size, width);
      Halide::Var block("block"), lane("lane");
      if (width > 1)
        update.split(inner, block, lane, width * unroll, Halide::TailStrategy::GuardWithIf);
      for (size_t i = stage.loops.size(); i-- > 0;)
        if (stage.loops[i].reduction)
          order.push_back(stage.loops[i].rvar);
      if (width > 1) {
        order.insert(order.begin(), lane);
        order.push_back(block);
        update.reorder(order);
        if (unroll > 1) {
          Halide::Var part("part"), within("within");
          update.split(lane, part, within, width).unroll(part).vectorize(within);
        } else {
          update.vectorize(lane);
        }
      }
      unroll_window(stage, update);
      return;
    }
    // Lanes along the innermost reduction loop, each with a partial result of its own.
    const LoweredLoop *along = nullptr;
    for (const LoweredLoop &loop : stage.loops)
      if (loop.reduction)
        along = &loop;
    if (!can_be_split(stage) || (along->size >= 0 && along->size < 4))
      return;
    int width = width_for(along->size), unroll = along->size < 0 ? 2 : unroll_for(along->size, width);
    Halide::RVar outer("outer"), inner("inner");
    Halide::Var part("part");
    update.split(along->rvar, outer, inner, width * unroll, Halide::TailStrategy::GuardWithIf);
    Halide::Func partial = update.rfactor(inner, part);
    if (stage.axes.empty())
      partial.compute_root();
    else // one result after the other, so that its lanes stay in registers
      partial.compute_at(stage.func, stage.axes.back());
    auto across = [&](Halide::Stage definition) {
      if (unroll == 1) {
        definition.vectorize(part);
        return;
      }
      Halide::Var block("block"), lane("lane");
      definition.split(part, block, lane, width).vectorize(lane).unroll(block);
    };
    partial.bound_extent(part, width * unroll);
    std::vector<Halide::Var> storage = {part};
    for (const Halide::Var &axis : partial.args())
      if (!axis.same_as(part))
        storage.push_back(axis);
    partial.reorder_storage(storage);
    across(Halide::Stage(partial));
    std::vector<Halide::VarOrRVar> order = {part, outer};
    for (size_t i = stage.loops.size(); i-- > 0;)
      if (stage.loops[i].reduction && &stage.loops[i] != along)
        order.push_back(stage.loops[i].rvar);
    partial.update().reorder(order);
    across(partial.update());
    Halide::Stage join = stage.func.update();
    join.atomic().vectorize(inner);
    if (along->size < 0) // a row that fills the lanes joins them without asking which are in use
      join.specialize(along->extent >= width * unroll);
  }

  /// A few terms are written out, so that the partial result stays in registers.
  static void unroll_window(const LoweredOp &stage, Halide::Stage &update) {
    int64_t terms = 1;
    for (const LoweredLoop &loop : stage.loops)
      if (loop.reduction)
        terms = loop.size < 0 || terms > most_unrolled ? most_unrolled + 1 : terms * loop.size;
    if (terms > most_unrolled)
      return;
    for (const LoweredLoop &loop : stage.loops)
      if (loop.reduction && loop.size > 1)
        update.unroll(loop.rvar);
  }

  static constexpr int64_t most_unrolled = 16;

  LoweredKernel &kernel_;
  contraction::Reductions reductions_;
  int rows_;
  size_t host_ = 0;
  bool one_nest_ = false;
  int grain_;
  int lanes_;
  Halide::Var task_{"task"}, row_{"row"};
};

} // namespace

static Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return RowNest(kernel, shared_axes(kernel.function), row.params.at("grain"), target).build();
}

Variant variant(std::string_view what, int version) {
  return {.name = "rows",
          .what = what,
          .parameters = {{"grain", "elements of a task", 1, 1 << 30, {2048, 65536}}},
          .candidates = candidates,
          .schedule = schedule,
          .version = version};
}

} // namespace heddle::rows
