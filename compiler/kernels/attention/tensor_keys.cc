// Blocks of warps with 16 rows each. Queries, keys and values lie in shared memory as bf16, a line each, in groups of
// 16 bytes, which change places from line to line, so that eight lines reach different banks. Keys of the next
// block arrive while weights are multiplied, its values while scores are.
//
// Instructions (mma.m16n8k16) give a lane two neighbouring keys of two rows, which is how the next ones take weights:
// these never leave their registers.
#include "compiler/kernels/attention/key_tile.h"
#include "compiler/kernels/product/nest.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <array>

namespace heddle::attention {

using namespace mlir;
using contraction::Factor;
using contraction::PlainRead;
using linalg::LinalgOp;

namespace {

constexpr int64_t group_bytes = 16, group_terms = 8;

/// Lines of a factor in shared memory, and how they come there.
struct Staged {
  LinalgOp op;
  const Factor *factor;
  unsigned along; // the loop that a line runs along
  int64_t lines, terms, groups;
  Value shared;
  PlainRead plain;     // of what is copied; no read: threads make the groups
  KeyRange range = {}; // of keys, for which it is read
};

class TensorKeys : public KeyTile {
public:
  TensorKeys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan, Surroundings around)
      : KeyTile(program, thread, plan, std::move(around)), threads(2 * plan.block_rows()),
        lane(rem(thread.number, index(32))), quad(rem(lane, index(4))), line(rem(lane, index(8))),
        matrix(div(lane, index(8))) {
    first_of_warp = mul(div(thread.number, index(32)), index(16));
  }

  Value row(int64_t i) override { return add(first_of_warp, add(div(lane, index(4)), index(8 * i))); }
  Value key(int64_t j) override { return add(mul(quad, index(2)), index(j / 2 * 8 + j % 2)); }
  Value feature(int64_t j) override { return key(j); }
  SmallVector<int32_t> across() const override { return {1, 2}; }

  LogicalResult begin(Value first_key, Value end_key, ArrayRef<KeyRange> read) override {
    end = end_key;
    for (auto [number, scores] : llvm::enumerate(plan.products)) {
      unsigned along = last_summed(scores.op);
      keys.push_back(staged(scores.op, scores.keys, along, plan.block_keys(), scores.terms));
      keys.back().range = read.empty() ? KeyRange() : read[number];
      if (scores.queries_of >= 0) {
        queries.push_back(queries[scores.queries_of]);
        continue;
      }
      queries.push_back(staged(scores.op, scores.queries, along, plan.block_rows(), scores.terms));
      if (failed(bring(queries.back(), [&](Value number, Value term) {
            Value row = add(around.first_row, number);
            return std::pair(Place{inside(row, around.rows), {}, {}, term}, below(row, around.rows));
          })))
        return failure();
    }
    LinalgOp weighted = plan.match.weighted.front().product.op;
    auto roles = plan.match.roles.find(weighted)->second;
    unsigned along = unsigned(llvm::find(roles, plan.match.lane_axis) - roles.begin());
    values = staged(weighted, plan.values, along, plan.block_keys(), plan.block_features());
    return success(succeeded(bring_keys(first_key)) && succeeded(bring_values(first_key)));
  }

  FailureOr<SmallVector<SmallVector<Value>>> scores(Value first_key) override {
    arrived();
    SmallVector<SmallVector<Value>> out;
    for (auto [query, key] : llvm::zip_equal(queries, keys)) {
      auto tiles = where(has_some(first_key, key.range), plan.block_keys() / 2,
                         [&, &query = query, &key = key] { return FailureOr(products(query, key)); });
      out.push_back(by_rows(*tiles));
    }
    program.barrier(thread);
    if (failed(bring_keys(add(first_key, index(plan.block_keys())))))
      return failure();
    return out;
  }

