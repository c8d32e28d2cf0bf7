// Products on a GPU, staged: a block computes a tile of the product, 32, 64 or 128 rows of as many columns. Its 16 x 16
// threads bring 16 terms of the tile's rows and columns to shared memory, where each is read once per column or row of
// threads; a thread adds up its elements in registers, 16 apart in both directions, and then computes from each what
// the kernel returns.
//
//   y[m, n] = f(sum[k](a[m, k] * b[n, k]), m, n)
//
// Terms lie in shared memory in rows of two more than the tile has: threads that write 16 terms of two rows reach all
// 32 banks, and so do threads that read 16 neighbours of a term. Sums are in the order of the terms, in f32, whatever
// the tile.
#include "compiler/kernels/contraction/contraction.h"

#include "compiler/gpu/program.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

namespace heddle::contraction {

using namespace mlir;

namespace {

constexpr int64_t side = 16, threads = side * side;
constexpr int64_t depth = side; // terms at a time: a thread brings one of them

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

class TileCode {
public:
  TileCode(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest, int64_t tile)
      : tile(tile), each(tile / side), pitch(tile + 2), program(program), thread(thread), nest(nest), b(thread.b),
        loc(thread.loc), elements(thread.elements), loops(nest.extents.size()), results(*match(program.kernel())),
        returned(program.kernel().front().getTerminator()->getOperands()) {
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
    Value tiles_across = blocks_of(column_count), tiles_down = blocks_of(row_count);
    Value across = rem(thread.block, tiles_across), rest = div(thread.block, tiles_across);
    Value down = rem(rest, tiles_down);
    place(nest.batches, div(rest, tiles_down));
    first_row = mul(down, index(tile)), first_column = mul(across, index(tile));
    x = rem(thread.number, index(side)), y = div(thread.number, index(side));
    a = program.shared(thread, depth * pitch);
    c = program.shared(thread, depth * pitch);

    Value term_count = index(1);
    for (unsigned loop : nest.terms)
      term_count = mul(term_count, all[loop]);
    SmallVector<Value> sums(each * each, real(0));
    auto over_terms = scf::ForOp::create(b, loc, index(0), term_count, index(depth), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_terms.getBody());
      Value first_term = over_terms.getInductionVar();
      if (failed(stage(a, nest.reached.product.left, nest.rows, first_row, row_count, first_term, term_count)) ||
          failed(
              stage(c, nest.reached.product.right, nest.columns, first_column, column_count, first_term, term_count)))
        return failure();
      program.barrier(thread);
      SmallVector<Value> next(over_terms.getRegionIterArgs());
      for (int64_t term = 0; term < depth; ++term) {
        SmallVector<Value> left, right;
        for (int64_t i = 0; i < each; ++i) {
          left.push_back(program.load_shared(thread, a, add(index(term * pitch + i * side), y)));
          right.push_back(program.load_shared(thread, c, add(index(term * pitch + i * side), x)));
        }
        for (int64_t i = 0; i < each; ++i)
          for (int64_t j = 0; j < each; ++j)
            next[i * each + j] = math::FmaOp::create(b, loc, left[i], right[j], next[i * each + j]);
      }
      program.barrier(thread);
      scf::YieldOp::create(b, loc, next);
    }
    for (int64_t i = 0; i < each; ++i)
      for (int64_t j = 0; j < each; ++j)
        if (failed(finish(i, j, over_terms.getResult(i * each + j))))
          return failure();
    return success();
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value real(double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(value))); }
  Value add(Value p, Value q) { return arith::AddIOp::create(b, loc, p, q); }
  Value mul(Value p, Value q) { return arith::MulIOp::create(b, loc, p, q); }
  Value div(Value p, Value q) { return arith::DivUIOp::create(b, loc, p, q); }
  Value rem(Value p, Value q) { return arith::RemUIOp::create(b, loc, p, q); }
  Value below(Value p, Value q) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, p, q); }
  Value both(Value p, Value q) { return arith::AndIOp::create(b, loc, p, q); }
  Value blocks_of(Value count) { return div(add(count, index(tile - 1)), index(tile)); }

  /// Gives these loops the digits of a number.
  void place(ArrayRef<unsigned> some, Value number) {
    SmallVector<Value> extents = llvm::map_to_vector(some, [&](unsigned loop) { return all[loop]; });
    SmallVector<Value> values = gpu::digits(thread, number, extents);
    for (auto [loop, value] : llvm::zip_equal(some, values))
      loops[loop] = value;
  }

  /// Brings 16 terms of the tile's rows or columns to shared memory; what is none is 0. Neighbours among threads take
  /// neighbours among the terms, which lie together in rows.
  LogicalResult stage(Value to, const Factor &factor, ArrayRef<unsigned> own, Value first, Value count,
                      Value first_term, Value term_count) {
    Value term = add(first_term, x), is_term = below(term, term_count);
    for (int64_t i = 0; i < each; ++i) {
      Value line = add(y, index(i * side)), number = add(first, line);
      Value inside = both(is_term, below(number, count));
      auto load = scf::IfOp::create(b, loc, b.getF32Type(), inside, /*withElseRegion=*/true);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(load.thenBlock());
        place(nest.terms, term);
        place(own, number);
        for (Value &loop : loops) // the factor depends on none of the others
          loop = loop ? loop : index(0);
        Value value = elements.inner(nest.reached.product.op, factor.value, loops);
        if (!value)
          return failure();
        scf::YieldOp::create(b, loc, value);
        b.setInsertionPointToStart(load.elseBlock());
        scf::YieldOp::create(b, loc, real(0));
      }
      program.store_shared(thread, to, add(mul(x, index(pitch)), line), load.getResult(0));
      for (unsigned loop = 0; loop < loops.size(); ++loop)
        if (!llvm::is_contained(nest.batches, loop))
          loops[loop] = {};
    }
    return success();
  }

  /// What the kernel returns of one element of the product.
  LogicalResult finish(int64_t i, int64_t j, Value sum) {
    OpBuilder::InsertionGuard guard(b);
    Value row = add(first_row, add(y, index(i * side))), column = add(first_column, add(x, index(j * side)));
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

  const int64_t tile, each, pitch; // elements of a side; of these a thread's; between terms in shared memory
  gpu::Program &program;
  gpu::Program::Thread &thread;
  const Nest &nest;
  OpBuilder &b;
  Location loc;
  gpu::Elements &elements;
  SmallVector<Value> loops, all; // values and extents
  std::vector<std::vector<Reached>> results;
  ValueRange returned;
  Value row_count, column_count, first_row, first_column, x, y, a, c;
};

