// A block computes a square tile of a product. Its threads bring some terms of the tile's rows and columns to shared
// memory, where each is read once per column or row of threads, or of warps (staging.h): the next ones while they
// multiply those that have come. Sums stay in registers (thread_tiles.h), and from each a thread then computes what the
// kernel returns.
//
//   y[m, n] = f(sum[k](a[m, k] * b[n, k]), m, n)
#include "compiler/kernels/product/staged_tiles.h"

#include "compiler/gpu/program.h"
#include "compiler/ir/precision.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/nest_code.h"
#include "compiler/kernels/product/returned.h"
#include "compiler/kernels/product/staging.h"
#include "compiler/kernels/product/thread_tiles.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

namespace heddle::contraction {

using namespace mlir;

namespace {

/// How many times a tile's lines lie in shared memory, of which one is multiplied and the others arrive: as many as
/// fit what a block has without asking.
int64_t buffers_of(int64_t tile) { return tile >= 64 ? 3 : 4; }

using MakeTile = llvm::function_ref<std::unique_ptr<ThreadTile>(gpu::Program &, gpu::Program::Thread &, int64_t tile)>;

class TileCode : NestCode {
public:
  TileCode(gpu::Program &program, gpu::Program::Thread &thread, ArrayRef<Nest> nests, int64_t tile, Type element,
           MakeTile make)
      : NestCode(program, thread, nests), tile(tile), buffers(buffers_of(tile)), element(element),
        part(make(program, thread, tile)) {}

  LogicalResult write() {
    term_count = count_of(nests.front().terms);
    Type bytes = b.getI8Type();
    shared_rows = program.shared(thread, buffers * tile * line_bytes, bytes);
    shared_columns = program.shared(thread, buffers * tile * line_bytes, bytes);
    return write_tiles(tile, tile, [&](const Nest &nest) { return write(nest); });
  }

private:
  LogicalResult write(const Nest &nest) {
    Staging rows(program, thread, nest, element, {&nest.product.left, nest.rows, tile, first_row, row_count}, loops,
                 extents, shared_rows);
    Staging columns(program, thread, nest, element,
                    {&nest.product.right, nest.columns, tile, first_column, column_count}, loops, extents,
                    shared_columns);
    int64_t depth = terms_of_line(element);
    Value chunks = times(term_count, depth), end = index(buffers - 1);
    auto bring = [&](Value chunk, Value buffer) { // what the device copies, one group of copies for each chunk
      Value term = mul(chunk, index(depth));
      if (failed(rows.fetch(term, term_count, buffer)) || failed(columns.fetch(term, term_count, buffer)))
        return failure();
      NVVM::CpAsyncCommitGroupOp::create(b, loc);
      return success();
    };
    auto first_chunks = scf::ForOp::create(b, loc, index(0), end, index(1));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(first_chunks.getBody());
      Value chunk = first_chunks.getInductionVar();
      if (failed(bring(chunk, chunk)))
        return failure();
      rows.put(chunk), columns.put(chunk);
    }
    auto over_chunks = scf::ForOp::create(b, loc, index(0), chunks, index(1), part->zeros());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_chunks.getBody());
      Value chunk = over_chunks.getInductionVar(), ahead = add(chunk, end);
      Value buffer = rem(chunk, index(buffers)), next_buffer = rem(ahead, index(buffers));
      // Once all have come here, all have multiplied what lay in the buffer that is filled next.
      NVVM::CpAsyncWaitGroupOp::create(b, loc, uint32_t(buffers - 2));
      program.barrier(thread);
      if (failed(bring(ahead, next_buffer)))
        return failure();
      auto place = [&](Staging &staging) {
        return [&staging, buffer](Value line, Value group) { return staging.place(buffer, line, group); };
      };
      SmallVector<Value> next = part->multiply(place(rows), place(columns), over_chunks.getRegionIterArgs());
      rows.put(next_buffer), columns.put(next_buffer);
      scf::YieldOp::create(b, loc, next);
    }
    for (auto [number, sum] : llvm::enumerate(part->finished(over_chunks.getResults())))
      if (failed(finish(nest, int64_t(number), sum)))
        return failure();
    return success();
  }

  /// What the kernel returns of one element of a product.
  LogicalResult finish(const Nest &nest, int64_t number, Value sum) {
    OpBuilder::InsertionGuard guard(b);
    auto [line, place_across] = part->place_of(number);
    Value row = add(first_row, line), column = add(first_column, place_across);
    Value inside = both(below(row, row_count), below(column, column_count));
    auto own = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
    b.setInsertionPointToStart(own.thenBlock());
    place(loops, nest.rows, row);
    place(loops, nest.columns, column);
    if (failed(store_returned(program, thread, nest, loops, sum)))
      return failure();
    for (unsigned loop : llvm::concat<const unsigned>(nest.rows, nest.columns))
      loops[loop] = {};
    return success();
  }

  const int64_t tile, buffers; // elements of a side
  const Type element;
  std::unique_ptr<ThreadTile> part;
  Value term_count, shared_rows, shared_columns;
};

