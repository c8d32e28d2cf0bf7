// Places in shared memory are such that threads of a warp that work together reach all of its 32 banks.
#include "compiler/kernels/contraction/thread_tiles.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <array>

namespace heddle::contraction {

using namespace mlir;

namespace {

/// Terms lie in rows of two more than the tile has: threads that write 16 terms of two rows reach all 32 banks, and so
/// do threads that read 16 neighbours of a term.
class MultiplyAdds : public ThreadTile {
public:
  MultiplyAdds(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile)
      : ThreadTile(program, thread, tile), each(tile / side), x(rem(thread.number, index(side))),
        y(div(thread.number, index(side))) {}

  int64_t depth() const override { return side; }
  Type element() const override { return b.getF32Type(); }
  int64_t numbers() const override { return side * pitch(); }
  Value place(Value line, Value term) override { return add(mul(term, index(pitch())), line); }
  int64_t sums() const override { return each * each; }
  SmallVector<Value> finished(ValueRange sums) override { return SmallVector<Value>(sums); }
  std::pair<Value, Value> place_of(int64_t sum) override { return {apart(y, sum / each), apart(x, sum % each)}; }

  SmallVector<Value> multiply(Value rows, Value columns, ValueRange sums) override {
    SmallVector<Value> next(sums);
    for (int64_t term = 0; term < side; ++term) {
      SmallVector<Value> left, right;
      for (int64_t i = 0; i < each; ++i) {
        left.push_back(program.load_shared(thread, rows, place(apart(y, i), index(term)), element()));
        right.push_back(program.load_shared(thread, columns, place(apart(x, i), index(term)), element()));
      }
      for (int64_t i = 0; i < each; ++i)
        for (int64_t j = 0; j < each; ++j)
          next[i * each + j] = math::FmaOp::create(b, loc, left[i], right[j], next[i * each + j]);
    }
    return next;
  }

private:
  static constexpr int64_t side = 16;
  int64_t pitch() const { return tile + 2; }
  Value apart(Value first, int64_t number) { return add(first, index(number * side)); }

  const int64_t each;
  const Value x, y;
};

/// Warps multiply 16 rows with 8 columns and 16 terms at a time (mma.m16n8k16; PTX ISA, "Matrix Fragments for
/// mma.m16n8k16"). A line of terms is followed by the next after 40 numbers, 80 bytes: the 8 lines that ldmatrix brings
/// at a time lie in different banks.
class TensorCores : public ThreadTile {
public:
  TensorCores(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile)
      : ThreadTile(program, thread, tile), down(tile / (warps_down * rows)), across(tile / (warps_across * columns)),
        lane(rem(thread.number, index(32))) {
    Value warp = div(thread.number, index(32));
    first_row = mul(div(warp, index(warps_across)), index(down * rows));
    first_column = mul(rem(warp, index(warps_across)), index(across * columns));
  }

  int64_t depth() const override { return 2 * terms; }
  Type element() const override { return b.getBF16Type(); }
  int64_t numbers() const override { return tile * pitch; }
  Value place(Value line, Value term) override { return add(mul(line, index(pitch)), term); }
  int64_t sums() const override { return down * across * 4; }
  /// Of a tile of 8 columns a lane has two neighbours in its row. It keeps one of them, and one of the row beside its
  /// own that the lane there has: eight lanes then have a row's eight columns, which lie in one sector of memory.
  SmallVector<Value> finished(ValueRange sums) override {
    SmallVector<Value> out;
    Value is_even = below(rem(div(lane, index(4)), index(2)), index(1));
    for (size_t i = 0; i < sums.size(); i += 2) {
      Value received = program.exchanged(thread, choose(is_even, sums[i + 1], sums[i]), 4);
      out.push_back(choose(is_even, sums[i], received));
      out.push_back(choose(is_even, received, sums[i + 1]));
    }
    return out;
  }
  std::pair<Value, Value> place_of(int64_t sum) override {
    int64_t part = sum / 4, number = sum % 4;
    Value line = div(lane, index(4));
    Value row = add(mul(div(line, index(2)), index(2)), index(part / across * rows + number / 2 * 8 + number % 2));
    Value column = add(mul(rem(lane, index(4)), index(2)), rem(line, index(2)));
    return {add(first_row, row), add(first_column, add(column, index(part % across * columns)))};
  }