  FailureOr<SmallVector<Value>> weighted(Value first_key, ValueRange weights, ValueRange sums) override {
    arrived();
    SmallVector<Value> out = by_tiles(sums);
    int64_t keys_each = plan.keys_each;
    for (int64_t first = 0; first < plan.block_keys(); first += 16) {
      SmallVector<Value> left; // two keys of two rows, then the two of the next eight
      for (int64_t j : {first / 4, first / 4 + 2})
        for (int64_t i : {0, 1})
          left.push_back(pair(weights[i * keys_each + j], weights[i * keys_each + j + 1]));
      for (int64_t feature = 0; feature < plan.block_features(); feature += 16) {
        Value of_key = add(index(first), add(mul(rem(matrix, index(2)), index(8)), line));
        SmallVector<Value> right =
            matrices(values, of_key, add(index(feature / 8), div(matrix, index(2))), /*transposed=*/true);
        multiply_add(left, ArrayRef(right).take_front(2), MutableArrayRef(out).slice(feature / 2, 4));
        multiply_add(left, ArrayRef(right).drop_front(2), MutableArrayRef(out).slice(feature / 2 + 4, 4));
      }
    }
    program.barrier(thread);
    if (failed(bring_values(add(first_key, index(plan.block_keys())))))
      return failure();
    return by_rows(out);
  }

  /// Of 16 features a lane has four of each row. It exchanges them with the lanes of three rows beside its own, and has
  /// one feature of four rows: sixteen lanes have a row's features, which lie together in memory.
  SmallVector<Value> exchanged(ValueRange own) override { return program.transposed(thread, own, {4, 8}); }
  std::pair<Value, Value> exchanged_place(int64_t number) override {
    int64_t i = number / plan.features_each, within = number % plan.features_each;
    Value row = add(first_of_warp, add(mul(div(lane, index(16)), index(4)), index(8 * i + within % 4)));
    Value feature = add(mul(quad, index(2)), rem(div(lane, index(4)), index(2)));
    feature = add(feature, mul(rem(matrix, index(2)), index(8)));
    return {row, add(feature, index(within / 4 * 16))};
  }

private:
  unsigned last_summed(LinalgOp op) const {
    const std::vector<Role> &roles = plan.match.roles.find(op)->second;
    unsigned out = 0;
    for (auto [loop, role] : llvm::enumerate(roles))
      if (role == summed)
        out = unsigned(loop);
    return out;
  }

  SmallVector<Value> products(const Staged &query, const Staged &key) {
    SmallVector<Value> tiles(plan.block_keys() / 2, real(0));
    for (int64_t step = 0; step < key.groups; step += 2) {
      Value of_row = add(first_of_warp, add(mul(rem(matrix, index(2)), index(8)), line));
      SmallVector<Value> left = matrices(query, of_row, add(index(step), div(matrix, index(2))), false);
      for (int64_t first = 0; first < plan.block_keys(); first += 16) {
        Value of_key = add(index(first), add(mul(div(matrix, index(2)), index(8)), line));
        SmallVector<Value> right = matrices(key, of_key, add(index(step), rem(matrix, index(2))), false);
        multiply_add(left, ArrayRef(right).take_front(2), MutableArrayRef(tiles).slice(first / 2, 4));
        multiply_add(left, ArrayRef(right).drop_front(2), MutableArrayRef(tiles).slice(first / 2 + 4, 4));
      }
    }
    return tiles;
  }

  Staged staged(LinalgOp op, const Factor &factor, unsigned along, int64_t lines, int64_t terms) {
    Staged out{op, &factor, along, lines, terms, (terms + 15) / 16 * 2, {}, contraction::plain_read(factor.value)};
    out.shared = program.shared(thread, lines * out.groups * group_bytes, b.getI8Type());
    Value read = out.plain.read;
    bool copies =
        read && read.getType().isBF16() && contraction::lies_in_groups(op, read, along, group_terms) &&
        llvm::none_of(out.plain.conditions, [&](Value c) { return contraction::loops_behind(op, c).test(along); });
    auto element = copies ? dyn_cast<BlockArgument>(read) : BlockArgument();
    Value tensor = element  ? op->getOperand(element.getArgNumber())
                   : copies ? read.getDefiningOp<tensor::ExtractOp>().getTensor()
                            : Value();
    if (!tensor || !isa<BlockArgument>(tensor))
      out.plain.read = {};
    return out;
  }

