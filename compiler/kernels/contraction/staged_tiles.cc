// Products on a GPU, staged: a block computes a square tile of the product. Its threads bring some terms of the tile's
// rows and columns to shared memory, where each is read once per column or row of threads, or of warps; sums stay in
// registers (thread_tiles.h says how), and from each a thread then computes what the kernel returns.
//
//   y[m, n] = f(sum[k](a[m, k] * b[n, k]), m, n)
#include "compiler/kernels/contraction/contraction.h"

#include "compiler/gpu/program.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/contraction/thread_tiles.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

namespace heddle::contraction {

using namespace mlir;

namespace {

/// The loops of a product by what they mean for a tile, outermost first.
struct Nest {
  Reached reached;
  SmallVector<unsigned> batches, rows, columns, terms;
  AffineExpr row_count, column_count;
  SmallVector<AffineExpr> extents; // of all loops
};

/// The product of some extents; null where two of them are run-time sizes.
AffineExpr product_of_extents(ArrayRef<AffineExpr> extents, ArrayRef<unsigned> loops, MLIRContext *context) {
  AffineExpr out = getAffineConstantExpr(1, context);
  for (unsigned loop : loops) {
    if (!isa<AffineConstantExpr>(out) && !isa<AffineConstantExpr>(extents[loop]))
      return {};
    out = out * extents[loop];
  }
  return out;
}

Result<Nest> nest_of(func::FuncOp kernel) {
  auto results = match(kernel);
  if (!results || !has_one_product(*results))
    return Error{"its results come from several products"};
  Nest out{results->front().front(), {}, {}, {}, {}, {}, {}, {}};
  const Product &product = out.reached.product;
  if (product.op->getNumResults() != 1 ||
      !cast<RankedTensorType>(product.op->getResult(0).getType()).getElementType().isF32())
    return Error{"its sums are not f32"};
  auto extents = ir::loop_extents(product.op);
  if (failed(extents))
    return Error{"an extent is no formula"};
  out.extents = *extents;
  SmallVector<unsigned> reduced;
  linalg::LinalgOp op = product.op;
  op.getReductionDims(reduced);
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    bool left = product.left.loops.test(loop), right = product.right.loops.test(loop);
    if (llvm::is_contained(reduced, loop))
      out.terms.push_back(loop);
    else
      (left == right ? out.batches : left ? out.rows : out.columns).push_back(loop);
  }
  if (out.rows.empty() || out.columns.empty())
    return Error{"one factor is used once only: there is nothing to stage"};
  out.row_count = product_of_extents(out.extents, out.rows, kernel.getContext());
  out.column_count = product_of_extents(out.extents, out.columns, kernel.getContext());
  if (!out.row_count || !out.column_count)
    return Error{"the rows or columns are a product of run-time sizes"};
  return out;
}

/// The loop along which a factor's neighbours lie in memory; one past all where nothing says so.
unsigned innermost_loop(linalg::LinalgOp op, const Factor &factor) {
  Value read = element_read(factor.value);
  unsigned none = op.getNumLoops();
  if (auto argument = dyn_cast<BlockArgument>(read)) {
    if (argument.getOwner() != op.getBlock())
      return none;
    AffineMap map = op.getMatchingIndexingMap(&op->getOpOperand(argument.getArgNumber()));
    if (map.getNumResults() == 0)
      return none;
    auto loop = dyn_cast<AffineDimExpr>(map.getResults().back());
    return loop ? loop.getPosition() : none;
  }
  auto from = read.getDefiningOp<tensor::ExtractOp>();
  auto loop = from && !from.getIndices().empty() ? from.getIndices().back().getDefiningOp<linalg::IndexOp>()
                                                 : linalg::IndexOp();
  return loop ? unsigned(loop.getDim()) : none;
}

using MakeTile = decltype(multiply_add_tile);

class TileCode : gpu::Arithmetic {
public:
  TileCode(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest, int64_t tile, MakeTile &make)
      : Arithmetic(thread.b, thread.loc), tile(tile), program(program), thread(thread), nest(nest),
        elements(thread.elements), loops(nest.extents.size()), results(*match(program.kernel())),
        returned(program.kernel().front().getTerminator()->getOperands()), part(make(program, thread, tile)) {
    for (Value value : returned)
      elements.hide(value);
  }

