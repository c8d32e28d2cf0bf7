// A group of a line has the same place in both layouts of fragments: 16 bytes are the four terms of f32 that a thread
// multiplies one after the other, and a line of a matrix that ldmatrix brings, whatever the type of its terms.
#include "compiler/kernels/product/thread_tiles.h"

#include "compiler/kernels/product/staging.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <array>

namespace heddle::contraction {

using namespace mlir;

namespace {

class MultiplyAdds : public ThreadTile {
public:
  MultiplyAdds(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile)
      : ThreadTile(program, thread, tile), each(tile / side), x(rem(thread.number, index(side))),
        y(div(thread.number, index(side))) {}

  SmallVector<Value> zeros() override { return SmallVector<Value>(each * each, real(0)); }
  SmallVector<Value> finished(ValueRange sums) override { return SmallVector<Value>(sums); }
  std::pair<Value, Value> place_of(int64_t sum) override { return {apart(y, sum / each), apart(x, sum % each)}; }

  SmallVector<Value> multiply(const Place &rows, const Place &columns, ValueRange sums) override {
    SmallVector<Value> next(sums);
    for (int64_t group = 0; group < groups; ++group) {
      SmallVector<SmallVector<Value>> right;
      for (int64_t j = 0; j < each; ++j)
        right.push_back(terms(columns(apart(x, j), index(group))));
      for (int64_t i = 0; i < each; ++i) {
        SmallVector<Value> left = terms(rows(apart(y, i), index(group)));
        for (int64_t j = 0; j < each; ++j)
          for (auto [p, q] : llvm::zip_equal(left, right[j]))
            next[i * each + j] = math::FmaOp::create(b, loc, p, q, next[i * each + j]);
      }
    }
    return next;
  }

private:
  static constexpr int64_t side = 16, of_group = 4;
  Value apart(Value first, int64_t number) { return add(first, index(number * side)); }
  SmallVector<Value> terms(Value at) {
    Value all = LLVM::LoadOp::create(b, loc, VectorType::get(of_group, b.getF32Type()), at, group_bytes);
    SmallVector<Value> out;
    for (int64_t i = 0; i < of_group; ++i)
      out.push_back(LLVM::ExtractElementOp::create(b, loc, all, arith::ConstantIntOp::create(b, loc, i, 32)));
    return out;
  }

  const int64_t each;
  const Value x, y;
};

/// Warps multiply 16 rows with 8 columns and two groups of terms at a time (PTX ISA, "Matrix Fragments for mma.m16n8k8"
/// and the like: of each type a lane has the 4 bytes that ldmatrix gives it).
class TensorCores : public ThreadTile {
public:
  TensorCores(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile, const TensorType &type)
      : ThreadTile(program, thread, tile), type(type), down(tile / (warps_down * rows)),
        across(tile / (warps_across * columns)), lane(rem(thread.number, index(32))) {
    Value warp = div(thread.number, index(32));
    first_row = mul(div(warp, index(warps_across)), index(down * rows));
    first_column = mul(rem(warp, index(warps_across)), index(across * columns));
  }

  SmallVector<Value> zeros() override {
    return SmallVector<Value>(down * across * 4, arith::ConstantOp::create(b, loc, b.getZeroAttr(sum_type())));
  }
  /// Of 8 columns a lane has two neighbours in its row, of 16 four. It exchanges them with the lanes of the rows beside
  /// its own, and has one column of as many rows: the lanes of a row then have all of its columns, which lie together
  /// in memory.
  SmallVector<Value> finished(ValueRange sums) override {
    SmallVector<Value> in_order; // by tile of rows, tiles of columns together, upper or lower half
    for (int64_t i = 0; i < down; ++i)
      for (int64_t j = 0; j < across; j += together())
        for (int64_t half : {0, 1})
          for (int64_t k = 0; k < together(); ++k)
            for (int64_t number : {0, 1})
              in_order.push_back(sums[(i * across + j + k) * 4 + half * 2 + number]);
    return program.transposed(thread, in_order, together() == 2 ? ArrayRef<int32_t>{4, 8} : ArrayRef<int32_t>{4});
  }
  std::pair<Value, Value> place_of(int64_t sum) override {
    int64_t of_half = 2 * together(), part = sum / of_half / 2, half = sum / of_half % 2;
    Value line = div(lane, index(4)), column = add(mul(rem(lane, index(4)), index(2)), rem(line, index(2)));
    if (together() == 2)
      column = add(column, mul(rem(div(line, index(2)), index(2)), index(columns)));
    Value row = mul(div(line, index(of_half)), index(of_half));
    int64_t tiles_across = across / together();
    row = add(row, index(part / tiles_across * rows + half * 8 + sum % of_half));
    return {add(first_row, row), add(first_column, add(column, index(part % tiles_across * together() * columns)))};
  }

