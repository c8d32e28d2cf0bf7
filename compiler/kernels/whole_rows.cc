// A warp or a block computes a row: what its reductions give stays in registers, in those of all of its threads, and no
// stage goes through memory. Threads take the row's elements in turn; what each combines of its own goes from lane to
// lane by shuffles, and from warp to warp through shared memory, in the same order for every thread. Where a row is
// short enough, a thread keeps its elements of every stage in registers: the row is read once.
//
//   y[m, c] = f(x[m, c], sum[i](g(x[m, i])), …)
#include "compiler/kernels/whole_rows.h"

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

namespace heddle {

using namespace mlir;
using linalg::LinalgOp;

namespace {

constexpr int64_t warp = 32, least_threads = 128; // of a block, which has several rows where a warp computes one
constexpr int64_t most_kept = 32;                 // elements of a row that a thread keeps in registers

/// What a kernel's rows are made of.
struct Rows {
  unsigned axes;                   // that number them, the leading ones of everything
  SmallVector<AffineExpr> extents; // of these
  SmallVector<LinalgOp> scalars;   // stages with one element for each row, in program order
};

unsigned rank_of(LinalgOp op) { return op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getNumResults(); }

Result<Rows> rows_of(func::FuncOp kernel) {
  int axes = rows::shared_axes(kernel);
  if (axes < 0)
    return Error{"its reductions have no rows in common"};
  Rows out{unsigned(axes), {}, {}};
  for (Value returned :
       kernel.front().getTerminator()->getOperands()) { // some may have other rows, which nothing reads
    auto extents = ir::extent_formulas(returned);
    if (failed(extents))
      return Error{"an extent is no formula"};
    if (out.extents.empty())
      out.extents.assign(extents->begin(), extents->begin() + axes);
    auto differs = std::mismatch(out.extents.begin(), out.extents.end(), extents->begin()).first;
    out.extents.erase(differs, out.extents.end());
    out.axes = unsigned(out.extents.size());
    if (out.axes == 0)
      return Error{"what it returns has no rows in common"};
  }
  bool shared = false;
  for (auto op : kernel.getOps<LinalgOp>()) {
    if (isa<linalg::FillOp>(op.getOperation()) || op.getNumReductionLoops() == 0)
      continue;
    for (unsigned axis = 0; axis < out.axes; ++axis)
      for (Value result : op->getResults()) {
        AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(cast<OpResult>(result).getResultNumber()));
        if (!isa<AffineDimExpr>(map.getResult(axis)))
          return Error{"rows are written at computed places"};
      }
    if (rank_of(op) > out.axes) {
      // An element that a thread sums up alone; others would have to sum it up again.
      for (Operation *user : op->getUsers())
        if (auto reader = dyn_cast<LinalgOp>(user); !reader || reader.getNumReductionLoops() > 0)
          return Error{"what is summed up within a row is summed up again"};
      continue;
    }
    out.scalars.push_back(op);
    shared |= gpu::combiner_of(op) != nullptr;
  }
  if (!shared)
    return Error{"no reduction can be shared by threads"};
  return out;
}

class RowCode : gpu::Arithmetic {
public:
  RowCode(gpu::Program &program, gpu::Program::Thread &thread, const Rows &rows, int64_t threads)
      : Arithmetic(thread.b, thread.loc), program(program), thread(thread), rows(rows), threads(threads),
        elements(thread.elements), returned(program.kernel().front().getTerminator()->getOperands()) {
    for (Value value : returned)
      elements.hide(value);
  }

  LogicalResult write() {
    SmallVector<Value> extents;
    Value count = index(1);
    for (AffineExpr extent : rows.extents) {
      extents.push_back(elements.size(extent, program.kernel()));
      count = mul(count, extents.back());
    }
    Value number = thread.block;
    own = thread.number;
    OpBuilder::InsertionGuard guard(b);
    if (threads == warp) {
      number = add(mul(number, index(least_threads / warp)), div(own, index(warp)));
      own = rem(own, index(warp));
      b.setInsertionPointToStart(scf::IfOp::create(b, loc, below(number, count), /*withElseRegion=*/false).thenBlock());
    }
    row = gpu::digits(thread, number, extents);
    gpu::Elements::Remembering remembering(elements);
    for (LinalgOp op : rows.scalars)
      if (failed(reduce(op)))
        return failure();
    for (Value value : returned)
      if (failed(write(value)))
        return failure();
    return success();
  }

private:
  /// Elements of a row that threads take in turn: the extents of the loops beside the row's.
  struct Turn {
    SmallVector<Value> extents;
    Value count;
    int64_t kept; // how many a thread has at most, where it keeps them; 0: it goes over them in a loop
  };