LogicalResult write(gpu::Program &program, int64_t tile, Type element, MakeTile make) {
  auto nests = nests_of(program.kernel());
  if (!nests)
    return program.kernel().emitError() << nests.error().message;
  const Nest &nest = nests->front();
  SmallVector<gpu::Dealt> items{{{getAffineConstantExpr(int64_t(nests->size()), program.kernel().getContext())}}};
  for (unsigned loop : nest.batches)
    items.push_back({{nest.extents[loop]}});
  items.push_back({nest.extents_of(nest.rows), tile});
  items.push_back({nest.extents_of(nest.columns), tile});
  return program.launch(items, threads_of_tile, [&](gpu::Program::Thread &thread) {
    return TileCode(program, thread, *nests, tile, element, make).write();
  });
}

LogicalResult write_staged_tiles(gpu::Program &program, const ScheduleRow &row, const Target &) {
  return write(program, 16 * row.params.at("per_thread"), Float32Type::get(program.kernel().getContext()),
               multiply_add_tile);
}

Type element_type(linalg::LinalgOp op) { return cast<RankedTensorType>(op->getResult(0).getType()).getElementType(); }
bool sums_f32(const Nest &nest) { return element_type(nest.product.op).isF32(); }

/// What tensor cores multiply of all products of a kernel, or why they don't: f32 where it may be rounded.
Result<TensorType> tensor_type_of(ArrayRef<Nest> nests) {
  std::optional<TensorType> type;
  auto has_sign = [](const Factor &factor) { return !factor.value.getDefiningOp<arith::ExtUIOp>(); };
  for (const Nest &nest : nests) {
    const Product &product = nest.product;
    linalg::LinalgOp op = product.op;
    Type left = element_read(product.left.value).getType(), right = element_read(product.right.value).getType();
    if (left.isInteger(8) && right.isInteger(8) && element_type(op).isInteger(32)) {
      TensorType own{left, false, has_sign(product.left), has_sign(product.right)};
      if (type && (type->element != left || type->left_has_sign != own.left_has_sign ||
                   type->right_has_sign != own.right_has_sign))
        return Error{"its factors are of two types"};
      type = own;
      continue;
    }
    for (const Factor *factor : {&nest.product.left, &nest.product.right}) {
      Type own = element_read(factor->value).getType();
      bool rounds = own.isF32() && nest.product.op->hasAttr(ir::names::rounds);
      if ((!own.isBF16() && !own.isF16() && !rounds) || !sums_f32(nest))
        return Error{"its factors are neither bf16 nor f16, nor rounded to tf32, or its sums not f32; nor are they i8"};
      if (type && (type->element != own || type->rounds != rounds))
        return Error{"its factors are of two types"};
      type = {own, rounds};
    }
  }
  return *type;
}

LogicalResult write_tensor_tiles(gpu::Program &program, const ScheduleRow &row, const Target &) {
  auto nests = nests_of(program.kernel());
  auto type = nests ? tensor_type_of(*nests) : Result<TensorType>(nests.error());
  if (!type)
    return program.kernel().emitError() << type.error().message;
  return write(program, row.params.at("side"), type->element,
               [&](gpu::Program &program, gpu::Program::Thread &thread, int64_t tile) {
                 return tensor_core_tile(program, thread, tile, *type);
               });
}

