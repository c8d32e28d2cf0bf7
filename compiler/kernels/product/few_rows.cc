// Of a product with few rows each weight is multiplied once or a few times, so that it takes as long as weights take to
// come from memory. A warp has some columns and all rows of a block, and its lanes share the terms: each loads 16 bytes
// at a time of several columns, one behind the other in memory for neighbouring lanes, so that much is under way at
// once. Where there are few columns, several warps share the terms of one. Lanes add up what they have by shuffles,
// warps through shared memory, both in a fixed order.
//
//   y[m, n] = f(sum[k](a[m, k] * b[n, k]), m, n)
#include "compiler/kernels/product/few_rows.h"

#include "compiler/gpu/program.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/nest_code.h"
#include "compiler/kernels/product/returned.h"
#include "compiler/kernels/product/staging.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

namespace heddle::contraction {

using namespace mlir;
using linalg::LinalgOp;

namespace {

constexpr int64_t warp = 32, warps_of_block = 8, threads = warp * warps_of_block;

/// Of a warp: sums and loads of all of its lines are in registers at once.
int64_t columns_of(int64_t rows) { return rows <= 4 ? 4 : 2; }

/// How a factor's terms come: in groups of 16 bytes as they lie in memory, or one by one, computed where they are read.
struct Line {
  const Factor *factor;
  Value read; // of the body; null: one by one
};

Line line_of(const Nest &nest, const Factor &factor) {
  PlainRead plain = plain_read(factor.value);
  bool together =
      plain.read && plain.conditions.empty() && Staging::copies(nest, factor, plain.read.getType()) == Copied::all;
  return {&factor, together ? plain.read : Value()};
}

/// Terms of a lane at a time: 16 bytes of the narrower factor, of those that lie in groups; 0 where columns don't.
int64_t group_of(const Nest &nest) {
  if (!line_of(nest, nest.product.right).read)
    return 0;
  int64_t group = 0;
  for (const Factor *factor : {&nest.product.left, &nest.product.right})
    if (Value read = line_of(nest, *factor).read)
      group = std::max(group, terms_of_line(read.getType()) / groups);
  return group;
}

/// Whether both factors come in groups of so many terms, if in groups at all.
bool fits(const Nest &nest) {
  LinalgOp op = nest.product.op;
  int64_t group = group_of(nest), last = op.getStaticLoopRanges()[nest.terms.back()];
  return group > 0 && !ShapedType::isDynamic(last) && last % group == 0;
}

/// The products of a kernel with the fewer lines as rows: those whose number the run tells, beside those of a weight.
Result<std::vector<Nest>> with_few_rows(func::FuncOp kernel) {
  auto nests = nests_of(kernel);
  auto known = [&](ArrayRef<unsigned> loops) {
    int64_t all = 1;
    for (AffineExpr extent : nests->front().extents_of(loops))
      if (auto constant = dyn_cast<AffineConstantExpr>(extent))
        all *= constant.getValue();
    return all;
  };
  if (nests && known(nests->front().rows) > known(nests->front().columns))
    for (Nest &nest : *nests)
      std::swap(nest.rows, nest.columns), std::swap(nest.product.left, nest.product.right);
  return nests;
}

class RowCode : NestCode {
public:
  RowCode(gpu::Program &program, gpu::Program::Thread &thread, ArrayRef<Nest> nests, int64_t rows, int64_t sharing)
      : NestCode(program, thread, nests), rows(rows), columns(columns_of(rows)), sharing(sharing),
        columns_of_block(columns * warps_of_block / sharing) {}

  LogicalResult write() {
    sum_type = cast<RankedTensorType>(LinalgOp(nests.front().product.op)->getResult(0).getType()).getElementType();
    partial = program.shared(thread, warps_of_block * rows * columns, sum_type);
    return write_tiles(rows, columns_of_block, [&](const Nest &nest) { return write(nest); });
  }

private:
  Value zero() { return arith::ConstantOp::create(b, loc, b.getZeroAttr(sum_type)); }