  LogicalResult write() {
    SmallVector<Value> extents;
    for (AffineExpr extent : nest.extents)
      extents.push_back(elements.size(extent, program.kernel()));
    all = extents;
    row_count = elements.size(nest.row_count, program.kernel());
    column_count = elements.size(nest.column_count, program.kernel());
    Value tiles_across = times(column_count, tile), tiles_down = times(row_count, tile);
    Value across = rem(thread.block, tiles_across), rest = div(thread.block, tiles_across);
    Value down = rem(rest, tiles_down);
    place(nest.batches, div(rest, tiles_down));
    first_row = mul(down, index(tile)), first_column = mul(across, index(tile));
    Value rows = program.shared(thread, part->numbers(), part->element());
    Value columns = program.shared(thread, part->numbers(), part->element());

    Value term_count = index(1);
    for (unsigned loop : nest.terms)
      term_count = mul(term_count, all[loop]);
    SmallVector<Value> sums(part->sums(), real(0));
    auto over_terms = scf::ForOp::create(b, loc, index(0), term_count, index(part->depth()), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_terms.getBody());
      Value first_term = over_terms.getInductionVar();
      const Product &product = nest.reached.product;
      if (failed(stage(rows, product.left, nest.rows, first_row, row_count, first_term, term_count)) ||
          failed(stage(columns, product.right, nest.columns, first_column, column_count, first_term, term_count)))
        return failure();
      program.barrier(thread);
      SmallVector<Value> next = part->multiply(rows, columns, over_terms.getRegionIterArgs());
      program.barrier(thread);
      scf::YieldOp::create(b, loc, next);
    }
    for (auto [number, sum] : llvm::enumerate(part->finished(over_terms.getResults())))
      if (failed(finish(int64_t(number), sum)))
        return failure();
    return success();
  }

private:
  /// Gives these loops the digits of a number.
  void place(ArrayRef<unsigned> some, Value number) {
    SmallVector<Value> extents = llvm::map_to_vector(some, [&](unsigned loop) { return all[loop]; });
    SmallVector<Value> values = gpu::digits(thread, number, extents);
    for (auto [loop, value] : llvm::zip_equal(some, values))
      loops[loop] = value;
  }

  /// Brings some terms of the tile's rows or columns to shared memory; what is none is 0. Neighbours among threads take
  /// neighbours in memory: terms of a line, or lines of a term.
  LogicalResult stage(Value to, const Factor &factor, ArrayRef<unsigned> own, Value first, Value count,
                      Value first_term, Value term_count) {
    bool lines_lie_together = llvm::is_contained(own, innermost_loop(nest.reached.product.op, factor));
    int64_t together = lines_lie_together ? tile : part->depth(), at_once = ThreadTile::threads / together;
    Value x = rem(thread.number, index(together)), y = div(thread.number, index(together));
    // A narrow number is staged as it is; one that a condition makes 0 was widened before.
    Value value = factor.value.getType() == part->element() ? factor.value : unwidened(factor.value);
    bool narrows = value.getType() != part->element();
    for (int64_t i = 0; i < tile * part->depth(); i += ThreadTile::threads) {
      Value apart = add(y, index(i / ThreadTile::threads * at_once));
      Value line = lines_lie_together ? x : apart, place_in_terms = lines_lie_together ? apart : x;
      Value number = add(first, line), term = add(first_term, place_in_terms);
      Value inside = both(below(term, term_count), below(number, count));
      auto load = scf::IfOp::create(b, loc, part->element(), inside, /*withElseRegion=*/true);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(load.thenBlock());
        place(nest.terms, term);
        place(own, number);
        for (Value &loop : loops) // the factor depends on none of the others
          loop = loop ? loop : index(0);
        Value found = elements.inner(nest.reached.product.op, value, loops);
        if (!found)
          return failure();
        if (narrows)
          found = arith::TruncFOp::create(b, loc, part->element(), found);
        scf::YieldOp::create(b, loc, found);
        b.setInsertionPointToStart(load.elseBlock());
        scf::YieldOp::create(b, loc, arith::ConstantOp::create(b, loc, b.getZeroAttr(part->element())).getResult());
      }
      program.store_shared(thread, to, part->place(line, place_in_terms), load.getResult(0));
      for (unsigned loop = 0; loop < loops.size(); ++loop)
        if (!llvm::is_contained(nest.batches, loop))
          loops[loop] = {};
    }
    return success();
  }

  /// What the kernel returns of one element of the product.
  LogicalResult finish(int64_t number, Value sum) {
    OpBuilder::InsertionGuard guard(b);
    auto [line, place_across] = part->place_of(number);
    Value row = add(first_row, line), column = add(first_column, place_across);
    Value inside = both(below(row, row_count), below(column, column_count));
    auto own = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
    b.setInsertionPointToStart(own.thenBlock());
    place(nest.rows, row);
    place(nest.columns, column);
    linalg::LinalgOp op = nest.reached.product.op;
    elements.give(op->getResult(0), sum);
    for (auto [value, products] : llvm::zip_equal(returned, results)) {
      SmallVector<Value> at(cast<RankedTensorType>(value.getType()).getRank(), index(0));
      for (auto [loop, axis] : llvm::enumerate(products.front().axis_of_loop))
        if (axis >= 0)
          at[axis] = loops[loop];
      Value element = elements.element(value, at);
      if (!element)
        return failure();
      elements.store(value, at, element);
    }
    elements.take_back(op->getResult(0));
    return success();
  }

  const int64_t tile; // elements of a side
  gpu::Program &program;
  gpu::Program::Thread &thread;
  const Nest &nest;
  gpu::Elements &elements;
  SmallVector<Value> loops, all; // values and extents
  std::vector<std::vector<Reached>> results;
  ValueRange returned;
  std::unique_ptr<ThreadTile> part;
  Value row_count, column_count, first_row, first_column;
};