/// What threads spend on bringing a number that the device doesn't copy, in multiply-adds: its place is computed.
constexpr double gathering = 32;

/// Rows for tiles of some sides. Operations per second, and how many of them a block could do while it waits for shared
/// memory, by side.
std::vector<Candidate> candidates_of(ArrayRef<Nest> nests, Type element, const Gpu &device, double rate,
                                     llvm::function_ref<ScheduleRow(int64_t)> row, double (*loads)(double side)) {
  std::vector<Candidate> out;
  Nest nest = nests.front();
  double products = double(nests.size()), gathered = 0, where_aligned = 0;
  for (const Factor *factor : {&nest.product.left, &nest.product.right}) {
    Copied copied = Staging::copies(nest, *factor, element);
    (copied == Copied::none ? gathered : where_aligned) += copied == Copied::all ? 0 : 1;
  }
  int64_t of_group = terms_of_line(element) / groups;
  for (int64_t tile : {64, 128, 32}) {
    auto seconds = [=](ArrayRef<int64_t> at) {
      auto count = [&](ArrayRef<unsigned> loops) {
        double all = 1;
        for (unsigned loop : loops)
          all *= double(sizes::evaluate(nest.extents[loop], at));
        return all;
      };
      double side = double(tile), terms = count(nest.terms);
      double blocks =
          products * count(nest.batches) * std::ceil(count(nest.rows) / side) * std::ceil(count(nest.columns) / side);
      // Of a multiprocessor's share of the peak.
      double block = 2 * side * side * terms / (rate / device.multiprocessors) * (1 + loads(side));
      bool aligned = sizes::evaluate(nest.extents[nest.terms.back()], at) % of_group == 0;
      block += 2 * side * terms * (gathered + (aligned ? 0 : where_aligned)) * gathering /
               (device.flops / device.multiprocessors);
      return gpu::launch_seconds + std::ceil(blocks / device.multiprocessors) * block;
    };
    out.push_back({row(tile), seconds});
  }
  return out;
}

Result<std::vector<Candidate>> staged_candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto nests = nests_of(kernel);
  if (!nests)
    return nests.error();
  if (!llvm::all_of(*nests, sums_f32))
    return Error{"its sums are not f32"};
  // For the multiply-adds of a thread and term, the square of its rows, it loads that many rows and columns from shared
  // memory, four terms at a time, at a rate of one in the time of two multiply-adds.
  return candidates_of(
      *nests, Float32Type::get(kernel.getContext()), *target.gpu, target.gpu->flops,
      [](int64_t tile) { return ScheduleRow{"staged_tiles", {{"per_thread", tile / 16}}}; },
      [](double side) { return 4 * 16 / side; });
}

Result<std::vector<Candidate>> tensor_candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto nests = nests_of(kernel);
  auto type = nests ? tensor_type_of(*nests) : Result<TensorType>(nests.error());
  if (!type)
    return type.error();
  // Two numbers come from memory for the products of a row and a column with the other lines of a tile, in the time of
  // 64 operations of a multiprocessor's tensor cores each.
  return candidates_of(
      *nests, type->element, *target.gpu,
      target.gpu->tensor_flops * (type->element.isInteger() ? 2
                                  : type->rounds            ? 0.5
                                                            : 1),
      [](int64_t tile) { return ScheduleRow{"tensor_tiles", {{"side", tile}}}; },
      [](double side) { return 4 * 64 / side; });
}

} // namespace

const Variant staged_tiles = {
    .name = "staged_tiles",
    .what = "a square tile per block, 16 terms at a time in shared memory while the next ones arrive",
    .parameters = {{"per_thread", "rows and columns of a thread, of which a block has 16 x 16", 1, 8, {2, 4, 8}}},
    .candidates = staged_candidates,
    .version = 3,
    .write = write_staged_tiles};

const Variant tensor_tiles = {.name = "tensor_tiles",
                              .what = "a square tile per block on tensor cores, 64 bytes of terms at a time in shared "
                                      "memory while the next ones arrive",
                              .parameters = {{"side", "rows and columns of a tile", 32, 128, {32, 64, 128}}},
                              .candidates = tensor_candidates,
                              .version = 3,
                              .write = write_tensor_tiles};

} // namespace heddle::contraction