  LogicalResult write(const Nest &nest) {
    int64_t group = group_of(nest);
    Value own_warp = div(thread.number, index(warp)), lane = rem(thread.number, index(warp));
    Value column = add(first_column, mul(div(own_warp, index(sharing)), index(columns)));
    Value first = add(mul(rem(own_warp, index(sharing)), index(warp)), lane);
    Value count = div(count_of(nest.terms), index(group));
    auto over_groups =
        scf::ForOp::create(b, loc, first, count, index(warp * sharing), SmallVector<Value>(rows * columns, zero()));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_groups.getBody());
      Value term = mul(over_groups.getInductionVar(), index(group));
      // Lines past the last one repeat it, and are not stored.
      auto lines = [&](const Factor &factor, ArrayRef<unsigned> numbers, Value from, int64_t many, Value end) {
        SmallVector<SmallVector<Value>> out;
        for (int64_t i = 0; i < many; ++i) {
          SmallVector<Value> at(loops);
          place(at, numbers, least(add(from, index(i)), sub(end, index(1))));
          out.push_back(terms_at(nest, line_of(nest, factor), at, term, group));
        }
        return out;
      };
      auto right = lines(nest.product.right, nest.columns, column, columns, column_count);
      auto left = lines(nest.product.left, nest.rows, first_row, rows, row_count);
      SmallVector<Value> sums(over_groups.getRegionIterArgs());
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          if (int64_t(left[i].size()) != group || int64_t(right[j].size()) != group)
            return failure();
          for (auto [p, q] : llvm::zip_equal(left[i], right[j]))
            sums[i * columns + j] = with_product(sums[i * columns + j], p, q);
        }
      scf::YieldOp::create(b, loc, sums);
    }
    for (auto [number, sum] : llvm::enumerate(over_groups.getResults()))
      keep(own_warp, lane, int64_t(number), sum);
    program.barrier(thread);
    return finish(nest);
  }

  Value added(Value p, Value q) {
    return isa<FloatType>(sum_type) ? arith::AddFOp::create(b, loc, p, q).getResult() : add(p, q);
  }
  Value with_product(Value sum, Value p, Value q) {
    return isa<FloatType>(sum_type) ? math::FmaOp::create(b, loc, p, q, sum).getResult() : add(sum, mul(p, q));
  }

  /// A group of a line's terms as the product's multiplication takes them; empty after an error.
  SmallVector<Value> terms_at(const Nest &nest, const Line &line, SmallVector<Value> at, Value term, int64_t group) {
    LinalgOp op = nest.product.op;
    SmallVector<Value> out;
    for (int64_t i = 0; i < (line.read ? 1 : group); ++i) {
      place(at, nest.terms, add(term, index(i)));
      SmallVector<Value> all(at);
      for (Value &loop : all) // the factor depends on none of the others
        loop = loop ? loop : index(0);
      if (!line.read) {
        Value found = elements.inner(op, line.factor->value, all);
        if (!found)
          return {};
        out.push_back(found);
        continue;
      }
      std::optional<Value> from = elements.address_of(op, line.read, all);
      if (!from)
        return {};
      Type type = line.read.getType();
      Value loaded = LLVM::LoadOp::create(b, loc, VectorType::get(group, type), *from, group_bytes);
      for (int64_t k = 0; k < group; ++k) {
        Value own = arith::ConstantIntOp::create(b, loc, k, 32);
        out.push_back(widened(line.factor->value, LLVM::ExtractElementOp::create(b, loc, loaded, own)));
      }
    }
    return out;
  }
  /// What a factor makes of the number that it reads.
  Value widened(Value factor, Value number) {
    Operation *made = factor.getDefiningOp();
    if (number.getType() == factor.getType())
      return number;
    number = widened(made->getOperand(0), number);
    Type type = factor.getType();
    return isa<arith::ExtFOp>(made)    ? arith::ExtFOp::create(b, loc, type, number).getResult()
           : isa<arith::ExtSIOp>(made) ? arith::ExtSIOp::create(b, loc, type, number).getResult()
                                       : arith::ExtUIOp::create(b, loc, type, number).getResult();
  }

  /// Where a warp's sum lies, by its number among those that share terms, of the sum, and of its columns in the block:
  /// threads read all of one number of a warp together.
  Value place_of(Value warp_of_column, Value number, Value of_block) {
    int64_t across = warps_of_block / sharing;
    return add(mul(add(mul(warp_of_column, index(rows * columns)), number), index(across)), of_block);
  }
  /// A sum of the warp's, from those of its lanes.
  void keep(Value own_warp, Value lane, int64_t number, Value sum) {
    for (int32_t bits = warp / 2; bits > 0; bits /= 2)
      sum = added(sum, program.exchanged(thread, sum, bits));
    OpBuilder::InsertionGuard guard(b);
    Value is_first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, index(0));
    b.setInsertionPointToStart(scf::IfOp::create(b, loc, is_first, /*withElseRegion=*/false).thenBlock());
    program.store_shared(thread, partial,
                         place_of(rem(own_warp, index(sharing)), index(number), div(own_warp, index(sharing))), sum);
  }

  /// Neighbours among threads have neighbours among columns.
  LogicalResult finish(const Nest &nest) {
    OpBuilder::InsertionGuard guard(b);
    Value line = div(thread.number, index(columns_of_block)), across = rem(thread.number, index(columns_of_block));
    Value row = add(first_row, line), column = add(first_column, across);
    Value inside = both(below(row, row_count), below(column, column_count));
    inside = both(inside, below(line, index(rows)));
    b.setInsertionPointToStart(scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false).thenBlock());
    Value number = add(mul(line, index(columns)), rem(across, index(columns))), sum;
    for (int64_t i = 0; i < sharing; ++i) {
      Value at = place_of(index(i), number, div(across, index(columns)));
      Value own = program.load_shared(thread, partial, at, sum_type);
      sum = sum ? added(sum, own) : own;
    }
    SmallVector<Value> at(loops);
    place(at, nest.rows, row), place(at, nest.columns, column);
    return store_returned(program, thread, nest, at, sum);
  }

  const int64_t rows, columns; // of a warp
  const int64_t sharing, columns_of_block;
  Value partial;
  Type sum_type;
};