  SmallVector<Value> multiply(Value of_rows, Value of_columns, ValueRange sums) override {
    SmallVector<Value> next(sums);
    Value line = rem(lane, index(8)), matrix = div(lane, index(8));
    for (int64_t first = 0; first < depth(); first += terms) {
      // Matrices of 8 x 8 numbers: two below each other, then the next 8 terms of both.
      SmallVector<SmallVector<Value>> left, right;
      for (int64_t i = 0; i < down; ++i) {
        Value row = add(add(first_row, index(i * rows)), add(mul(rem(matrix, index(2)), index(8)), line));
        left.push_back(matrices(of_rows, row, add(index(first), mul(div(matrix, index(2)), index(8))), 4));
      }
      // One column of matrices, or two, after the next 8 terms of each.
      for (int64_t j = 0; j < across; j += 2) {
        int64_t together = std::min<int64_t>(2, across - j);
        Value column = add(add(first_column, index(j * columns)), line);
        if (together == 2)
          column = add(column, mul(div(matrix, index(2)), index(8)));
        Value term = add(index(first), mul(rem(matrix, index(2)), index(8)));
        SmallVector<Value> found = matrices(of_columns, column, term, 2 * together);
        for (int64_t k = 0; k < together; ++k)
          right.push_back({found[2 * k], found[2 * k + 1]});
      }
      for (int64_t i = 0; i < down; ++i)
        for (int64_t j = 0; j < across; ++j)
          multiply_add(left[i], right[j], MutableArrayRef(next).slice((i * across + j) * 4, 4));
    }
    return next;
  }

private:
  static constexpr int64_t rows = 16, columns = 8, terms = 16; // of an instruction
  static constexpr int64_t warps_down = 2, warps_across = 4, pitch = 40;

  /// Fragments of matrices of 8 x 8, whose lines begin at the places that this lane and its neighbours give.
  SmallVector<Value> matrices(Value shared, Value line, Value term, int count) {
    Value at = program.shared_address(thread, shared, place(line, term), element());
    Type type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, b.getI32Type()));
    auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
    Value loaded =
        NVVM::LdMatrixOp::create(b, loc, type, at, count, NVVM::MMALayout::row, shape, NVVM::LdStMatrixEltType::B16);
    return parts(loaded, count);
  }
  SmallVector<Value> parts(Value whole, int count) {
    SmallVector<Value> out;
    for (int i = 0; i < count; ++i)
      out.push_back(LLVM::ExtractValueOp::create(b, loc, whole, i));
    return out;
  }

  void multiply_add(ArrayRef<Value> left, ArrayRef<Value> right, MutableArrayRef<Value> sums) {
    Type type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getF32Type()));
    using Types = std::array<NVVM::MMATypes, 2>;
    using Layouts = std::array<NVVM::MMALayout, 2>;
    Value product = NVVM::MmaOp::create(b, loc, type, left, right, ArrayRef<Value>(sums), {rows, columns, terms},
                                        std::nullopt, std::nullopt, Types{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
                                        Layouts{NVVM::MMALayout::row, NVVM::MMALayout::col});
    llvm::copy(parts(product, 4), sums.begin());
  }

  const int64_t down, across; // instructions of a warp
  const Value lane;
  Value first_row, first_column;
};

} // namespace

std::unique_ptr<ThreadTile> multiply_add_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile) {
  return std::make_unique<MultiplyAdds>(program, thread, tile);
}

std::unique_ptr<ThreadTile> tensor_core_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile) {
  return std::make_unique<TensorCores>(program, thread, tile);
}

} // namespace heddle::contraction