  /// Waits for all copies but those begun last.
  void arrived() {
    NVVM::CpAsyncWaitGroupOp::create(b, loc, 1);
    program.barrier(thread);
  }

  LogicalResult bring_keys(Value first_key) {
    for (Staged &key : keys)
      if (failed(bring_lines_of_keys(key, first_key)))
        return failure();
    NVVM::CpAsyncCommitGroupOp::create(b, loc);
    return success();
  }
  LogicalResult bring_values(Value first_key) {
    if (failed(bring_lines_of_keys(values, first_key)))
      return failure();
    NVVM::CpAsyncCommitGroupOp::create(b, loc);
    return success();
  }
  LogicalResult bring_lines_of_keys(Staged &of, Value first_key) {
    OpBuilder::InsertionGuard guard(b);
    Value some = below(first_key, end), read = has_some(first_key, of.range);
    b.setInsertionPointToStart(
        scf::IfOp::create(b, loc, read ? both(some, read) : some, /*withElseRegion=*/false).thenBlock());
    bool features = of.factor == &plan.values;
    return bring(of, [&](Value number, Value term) {
      Value key = add(first_key, number);
      Place at{{}, inside(inside(key, end), of.range), {}, {}};
      (features ? at.feature : at.term) = features ? add(around.first_feature, term) : term;
      return std::pair(at, below(key, end));
    });
  }

  /// Brings all groups of some lines. `place`: where one is, from the number of its line and its first term, and
  /// whether there is such a line.
  LogicalResult bring(Staged &of, llvm::function_ref<std::pair<Place, Value>(Value, Value)> place) {
    int64_t all = of.lines * of.groups;
    for (int64_t first = 0; first < all; first += threads) {
      OpBuilder::InsertionGuard guard(b);
      Value own = add(thread.number, index(first));
      if (first + threads > all)
        b.setInsertionPointToStart(
            scf::IfOp::create(b, loc, below(own, index(all)), /*withElseRegion=*/false).thenBlock());
      Value number = div(own, index(of.groups)), group = rem(own, index(of.groups));
      Value to = shared_place(of, number, group), term = mul(group, index(group_terms));
      if (of.plain.read ? failed(copy(of, place(number, term), term, to)) : failed(make(of, number, term, to, place)))
        return failure();
    }
    return success();
  }

  /// How many terms a line has, of features those up to the last one.
  Value end_of_terms(const Staged &of) {
    return of.factor == &plan.values ? sub(around.features, around.first_feature) : index(of.terms);
  }

  LogicalResult copy(const Staged &of, std::pair<Place, Value> place, Value term, Value to) {
    SmallVector<Value> loops = around.loops(of.op, place.first);
    Value inside = both(place.second, below(term, end_of_terms(of)));
    for (Value condition : of.plain.conditions) {
      Value holds = thread.elements.inner(of.op, condition, loops);
      if (!holds)
        return failure();
      inside = both(inside, holds);
    }
    std::optional<Value> from = thread.elements.address_of(of.op, of.plain.read, loops);
    if (!from)
      return failure();
    auto bytes = [&](int64_t count) { return arith::ConstantIntOp::create(b, loc, count, 32).getResult(); };
    NVVM::CpAsyncOp::create(b, loc, to, *from, uint32_t(group_bytes), NVVM::LoadCacheModifierKind::CG,
                            choose(inside, bytes(group_bytes), bytes(0)));
    return success();
  }