LogicalResult write(gpu::Program &program, int64_t tile, MakeTile &make) {
  auto nest = nest_of(program.kernel());
  if (!nest)
    return program.kernel().emitError() << nest.error().message;
  SmallVector<AffineExpr> items;
  for (unsigned loop : nest->batches)
    items.push_back(nest->extents[loop]);
  items.push_back(nest->row_count.ceilDiv(tile));
  items.push_back(nest->column_count.ceilDiv(tile));
  return program.launch(items, 1, ThreadTile::threads, [&](gpu::Program::Thread &thread) {
    return TileCode(program, thread, *nest, tile, make).write();
  });
}

LogicalResult write_staged_tiles(gpu::Program &program, const ScheduleRow &row, const Target &) {
  return write(program, 16 * row.params.at("per_thread"), multiply_add_tile);
}

LogicalResult write_tensor_tiles(gpu::Program &program, const ScheduleRow &row, const Target &) {
  return write(program, row.params.at("side"), tensor_core_tile);
}

/// Rows for tiles of some sides. Operations per second, and how many of them a block could do while it waits for shared
/// memory, by side.
std::vector<Candidate> candidates_of(const Nest &nest, const Gpu &device, double rate,
                                     llvm::function_ref<ScheduleRow(int64_t)> row, double (*loads)(double side)) {
  std::vector<Candidate> out;
  for (int64_t tile : {64, 128, 32}) {
    auto seconds = [nest, device, tile, rate, loads](ArrayRef<int64_t> at) {
      double blocks = 1, terms = 1;
      for (unsigned loop : nest.batches)
        blocks *= double(sizes::evaluate(nest.extents[loop], at));
      for (AffineExpr count : {nest.row_count, nest.column_count})
        blocks *= double(sizes::evaluate(count.ceilDiv(tile), at));
      for (unsigned loop : nest.terms)
        terms *= double(sizes::evaluate(nest.extents[loop], at));
      // Of a multiprocessor's share of the peak.
      double block = 2 * double(tile * tile) * terms / (rate / device.multiprocessors) * (1 + loads(double(tile)));
      return gpu::launch_seconds + std::ceil(blocks / device.multiprocessors) * block;
    };
    out.push_back({row(tile), seconds});
  }
  return out;
}

Result<std::vector<Candidate>> staged_candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto nest = nest_of(kernel);
  if (!nest)
    return nest.error();
  // For the multiply-adds of a thread and term, the square of its rows, it loads that many rows and columns from shared
  // memory, at a rate of one in the time of two multiply-adds.
  return candidates_of(
      *nest, *target.gpu, target.gpu->flops,
      [](int64_t tile) { return ScheduleRow{"staged_tiles", {{"per_thread", tile / 16}}}; },
      [](double side) { return 4 * 16 / side; });
}

Result<std::vector<Candidate>> tensor_candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto nest = nest_of(kernel);
  if (!nest)
    return nest.error();
  for (const Factor *factor : {&nest->reached.product.left, &nest->reached.product.right})
    if (!element_read(factor->value).getType().isBF16())
      return Error{"its factors are not bf16"};
  // Terms are brought one by one, which takes the time of 64 operations of a multiprocessor's tensor cores for each of
  // the two numbers of a row and a column.
  return candidates_of(
      *nest, *target.gpu, target.gpu->tensor_flops,
      [](int64_t tile) { return ScheduleRow{"tensor_tiles", {{"side", tile}}}; },
      [](double side) { return 4 * 64 / side; });
}

} // namespace

const Variant staged_tiles = {
    "staged_tiles",
    "a square tile per block, 16 terms at a time in shared memory",
    {{"per_thread", "rows and columns of a thread, of which a block has 16 x 16", 1, 8, {2, 4, 8}}},
    staged_candidates,
    nullptr,
    false,
    2,
    write_staged_tiles};

const Variant tensor_tiles = {"tensor_tiles",
                              "a square tile per block on tensor cores, 32 terms of bf16 at a time in shared memory",
                              {{"side", "rows and columns of a tile", 32, 128, {32, 64, 128}}},
                              tensor_candidates,
                              nullptr,
                              false,
                              1,
                              write_tensor_tiles};

} // namespace heddle::contraction
