// Blocks of 16 x 16 threads, each with rows, keys and features 16 apart. Numbers lie in shared memory as f32, in lines
// of a term, from one to the next of which there is room by which threads of a warp reach different banks.
#include "compiler/kernels/attention/key_tile.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <utility>

namespace heddle::attention {

using namespace mlir;
using contraction::Factor;
using linalg::LinalgOp;

namespace {

constexpr size_t most_brought = 16; // numbers of a thread at a time

class MultiplyAddKeys : public KeyTile {
public:
  MultiplyAddKeys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan, Surroundings around)
      : KeyTile(program, thread, plan, std::move(around)), rows_each(plan.rows_each), keys_each(plan.keys_each),
        features_each(plan.features_each), x(rem(thread.number, index(side))), y(div(thread.number, index(side))) {}

  Value row(int64_t i) override { return add(y, index(i * side)); }
  Value key(int64_t j) override { return add(x, index(j * side)); }
  Value feature(int64_t j) override { return add(x, index(j * side)); }
  SmallVector<int32_t> across() const override { return {1, 2, 4, 8}; }

  LogicalResult begin(Value, Value end_key, ArrayRef<KeyRange> read) override {
    end = end_key;
    ranges.assign(read.begin(), read.end());
    ranges.resize(plan.products.size());
    for (const StagedKeys::Scores &scores : plan.products) {
      queries.push_back({}), staged.push_back({});
      if (!scores.staged)
        continue;
      staged.back() = program.shared(thread, StagedKeys::lines(scores) * plan.key_pitch(), b.getF32Type());
      if (scores.queries_of >= 0) {
        queries.back() = queries[scores.queries_of];
        continue;
      }
      queries.back() = program.shared(thread, StagedKeys::lines(scores) * plan.row_pitch(), b.getF32Type());
      if (failed(stage(queries.back(), plan.row_pitch(), scores, scores.queries, rows_each, [&](int64_t i) {
            return Place{inside(add(around.first_row, row(i)), around.rows), {}, {}, {}};
          })))
        return failure();
    }
    weights_of_block = program.shared(thread, plan.block_keys() * plan.row_pitch(), b.getF32Type());
    values = program.shared(thread, plan.block_keys() * plan.feature_pitch(), b.getF32Type());
    return success();
  }

  FailureOr<SmallVector<SmallVector<Value>>> scores(Value first_key) override {
    if (failed(stage_keys(first_key)))
      return failure();
    program.barrier(thread);
    SmallVector<SmallVector<Value>> sums;
    for (auto [number, scores] : llvm::enumerate(plan.products)) {
      sums.emplace_back();
      if (!scores.staged)
        continue;
      SmallVector<Value> zeros(rows_each * keys_each, real(0));
      sums.back() = *where(has_some(first_key, ranges[number]), int64_t(zeros.size()), [&] {
        return FailureOr(multiply(queries[number], plan.row_pitch(), rows_each, staged[number], plan.key_pitch(),
                                  keys_each, scores.terms, zeros));
      });
    }
    return sums;
  }

  FailureOr<SmallVector<Value>> weighted(Value, ValueRange weights, ValueRange sums) override {
    for (int64_t i = 0; i < rows_each; ++i)
      for (int64_t j = 0; j < keys_each; ++j)
        program.store_shared(thread, weights_of_block, add(mul(key(j), index(plan.row_pitch())), row(i)),
                             weights[i * keys_each + j]);
    program.barrier_of_warp(thread); // which holds all threads of its rows
    SmallVector<Value> out = multiply(weights_of_block, plan.row_pitch(), rows_each, values, plan.feature_pitch(),
                                      features_each, plan.block_keys(), sums);
    program.barrier(thread);
    return out;
  }

private:
  Value number_at(Value shared, Value place) { return program.load_shared(thread, shared, place, b.getF32Type()); }

  /// Numbers on their way from memory to places in shared memory: what a branch chooses to load, or not to, is asked
  /// for before the first of them is waited for.
  struct Brought {
    Value to, place, value;
  };
  void store(ArrayRef<Brought> numbers) {
    for (const Brought &number : numbers)
      program.store_shared(thread, number.to, number.place, number.value);
  }