  LogicalResult make(const Staged &of, Value number, Value term, Value to,
                     llvm::function_ref<std::pair<Place, Value>(Value, Value)> place) {
    Type narrow = b.getBF16Type();
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(narrow)), count = end_of_terms(of);
    Value all = arith::ConstantOp::create(b, loc, b.getZeroAttr(VectorType::get(group_terms, narrow)));
    for (int64_t i = 0; i < group_terms; ++i) {
      Value own = add(term, index(i));
      auto [at, exists] = place(number, inside(own, count));
      Value found = thread.elements.inner(of.op, of.factor->value, around.loops(of.op, at));
      if (!found)
        return failure();
      if (found.getType() != narrow)
        found = arith::TruncFOp::create(b, loc, narrow, found);
      found = choose(both(exists, below(own, count)), found, zero);
      all = LLVM::InsertElementOp::create(b, loc, all, found, arith::ConstantIntOp::create(b, loc, i, 32));
    }
    LLVM::StoreOp::create(b, loc, all, to, group_bytes);
    return success();
  }

  Value shared_place(const Staged &of, Value number, Value group) {
    Value at = mul(swizzled(number, group, of.groups), index(group_bytes));
    return program.shared_address(thread, of.shared, at, b.getI8Type());
  }

  // --- tensor cores

  SmallVector<Value> matrices(const Staged &of, Value number, Value group, bool transposed) {
    Type loaded = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getI32Type()));
    auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
    auto layout = transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row;
    return parts(NVVM::LdMatrixOp::create(b, loc, loaded, shared_place(of, number, group), 4, layout, shape,
                                          NVVM::LdStMatrixEltType::B16));
  }
  SmallVector<Value> parts(Value whole) {
    SmallVector<Value> out;
    for (int64_t i = 0; i < 4; ++i)
      out.push_back(LLVM::ExtractValueOp::create(b, loc, whole, i));
    return out;
  }
  Value pair(Value p, Value q) {
    Type narrow = b.getBF16Type();
    Value both = LLVM::UndefOp::create(b, loc, VectorType::get(2, narrow));
    for (int64_t i : {0, 1}) {
      Value rounded = arith::TruncFOp::create(b, loc, narrow, i == 0 ? p : q);
      both = LLVM::InsertElementOp::create(b, loc, both, rounded, arith::ConstantIntOp::create(b, loc, i, 32));
    }
    return LLVM::BitcastOp::create(b, loc, b.getI32Type(), both);
  }
  void multiply_add(ArrayRef<Value> left, ArrayRef<Value> right, MutableArrayRef<Value> sums) {
    Type result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getF32Type()));
    using Types = std::array<NVVM::MMATypes, 2>;
    using Layouts = std::array<NVVM::MMALayout, 2>;
    Value product = NVVM::MmaOp::create(b, loc, result, left, right, ArrayRef<Value>(sums), {16, 8, 16}, std::nullopt,
                                        std::nullopt, Types{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
                                        Layouts{NVVM::MMALayout::row, NVVM::MMALayout::col});
    llvm::copy(parts(product), sums.begin());
  }
  /// Numbers of tiles, two of a row and two of the one eight below, by row; and back.
  static SmallVector<Value> by_rows(ArrayRef<Value> tiles) {
    SmallVector<Value> out(tiles.size());
    for (size_t n = 0; n < tiles.size(); ++n)
      out[n % 4 / 2 * (tiles.size() / 2) + n / 4 * 2 + n % 2] = tiles[n];
    return out;
  }
  static SmallVector<Value> by_tiles(ValueRange rows) {
    SmallVector<Value> out(rows.size());
    for (size_t n = 0; n < rows.size(); ++n)
      out[n] = rows[n % 4 / 2 * (rows.size() / 2) + n / 4 * 2 + n % 2];
    return out;
  }

  const int64_t threads;
  const Value lane, quad, line, matrix; // of four lanes; of the line and the matrix that ldmatrix is given
  Value first_of_warp, end;
  SmallVector<Staged> queries, keys; // by product
  Staged values;
};

} // namespace

std::unique_ptr<KeyTile> tensor_core_keys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                          Surroundings around) {
  return std::make_unique<TensorKeys>(program, thread, plan, std::move(around));
}

} // namespace heddle::attention