LogicalResult write(gpu::Program &program, const ScheduleRow &row, const Target &) {
  int64_t rows = row.params.at("rows"), sharing = row.params.at("warps");
  if (warps_of_block % sharing != 0)
    return program.kernel().emitError("the warps of a column are 1, 2, 4 or 8");
  auto nests = with_few_rows(program.kernel());
  if (!nests)
    return program.kernel().emitError() << nests.error().message;
  const Nest &nest = nests->front();
  SmallVector<gpu::Dealt> items{{{getAffineConstantExpr(int64_t(nests->size()), program.kernel().getContext())}}};
  for (unsigned loop : nest.batches)
    items.push_back({{nest.extents[loop]}});
  items.push_back({nest.extents_of(nest.rows), rows});
  items.push_back({nest.extents_of(nest.columns), columns_of(rows) * warps_of_block / sharing});
  return program.launch(items, threads, [&](gpu::Program::Thread &thread) {
    return RowCode(program, thread, *nests, rows, sharing).write();
  });
}

/// How long a load from memory takes.
constexpr double latency = 700e-9;
/// Warps that a multiprocessor has at once, with their sums in registers.
constexpr double warps_at_once = 24;

Result<std::vector<Candidate>> candidates(func::FuncOp kernel, const Target &target) {
  if (!target.gpu)
    return Error{"it is for GPUs"};
  auto nests = with_few_rows(kernel);
  if (!nests)
    return nests.error();
  for (const Nest &nest : *nests)
    if (!fits(nest))
      return Error{"the terms of its columns don't lie together in groups of 16 bytes"};
  std::vector<Candidate> out;
  Nest nest = nests->front();
  double products = double(nests->size()), group = double(group_of(nest));
  double bytes_of_group = 0, gathered = 0;
  for (const Factor *factor : {&nest.product.left, &nest.product.right}) {
    Value read = line_of(nest, *factor).read;
    gathered += read ? 0 : 1;
    if (factor == &nest.product.right)
      bytes_of_group = group * double(element_read(factor->value).getType().getIntOrFloatBitWidth()) / 8;
  }
  for (int64_t rows : {1, 2, 4, 8})
    for (int64_t sharing : {1, 2, 4, 8}) {
      auto seconds = [=, device = *target.gpu](ArrayRef<int64_t> at) {
        auto count = [&](ArrayRef<unsigned> loops) {
          double all = 1;
          for (unsigned loop : loops)
            all *= double(sizes::evaluate(nest.extents[loop], at));
          return all;
        };
        double columns = double(columns_of(rows)), tiles = std::ceil(count(nest.rows) / double(rows));
        double warps =
            products * count(nest.batches) * tiles * std::ceil(count(nest.columns) / columns) * double(sharing);
        double turns = std::ceil(count(nest.terms) / group / double(warp * sharing));
        double loads = columns * double(warp) * bytes_of_group; // of a warp at once
        double at_once = std::min(warps, double(device.multiprocessors) * warps_at_once);
        double bytes = warps * turns * loads;
        double multiply = warps * turns * double(warp) * group * double(rows) * (2 * columns + 16 * gathered);
        // A multiprocessor, of 128 operations in a cycle, loads 128 bytes in one, from its cache at best.
        double cycles = device.flops / 128, cached = warps * turns * (columns + double(rows)) * 4 / cycles;
        return gpu::launch_seconds + (sharing > 1 ? 0.2e-6 : 0) + latency +
               std::max({bytes / device.memory_rate, bytes / (at_once * loads / latency), cached}) +
               multiply / device.flops;
      };
      out.push_back({{"few_rows", {{"rows", rows}, {"warps", sharing}}}, seconds});
    }
  return out;
}

} // namespace

const Variant few_rows = {
    .name = "few_rows",
    .what = "a few rows and columns for each warp, whose lanes share the terms, 16 bytes at a time",
    .parameters = {{"rows", "rows of a block", 1, 8, {1, 4, 8}},
                   {"warps", "of a block, of which there are 8, that share the terms of a column", 1, 8, {1, 4}}},
    .candidates = candidates,
    .write = write};

} // namespace heddle::contraction