  Turn turn_of(ArrayRef<AffineExpr> formulas) {
    Turn out{{}, index(1), 1};
    int64_t all = 1;
    for (AffineExpr formula : formulas) {
      out.extents.push_back(elements.size(formula, program.kernel()));
      out.count = mul(out.count, out.extents.back());
      auto constant = dyn_cast<AffineConstantExpr>(formula);
      all = constant && all >= 0 ? all * constant.getValue() : -1;
    }
    out.kept = all < 0 ? 0 : (all + threads - 1) / threads;
    if (out.kept > most_kept)
      out.kept = 0;
    return out;
  }
  /// The places of this thread's element number `i` of those it keeps, the same values whenever they are asked for,
  /// and whether there is one: null where there always is.
  std::pair<SmallVector<Value>, Value> kept_place(ArrayRef<AffineExpr> formulas, const Turn &turn, int64_t i) {
    std::vector<const void *> key{reinterpret_cast<const void *>(i)};
    for (AffineExpr formula : formulas)
      key.push_back(formula.getAsOpaquePointer());
    auto found = places.find(key);
    if (found != places.end())
      return found->second;
    Value at = add(own, index(i * threads)), exists;
    int64_t all = 1;
    for (AffineExpr formula : formulas)
      all *= cast<AffineConstantExpr>(formula).getValue();
    if ((i + 1) * threads > all) {
      exists = below(at, turn.count);
      at = least(at, sub(turn.count, index(1)));
    }
    return places[key] = {gpu::digits(thread, at, turn.extents), exists};
  }

  /// All loops of an op: the row's, and these of the others.
  SmallVector<Value> loops_of(LinalgOp op, ArrayRef<unsigned> others, ValueRange values) {
    SmallVector<Value> out(op.getNumLoops());
    AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    for (unsigned axis = 0; axis < rows.axes; ++axis)
      out[map.getDimPosition(axis)] = row[axis];
    for (auto [loop, value] : llvm::zip_equal(others, values))
      out[loop] = value;
    return out;
  }

  LogicalResult reduce(LinalgOp op) {
    if (!gpu::combiner_of(op)) { // every thread, in order
      SmallVector<Value> parallel, all = loops_of(op, {}, {});
      SmallVector<unsigned> loops;
      op.getParallelDims(loops);
      for (unsigned loop : loops)
        parallel.push_back(all[loop] ? all[loop] : index(0));
      SmallVector<Value> values = elements.compute(op, parallel);
      if (values.empty())
        return failure();
      for (auto [result, value] : llvm::zip_equal(op->getResults(), values))
        elements.give(result, value);
      return success();
    }
    auto formulas = ir::loop_extents(op);
    if (failed(formulas))
      return op->emitOpError("has a loop whose extent no operand tells");
    SmallVector<unsigned> reduced;
    op.getReductionDims(reduced);
    SmallVector<AffineExpr> extents = llvm::map_to_vector(reduced, [&](unsigned loop) { return (*formulas)[loop]; });
    Value sum = elements.element(op.getDpsInits()[0], row);
    if (!sum)
      return failure();
    Turn turn = turn_of(extents);
    for (int64_t i = 0; i < turn.kept; ++i) {
      auto [place, exists] = kept_place(extents, turn, i);
      SmallVector<Value> next = elements.next(op, loops_of(op, reduced, place), sum);
      if (next.empty())
        return failure();
      sum = exists ? choose(exists, next[0], sum) : next[0];
    }
    if (turn.kept == 0) {
      auto loop = scf::ForOp::create(b, loc, own, turn.count, index(threads), sum);
      OpBuilder::InsertionGuard guard(b);
      gpu::Elements::Forgetting forgetting(elements);
      b.setInsertionPointToStart(loop.getBody());
      SmallVector<Value> place = gpu::digits(thread, loop.getInductionVar(), turn.extents);
      SmallVector<Value> next = elements.next(op, loops_of(op, reduced, place), loop.getRegionIterArgs());
      if (next.empty())
        return failure();
      scf::YieldOp::create(b, loc, next);
      sum = loop.getResult(0);
    }
    elements.give(op->getResult(0), combined(op, sum));
    return success();
  }

  /// What all threads of the row have together.
  Value combined(LinalgOp op, Value value) {
    Operation *combiner = gpu::combiner_of(op);
    auto combine = [&](Value p, Value q) {
      IRMapping map;
      map.map(combiner->getOperand(0), p);
      map.map(combiner->getOperand(1), q);
      return b.clone(*combiner, map)->getResult(0);
    };
    for (int32_t bits = 1; bits < warp; bits *= 2)
      value = combine(value, program.exchanged(thread, value, bits));
    if (threads == warp)
      return value;
    Value of_warps = program.shared(thread, threads / warp, value.getType());
    {
      OpBuilder::InsertionGuard guard(b);
      Value is_first = below(rem(own, index(warp)), index(1));
      b.setInsertionPointToStart(scf::IfOp::create(b, loc, is_first, /*withElseRegion=*/false).thenBlock());
      program.store_shared(thread, of_warps, div(own, index(warp)), value);
    }
    program.barrier(thread);
    Value all = program.load_shared(thread, of_warps, index(0), value.getType());
    for (int64_t i = 1; i < threads / warp; ++i)
      all = combine(all, program.load_shared(thread, of_warps, index(i), value.getType()));
    return all;
  }

