#include "compiler/kernels/product/nest_code.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle::contraction {

using namespace mlir;

NestCode::NestCode(gpu::Program &program, gpu::Program::Thread &thread, ArrayRef<Nest> nests)
    : Arithmetic(thread.b, thread.loc), program(program), thread(thread), nests(nests), elements(thread.elements) {
  for (Value value : program.kernel().front().getTerminator()->getOperands())
    elements.hide(value);
  for (AffineExpr extent : nests.front().extents)
    extents.push_back(elements.size(extent, program.kernel()));
  row_count = count_of(nests.front().rows), column_count = count_of(nests.front().columns);
}

LogicalResult NestCode::write_tiles(int64_t rows, int64_t columns,
                                    llvm::function_ref<LogicalResult(const Nest &)> write) {
  const Nest &first = nests.front();
  SmallVector<Value> tiles = {index(int64_t(nests.size()))};
  for (unsigned loop : first.batches)
    tiles.push_back(extents[loop]);
  tiles.push_back(times(row_count, rows)), tiles.push_back(times(column_count, columns));
  SmallVector<Value> at = gpu::digits(thread, thread.block, tiles);
  loops.assign(extents.size(), Value());
  for (auto [loop, value] : llvm::zip_equal(first.batches, ArrayRef(at).slice(1, first.batches.size())))
    loops[loop] = value;
  first_row = mul(at[at.size() - 2], index(rows)), first_column = mul(at.back(), index(columns));
  for (auto [number, nest] : llvm::enumerate(nests)) {
    OpBuilder::InsertionGuard guard(b);
    if (nests.size() > 1) {
      Value is_own = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, at[0], index(int64_t(number)));
      b.setInsertionPointToStart(scf::IfOp::create(b, loc, is_own, /*withElseRegion=*/false).thenBlock());
    }
    if (failed(write(nest)))
      return failure();
  }
  return success();
}

Value NestCode::count_of(ArrayRef<unsigned> some) {
  Value out = index(1);
  for (unsigned loop : some)
    out = mul(out, extents[loop]);
  return out;
}

void NestCode::place(SmallVector<Value> &at, ArrayRef<unsigned> some, Value number) {
  SmallVector<Value> of_some = llvm::map_to_vector(some, [&](unsigned loop) { return extents[loop]; });
  for (auto [loop, value] : llvm::zip_equal(some, gpu::digits(thread, number, of_some)))
    at[loop] = value;
}

} // namespace heddle::contraction