  SmallVector<Value> multiply(const Place &of_rows, const Place &of_columns, ValueRange sums) override {
    SmallVector<Value> next(sums);
    Value line = rem(lane, index(8)), matrix = div(lane, index(8));
    for (int64_t first = 0; first < groups; first += 2) {
      // Matrices of 8 lines: two below each other, then the next group of both.
      SmallVector<SmallVector<Value>> left, right;
      for (int64_t i = 0; i < down; ++i) {
        Value row = add(add(first_row, index(i * rows)), add(mul(rem(matrix, index(2)), index(8)), line));
        left.push_back(matrices(of_rows(row, add(index(first), div(matrix, index(2)))), 4));
      }
      // One column of matrices, or two, after the next group of each.
      for (int64_t j = 0; j < across; j += 2) {
        int64_t together = std::min<int64_t>(2, across - j);
        Value column = add(add(first_column, index(j * columns)), line);
        if (together == 2)
          column = add(column, mul(div(matrix, index(2)), index(8)));
        SmallVector<Value> found = matrices(of_columns(column, add(index(first), rem(matrix, index(2)))), 2 * together);
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
  static constexpr int64_t rows = 16, columns = 8; // of an instruction
  static constexpr int64_t warps_down = 2, warps_across = 4;

  /// Tiles of columns whose sums lanes exchange at a time.
  int64_t together() const { return across % 2 == 0 ? 2 : 1; }

  /// Fragments of matrices whose lines begin at the places that this lane and its neighbours give.
  SmallVector<Value> matrices(Value at, int count) {
    Type loaded = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, b.getI32Type()));
    auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
    Value all =
        NVVM::LdMatrixOp::create(b, loc, loaded, at, count, NVVM::MMALayout::row, shape, NVVM::LdStMatrixEltType::B16);
    SmallVector<Value> out = parts(all, count);
    for (Value &part : out)
      part = as_multiplied(part);
    return out;
  }
  Value as_multiplied(Value fragment) {
    if (type.rounds) {
      Value number = LLVM::BitcastOp::create(b, loc, b.getF32Type(), fragment);
      return NVVM::ConvertFloatToTF32Op::create(b, loc, b.getI32Type(), number, NVVM::FPRoundingMode::RNA);
    }
    return type.element.isF16() ? LLVM::BitcastOp::create(b, loc, VectorType::get(2, b.getF16Type()), fragment)
                                : fragment;
  }
  SmallVector<Value> parts(Value whole, int count) {
    SmallVector<Value> out;
    for (int i = 0; i < count; ++i)
      out.push_back(LLVM::ExtractValueOp::create(b, loc, whole, i));
    return out;
  }

  Type sum_type() const { return type.element.isInteger() ? Type(b.getI32Type()) : Type(b.getF32Type()); }
  NVVM::MMATypes mma_type(bool has_sign) const {
    if (type.element.isInteger())
      return has_sign ? NVVM::MMATypes::s8 : NVVM::MMATypes::u8;
    return type.rounds ? NVVM::MMATypes::tf32 : type.element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  }
  /// Sums are short enough to have no overflow.
  std::optional<NVVM::MMAIntOverflow> overflow() const {
    return type.element.isInteger() ? std::optional(NVVM::MMAIntOverflow::wrapped) : std::nullopt;
  }
  void multiply_add(ArrayRef<Value> left, ArrayRef<Value> right, MutableArrayRef<Value> sums) {
    Type result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, sum_type()));
    using Types = std::array<NVVM::MMATypes, 2>;
    using Layouts = std::array<NVVM::MMALayout, 2>;
    int64_t terms = terms_of_line(type.element) / 2;
    Value product =
        NVVM::MmaOp::create(b, loc, result, left, right, ArrayRef<Value>(sums), {rows, columns, terms}, std::nullopt,
                            overflow(), Types{mma_type(type.left_has_sign), mma_type(type.right_has_sign)},
                            Layouts{NVVM::MMALayout::row, NVVM::MMALayout::col});
    llvm::copy(parts(product, 4), sums.begin());
  }

  const TensorType type;
  const int64_t down, across; // instructions of a warp
  const Value lane;
  Value first_row, first_column;
};

} // namespace

std::unique_ptr<ThreadTile> multiply_add_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile) {
  return std::make_unique<MultiplyAdds>(program, thread, tile);
}

std::unique_ptr<ThreadTile> tensor_core_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile,
                                             const TensorType &type) {
  return std::make_unique<TensorCores>(program, thread, tile, type);
}

} // namespace heddle::contraction