  LogicalResult write(Value value) {
    auto formulas = ir::extent_formulas(value);
    if (failed(formulas))
      return emitError(value.getLoc(), "a tensor of a kernel has an extent that is no formula of its sizes");
    ArrayRef<AffineExpr> extents = ArrayRef(*formulas).drop_front(rows.axes);
    auto store = [&](ValueRange place, Value exists) {
      SmallVector<Value> at(row);
      llvm::append_range(at, place);
      Value element = elements.element(value, at);
      if (!element)
        return failure();
      OpBuilder::InsertionGuard guard(b);
      if (exists)
        b.setInsertionPointToStart(scf::IfOp::create(b, loc, exists, /*withElseRegion=*/false).thenBlock());
      elements.store(value, at, element);
      return success();
    };
    if (extents.empty())
      return store({}, below(own, index(1)));
    Turn turn = turn_of(extents);
    for (int64_t i = 0; i < turn.kept; ++i)
      if (auto [place, exists] = kept_place(extents, turn, i); failed(store(place, exists)))
        return failure();
    if (turn.kept > 0)
      return success();
    auto loop = scf::ForOp::create(b, loc, own, turn.count, index(threads));
    OpBuilder::InsertionGuard guard(b);
    gpu::Elements::Forgetting forgetting(elements);
    b.setInsertionPointToStart(loop.getBody());
    return store(gpu::digits(thread, loop.getInductionVar(), turn.extents), {});
  }

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const Rows &rows;
  const int64_t threads; // of a row
  gpu::Elements &elements;
  ValueRange returned;
  Value own; // this thread's number in the row
  SmallVector<Value> row;
  std::map<std::vector<const void *>, std::pair<SmallVector<Value>, Value>> places;
};

LogicalResult write(gpu::Program &program, const ScheduleRow &row, const Target &) {
  auto rows = rows_of(program.kernel());
  if (!rows)
    return program.kernel().emitError() << rows.error().message;
  int64_t threads = row.params.at("threads");
  if (threads % warp != 0)
    return program.kernel().emitError("a row is computed by whole warps");
  int64_t of_block = std::max(threads, least_threads), each = threads == warp ? of_block / warp : 1;
  return program.launch(gpu::Dealt{rows->extents, each}, threads == warp ? of_block : threads,
                        [&](gpu::Program::Thread &thread) { return RowCode(program, thread, *rows, threads).write(); });
}

/// What a call is expected to take at these sizes of the kernel.
double seconds(func::FuncOp kernel, const Rows &rows, int64_t threads, ArrayRef<int64_t> at, const Gpu &device) {
  double count = 1, of_row = 0, steps = 0;
  for (AffineExpr extent : rows.extents)
    count *= sizes::value_of(extent, at);
  for (auto op : kernel.getOps<LinalgOp>())
    if (!isa<linalg::FillOp>(op.getOperation())) {
      double points = sizes::points_of(op, at) / count;
      of_row += points;
      steps += std::ceil(points / double(threads));
    }
  // Every operation waits for the one before it, and a row for its reductions: 30 ns for each, and as much for a turn
  // of its threads. Otherwise an eighth of the peak, and of a warp without work nothing comes.
  double waits = 30e-9 * (steps + double(rows.scalars.size()) * (1 + std::log2(double(threads) / warp)));
  double at_once = double(device.multiprocessors) * 2048 / double(threads);
  double busy = count * 2 * (of_row + 8 * double(threads)) / (device.flops / 8);
  return gpu::launch_seconds + std::max(busy, std::ceil(count / at_once) * waits);
}

Result<std::vector<Candidate>> candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto rows = rows_of(kernel);
  if (!rows)
    return rows.error();
  std::vector<Candidate> out;
  for (int64_t threads : {warp, 4 * warp, 8 * warp, 16 * warp})
    out.push_back({{"whole_rows", {{"threads", threads}}},
                   [kernel, rows = *rows, threads, device = *target.gpu](ArrayRef<int64_t> at) {
                     return seconds(kernel, rows, threads, at, device);
                   }});
  return out;
}

} // namespace

const Variant whole_rows = {.name = "whole_rows",
                            .what = "one launch: a warp or a block for each row, what it reduces in registers",
                            .parameters = {{"threads", "threads of a row", warp, 1024, {32, 128, 256, 512}}},
                            .candidates = candidates,
                            .write = write};

} // namespace heddle