LogicalResult write(gpu::Program &program, const ScheduleRow &row, const Target &) {
  int64_t tile = side * row.params.at("per_thread");
  auto nest = nest_of(program.kernel());
  if (!nest)
    return program.kernel().emitError() << nest.error().message;
  SmallVector<AffineExpr> items;
  for (unsigned loop : nest->batches)
    items.push_back(nest->extents[loop]);
  items.push_back(nest->row_count.ceilDiv(tile));
  items.push_back(nest->column_count.ceilDiv(tile));
  return program.launch(items, 1, threads,
                        [&](gpu::Program::Thread &thread) { return TileCode(program, thread, *nest, tile).write(); });
}

Result<std::vector<Candidate>> candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto nest = nest_of(kernel);
  if (!nest)
    return nest.error();
  std::vector<Candidate> out;
  for (int64_t tile : {64, 128, 32}) {
    auto seconds = [nest = *nest, gpu = *target.gpu, tile](ArrayRef<int64_t> at) {
      double blocks = 1, terms = 1;
      for (unsigned loop : nest.batches)
        blocks *= double(sizes::evaluate(nest.extents[loop], at));
      for (AffineExpr count : {nest.row_count, nest.column_count})
        blocks *= double(sizes::evaluate(count.ceilDiv(tile), at));
      for (unsigned loop : nest.terms)
        terms *= double(sizes::evaluate(nest.extents[loop], at));
      // A multiprocessor's share of the peak. For the multiply-adds of a thread and term, the square of its rows, it
      // loads that many rows and columns from shared memory, at a rate of one in the time of two multiply-adds.
      double loads = 1 + 4.0 * side / double(tile);
      double block = 2 * double(tile * tile) * terms / (gpu.flops / gpu.multiprocessors) * loads;
      return 5e-6 + std::ceil(blocks / gpu.multiprocessors) * block;
    };
    out.push_back({{"staged_tiles", {{"per_thread", tile / side}}}, seconds});
  }
  return out;
}

} // namespace

const Variant staged_tiles = {
    "staged_tiles",
    "a square tile per block, 16 terms at a time in shared memory",
    {{"per_thread", "rows and columns of a thread, of which a block has 16 x 16", 1, 8, {2, 4, 8}}},
    candidates,
    nullptr,
    false,
    2,
    write};

} // namespace heddle::contraction