  /// Brings the terms of a factor of scores for so many lines of each row of threads, rows or keys. Threads of a row
  /// take neighbours among the terms, which lie together in memory.
  LogicalResult stage(Value to, int64_t pitch, const StagedKeys::Scores &scores, const Factor &factor, int64_t count,
                      llvm::function_ref<Place(int64_t)> line) {
    SmallVector<Brought> brought;
    for (int64_t first = 0; first < scores.terms; first += side) {
      Value term = add(index(first), x);
      for (int64_t i = 0; i < count; ++i) {
        Place at = line(i);
        at.term = scores.terms - first < side ? least(term, index(scores.terms - 1)) : term;
        Value value = thread.elements.inner(scores.op, factor.value, around.loops(scores.op, at));
        if (!value)
          return failure();
        brought.push_back({to, add(mul(term, index(pitch)), row(i)), value});
      }
      if (brought.size() + count > most_brought)
        store(std::exchange(brought, {}));
    }
    store(brought);
    return success();
  }

  /// Brings keys and values of a block.
  LogicalResult stage_keys(Value first) {
    auto number = [&](int64_t i) { return add(first, row(i)); }; // a thread brings lines of its row's number
    SmallVector<Brought> brought;
    LinalgOp op = plan.match.weighted.front().product.op;
    for (int64_t i = 0; i < keys_each; ++i)
      for (int64_t j = 0; j < features_each; ++j) {
        Place at{{}, inside(number(i), end), inside(add(around.first_feature, feature(j)), around.features), {}};
        Value value = thread.elements.inner(op, plan.values.value, around.loops(op, at));
        if (!value)
          return failure();
        value = choose(below(number(i), end), value, real(0));
        brought.push_back({values, add(mul(row(i), index(plan.feature_pitch())), feature(j)), value});
      }
    for (auto [scores, to, range] : llvm::zip_equal(plan.products, staged, ranges)) {
      auto bring = [&, &scores = scores, &to = to, &range = range]() -> FailureOr<SmallVector<Value>> {
        auto key = [&](int64_t i) { return Place{{}, inside(inside(number(i), end), range), {}, {}}; };
        if (failed(stage(to, plan.key_pitch(), scores, scores.keys, keys_each, key)))
          return failure();
        return SmallVector<Value>();
      };
      if (scores.staged && failed(where(has_some(first, range), 0, bring)))
        return failure();
    }
    store(brought);
    return success();
  }

  /// Adds to sums of `left` x `right` numbers of a thread the products over so many lines of two arrays.
  SmallVector<Value> multiply(Value left_of, int64_t left_pitch, int64_t left, Value right_of, int64_t right_pitch,
                              int64_t right, int64_t lines, ValueRange start) {
    int64_t at_once = 1;
    while (at_once < 8 && lines % (2 * at_once) == 0)
      at_once *= 2;
    auto loop = scf::ForOp::create(b, loc, index(0), index(lines), index(at_once), start);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> sums(loop.getRegionIterArgs());
    for (int64_t step = 0; step < at_once; ++step) {
      Value line = add(loop.getInductionVar(), index(step));
      SmallVector<Value> p, q;
      for (int64_t i = 0; i < left; ++i)
        p.push_back(number_at(left_of, add(mul(line, index(left_pitch)), row(i))));
      for (int64_t j = 0; j < right; ++j)
        q.push_back(number_at(right_of, add(mul(line, index(right_pitch)), key(j))));
      for (int64_t i = 0; i < left; ++i)
        for (int64_t j = 0; j < right; ++j)
          sums[i * right + j] = math::FmaOp::create(b, loc, p[i], q[j], sums[i * right + j]);
    }
    scf::YieldOp::create(b, loc, sums);
    return SmallVector<Value>(loop.getResults());
  }

  const int64_t rows_each, keys_each, features_each;
  const Value x, y;
  Value end, weights_of_block, values;
  SmallVector<Value> queries, staged; // by product, in shared memory
  SmallVector<KeyRange> ranges;       // in which it is read
};

} // namespace

std::unique_ptr<KeyTile> multiply_add_keys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                           Surroundings around) {
  return std::make_unique<MultiplyAddKeys>(program, thread, plan, std::move(around));
}

} // namespace heddle::attention
