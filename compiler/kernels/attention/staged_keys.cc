// The code of the variant `staged_keys`. A block of 16 x 16 threads computes some features (most often all) of some
// rows of a head, and goes over the keys 32 at a time. Of these it brings keys and values to shared memory, computes
// scores in registers, each thread those of a few rows and keys, brings weights to shared memory, and adds weighted
// values up in registers. Whatever is made of scores is computed from them in place: masks, distances, anything.
//
// A row's largest score is the largest so far, m. Where a block of keys has a larger one, M, sums so far are
// multiplied by exp(m - M) (Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867; Dao et al. 2022,
// https://arxiv.org/abs/2205.14135). What is the same for all keys of a row, such as 1 / total, comes at the end.
// Keys that no row of the block needs (those after the last row, of causal scores) are left out.
//
// Rows and features past the last one repeat it and are never stored; keys past the last one that is needed repeat it
// and are left out of every sum.
#include "compiler/kernels/attention/staged_keys.h"

#include "compiler/gpu/program.h"
#include "compiler/halide/ranges.h"
#include "compiler/kernels/whole_numbers.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

namespace heddle::attention {

using namespace mlir;
using contraction::Factor;
using linalg::LinalgOp;

namespace {

constexpr int64_t threads = side * side;
constexpr double lowest = -std::numeric_limits<double>::infinity();

class Code : gpu::Arithmetic {
public:
  Code(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan)
      : Arithmetic(thread.b, thread.loc), program(program), thread(thread), plan(plan), elements(thread.elements),
        rows_each(plan.rows_each), keys_each(plan.keys_each), features_each(plan.features_each) {
    for (Value value : program.kernel().front().getTerminator()->getOperands())
      elements.hide(value);
  }

  LogicalResult write() {
    find_place();
    if (failed(stage_queries()) || failed(find_range()))
      return failure();
    // Of each row its largest score, then its sums, then, of each feature, its weighted values.
    size_t sums = plan.softmax.sums.size() - 1;
    SmallVector<Value> so_far(rows_each, real(lowest));
    so_far.append(rows_each * (sums + features_each), real(0));
    auto over_keys = scf::ForOp::create(b, loc, first_key, end_key, index(plan.block_keys()), so_far);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_keys.getBody());
      if (failed(block_of_keys(over_keys.getInductionVar(), over_keys.getRegionIterArgs())))
        return failure();
    }
    for (int64_t i = 0; i < rows_each; ++i)
      if (failed(finish_row(i, over_keys.getResults())))
        return failure();
    return success();
  }

private:
  /// Where an element lies on the axes of the problem.
  struct Place {
    Value row, key, feature, term;
  };

  Value real_sum(Value p, Value q) { return arith::AddFOp::create(b, loc, p, q); }
  Value real_product(Value p, Value q) { return arith::MulFOp::create(b, loc, p, q); }
  Value exp_of_difference(Value p, Value q) { return math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, p, q)); }
  Value is_lowest(Value p) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, p, real(lowest)); }

  // --- places

  void find_place() {
    rows = size(plan.rows), keys_count = size(plan.keys), features = size(plan.features);
    SmallVector<Value> extents;
    for (auto [axis, extent] : plan.others)
      extents.push_back(size(extent));
    extents.push_back(times(rows, plan.block_rows()));
    extents.push_back(times(features, plan.block_features()));
    SmallVector<Value> at = gpu::digits(thread, thread.block, extents);
    for (auto [other, value] : llvm::zip(plan.others, at))
      others[other.first] = value;
    first_row = mul(at[at.size() - 2], index(plan.block_rows()));
    first_feature = mul(at.back(), index(plan.block_features()));
    x = rem(thread.number, index(side)), y = div(thread.number, index(side));
  }

  Value size(AffineExpr formula) { return elements.size(formula, program.kernel()); }
  Value row(int64_t i) { return add(first_row, add(y, index(i * side))); }
  Value inside(Value place, Value count) { return least(place, sub(count, index(1))); }

  /// The loops of an op at a place.
  SmallVector<Value> loops(LinalgOp op, const Place &at) {
    const std::vector<Role> &roles = plan.match.roles.find(op)->second;
    SmallVector<Value> out, extents, terms;
    auto formulas = op.getStaticLoopRanges();
    for (auto [role, extent] : llvm::zip_equal(roles, formulas))
      if (role == summed && at.term)
        extents.push_back(index(extent));
    if (at.term)
      terms = gpu::digits(thread, at.term, extents);
    size_t term = 0;
    for (Role role : roles) {
      Value value = role == keys                   ? at.key
                    : role == plan.match.row_axis  ? at.row
                    : role == plan.match.lane_axis ? at.feature
                    : role != summed               ? others.lookup(role)
                    : at.term                      ? terms[term++]
                                                   : Value();
      out.push_back(value ? value : index(0));
    }
    return out;
  }
  /// The result of an element-wise op, or of a sum, at a place.
  Value result_at(LinalgOp op, const Place &at) {
    SmallVector<Value> all = loops(op, at), parallel;
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray()))
      if (kind == utils::IteratorType::parallel)
        parallel.push_back(all[loop]);
    return elements.element(op->getResult(0), elements.place_of(op, 0, parallel));
  }

  // --- shared memory

  Value number_at(Value shared, Value place) { return program.load_shared(thread, shared, place, b.getF32Type()); }

  /// Brings the terms of a factor of scores for so many lines of each row of threads, rows or keys. Threads of a row
  /// take neighbours among the terms, which lie together in memory.
  LogicalResult stage(Value to, int64_t pitch, const StagedKeys::Scores &scores, const Factor &factor, int64_t count,
                      llvm::function_ref<Place(int64_t)> line) {
    for (int64_t first = 0; first < scores.terms; first += side) {
      Value term = add(index(first), x);
      for (int64_t i = 0; i < count; ++i) {
        Place at = line(i);
        at.term = scores.terms - first < side ? least(term, index(scores.terms - 1)) : term;
        Value value = elements.inner(scores.op, factor.value, loops(scores.op, at));
        if (!value)
          return failure();
        program.store_shared(thread, to, add(mul(term, index(pitch)), add(y, index(i * side))), value);
      }
    }
    return success();
  }

  LogicalResult stage_queries() {
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
      if (failed(stage(queries.back(), plan.row_pitch(), scores, scores.queries, rows_each,
                       [&](int64_t i) { return Place{inside(row(i), rows), {}, {}, {}}; })))
        return failure();
    }
    weights = program.shared(thread, plan.block_keys() * plan.row_pitch(), b.getF32Type());
    values = program.shared(thread, plan.block_keys() * plan.feature_pitch(), b.getF32Type());
    return success();
  }

  /// Brings keys and values of a block.
  LogicalResult stage_keys(Value first) {
    auto key = [&](int64_t i) { return add(first, add(y, index(i * side))); };
    for (auto [scores, to] : llvm::zip_equal(plan.products, staged))
      if (scores.staged && failed(stage(to, plan.key_pitch(), scores, scores.keys, keys_each,
                                        [&](int64_t i) { return Place{{}, inside(key(i), end_key), {}, {}}; })))
        return failure();
    LinalgOp weighted = plan.match.weighted.product.op;
    for (int64_t i = 0; i < keys_each; ++i)
      for (int64_t j = 0; j < features_each; ++j) {
        Value feature = add(x, index(j * side));
        Place at{{}, inside(key(i), end_key), inside(add(first_feature, feature), features), {}};
        Value value = elements.inner(weighted, plan.values.value, loops(weighted, at));
        if (!value)
          return failure();
        value = choose(below(key(i), end_key), value, real(0));
        Value line = add(y, index(i * side));
        program.store_shared(thread, values, add(mul(line, index(plan.feature_pitch())), feature), value);
      }
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
        p.push_back(number_at(left_of, add(mul(line, index(left_pitch)), add(y, index(i * side)))));
      for (int64_t j = 0; j < right; ++j)
        q.push_back(number_at(right_of, add(mul(line, index(right_pitch)), add(x, index(j * side)))));
      for (int64_t i = 0; i < left; ++i)
        for (int64_t j = 0; j < right; ++j)
          sums[i * right + j] = math::FmaOp::create(b, loc, p[i], q[j], sums[i * right + j]);
    }
    scf::YieldOp::create(b, loc, sums);
    return SmallVector<Value>(loop.getResults());
  }

  // --- keys

  /// From the first key that some row of the block needs to the one after the last.
  LogicalResult find_range() {
    first_key = index(0), end_key = keys_count;
    std::map<std::string, Value> variables{
        {"first_row", first_row}, {"last_row", sub(least(add(first_row, index(plan.block_rows())), rows), index(1))}};
    auto variable = [](const std::string &name) { return Halide::Internal::Variable::make(Halide::Int(32), name); };
    std::vector<Halide::Expr> arguments;
    for (BlockArgument argument : program.kernel().getArguments()) {
      arguments.push_back({});
      if (!argument.getType().isIndex() && !argument.getType().isInteger(32))
        continue;
      std::string name = "argument" + std::to_string(argument.getArgNumber());
      arguments.back() = variable(name);
      Value value = elements.scalar(argument);
      variables[name] =
          argument.getType().isIndex() ? value : arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
    }
    SmallVector<LinalgOp> over_keys(plan.softmax.sums);
    over_keys.push_back(plan.softmax.top);
    Value first, end;
    for (LinalgOp op : over_keys) {
      const std::vector<Role> &roles = plan.match.roles.find(op)->second;
      std::vector<Halide::Internal::Interval> ranges;
      SmallVector<Value> extents = elements.loop_extents(op);
      if (extents.size() != roles.size())
        return failure();
      unsigned along = 0;
      for (auto [loop, role] : llvm::enumerate(roles)) {
        std::string name = "extent" + std::to_string(loop) + "of" + std::to_string(ranges_of++);
        variables[name] = extents[loop];
        ranges.emplace_back(Halide::Expr(0), variable(name) - 1);
        if (role == plan.match.row_axis)
          ranges.back() = {variable("first_row"), variable("last_row")};
        else if (role == keys)
          along = unsigned(loop);
      }
      Halide::Internal::Interval range = needed_range(program.kernel(), op, along, ranges, arguments);
      Value least_key = range.has_lower_bound() ? whole_number(b, loc, range.min, variables) : Value();
      Value last_key = range.has_upper_bound() ? whole_number(b, loc, range.max, variables) : Value();
      least_key = least_key ? greatest(least_key, index(0)) : index(0);
      last_key = last_key ? least(add(last_key, index(1)), keys_count) : keys_count;
      first = first ? least(first, least_key) : least_key;
      end = end ? greatest(end, last_key) : last_key;
    }
    first_key = first, end_key = greatest(end, first);
    return success();
  }

  LogicalResult block_of_keys(Value first, ValueRange so_far) {
    if (failed(stage_keys(first)))
      return failure();
    program.barrier(thread);
    SmallVector<SmallVector<Value>> sums;
    for (auto [number, scores] : llvm::enumerate(plan.products)) {
      SmallVector<Value> zeros(rows_each * keys_each, real(0));
      sums.push_back(scores.staged ? multiply(queries[number], plan.row_pitch(), rows_each, staged[number],
                                              plan.key_pitch(), keys_each, scores.terms, zeros)
                                   : SmallVector<Value>());
    }
    // Scores as the kernel makes them of these sums.
    SmallVector<Value> score(rows_each * keys_each), is_key;
    SmallVector<Place> at(rows_each * keys_each);
    auto score_op = plan.score.getDefiningOp<LinalgOp>();
    for (int64_t j = 0; j < keys_each; ++j) {
      Value key = add(first, add(x, index(j * side)));
      is_key.push_back(below(key, end_key));
      for (int64_t i = 0; i < rows_each; ++i) {
        int64_t n = i * keys_each + j;
        at[n] = {inside(row(i), rows), inside(key, end_key), {}, {}};
        give_products(sums, n);
        score[n] = result_at(score_op, at[n]);
        if (!score[n])
          return failure();
      }
    }
    SmallVector<Value> next, subtracted, scale;
    for (int64_t i = 0; i < rows_each; ++i) {
      Value top = so_far[i], block;
      for (int64_t j = 0; j < keys_each; ++j) {
        Value own = choose(is_key[j], score[i * keys_each + j], real(lowest));
        block = block ? larger(block, own) : own;
      }
      next.push_back(larger(top, across(block, [&](Value p, Value q) { return larger(p, q); })));
      subtracted.push_back(subtracted_of(next.back(), at[i * keys_each]));
      Value before = subtracted_of(top, at[i * keys_each]);
      if (!before || !subtracted.back())
        return failure();
      scale.push_back(choose(is_lowest(top), real(0), exp_of_difference(before, subtracted.back())));
    }
    // Terms of sums, each thread's own; they meet at the end.
    for (LinalgOp sum : ArrayRef(plan.softmax.sums).drop_back())
      for (int64_t i = 0; i < rows_each; ++i) {
        Value own = real_product(so_far[next.size()], scale[i]);
        for (int64_t j = 0; j < keys_each; ++j) {
          int64_t n = i * keys_each + j;
          give_products(sums, n);
          Value term = of_key(term_of(sum), sum, at[n], score[n], subtracted[i]);
          if (!term)
            return failure();
          own = real_sum(own, choose(is_key[j], term, real(0)));
        }
        next.push_back(own);
      }
    for (int64_t i = 0; i < rows_each; ++i)
      for (int64_t j = 0; j < keys_each; ++j) {
        int64_t n = i * keys_each + j;
        give_products(sums, n);
        Value weight = of_key(plan.weights.value, plan.match.weighted.product.op, at[n], score[n], subtracted[i]);
        if (!weight)
          return failure();
        Value place = add(mul(add(x, index(j * side)), index(plan.row_pitch())), add(y, index(i * side)));
        program.store_shared(thread, weights, place, choose(is_key[j], weight, real(0)));
      }
    take_back_products();
    program.barrier_of_warp(thread); // which holds all threads of its rows
    SmallVector<Value> weighted;
    for (int64_t i = 0; i < rows_each; ++i)
      for (int64_t j = 0; j < features_each; ++j)
        weighted.push_back(real_product(so_far[next.size() + weighted.size()], scale[i]));
    next.append(multiply(weights, plan.row_pitch(), rows_each, values, plan.feature_pitch(), features_each,
                         plan.block_keys(), weighted));
    program.barrier(thread);
    scf::YieldOp::create(b, loc, next);
    return success();
  }

  void give_products(ArrayRef<SmallVector<Value>> sums, int64_t number) {
    for (auto [scores, of_product] : llvm::zip_equal(plan.products, sums))
      if (scores.staged) {
        LinalgOp op = scores.op;
        elements.give(op->getResult(0), of_product[number]);
      }
  }
  void take_back_products() {
    for (const StagedKeys::Scores &scores : plan.products) {
      LinalgOp op = scores.op;
      elements.take_back(op->getResult(0));
    }
  }

  // --- softmax

  Value larger(Value p, Value q) {
    LinalgOp top = plan.softmax.top;
    bool skips_nan = isa<arith::MaxNumFOp>(top.getBlock()->getTerminator()->getOperand(0).getDefiningOp());
    return skips_nan ? arith::MaxNumFOp::create(b, loc, p, q).getResult()
                     : arith::MaximumFOp::create(b, loc, p, q).getResult();
  }
  /// Combines what the threads of a row have.
  Value across(Value own, llvm::function_ref<Value(Value, Value)> combine) {
    for (int32_t bits = 1; bits < side; bits *= 2)
      own = combine(own, program.exchanged(thread, own, bits));
    return own;
  }

  /// What is subtracted from the scores of a row whose largest one this is, a number in any case.
  Value subtracted_of(Value top, const Place &at) {
    LinalgOp op = plan.softmax.top;
    Value out = top;
    if (plan.softmax.subtracted != op->getResult(0)) {
      elements.give(op->getResult(0), top);
      out = result_at(plan.softmax.subtracted.getDefiningOp<LinalgOp>(), at);
      elements.take_back(op->getResult(0));
    }
    return out ? choose(is_lowest(top), real(0), out) : Value();
  }

  /// A term of a sum over keys without what is the same for all keys of the row.
  Value of_key(Value value, LinalgOp op, const Place &at, Value score, Value subtracted) {
    elements.give(plan.score, score);
    Value out = from_exponential(value, op, at, exp_of_difference(score, subtracted), /*of_rows=*/false);
    elements.take_back(plan.score);
    return out;
  }
  /// What a sum, or an element of it, becomes by what is the same for all keys.
  Value of_row(Value value, LinalgOp op, const Place &at, Value sum) {
    return from_exponential(value, op, at, sum, /*of_rows=*/true);
  }
  /// What the ops between the exponential and `value` make of `start`: those that are the same for all keys, or the
  /// others.
  Value from_exponential(Value value, LinalgOp op, const Place &at, Value start, bool of_rows) {
    if (LinalgOp behind = made_by(value, op))
      return from_exponential(behind.getBlock()->getTerminator()->getOperand(0), behind, at, start, of_rows);
    Operation *made = value.getDefiningOp();
    auto step = plan.softmax.steps.find(made);
    if (step == plan.softmax.steps.end())
      return start;
    auto [leads, same_for_all] = step->second;
    Value inner = from_exponential(made->getOperand(leads), op, at, start, of_rows);
    bool applies = of_rows ? same_for_all && !isa<arith::ExtFOp, arith::TruncFOp>(made) : !same_for_all;
    return applies ? repeated(made, leads, inner, op, at) : inner;
  }
  /// An op of a body with another value where it leads to the exponential.
  Value repeated(Operation *made, unsigned leads, Value inner, LinalgOp op, const Place &at) {
    if (!inner)
      return {};
    IRMapping map;
    for (auto [number, operand] : llvm::enumerate(made->getOperands())) {
      Value value = number == leads ? inner : elements.inner(op, operand, loops(op, at));
      if (!value)
        return {};
      map.map(operand, value);
    }
    return b.clone(*made, map)->getResult(0);
  }

  // --- results

  LogicalResult finish_row(int64_t i, ValueRange found) {
    Place at{inside(row(i), rows), {}, {}, {}};
    LinalgOp top = plan.softmax.top;
    Value largest = found[i], missing;
    // Where every score is -inf, and that is subtracted, all terms are NaN.
    if (plan.softmax.subtracted == top->getResult(0)) {
      Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, keys_count, index(0));
      missing = choose(is_lowest(largest), exp_of_difference(largest, largest), real(0));
      missing = choose(none, real(0), missing);
    }
    auto whole = [&](Value sum) { return missing ? real_sum(sum, missing) : sum; };
    elements.give(top->getResult(0), largest);
    size_t next = rows_each;
    for (LinalgOp sum : ArrayRef(plan.softmax.sums).drop_back()) {
      Value value = across(found[next + i], [&](Value p, Value q) { return real_sum(p, q); });
      value = of_row(term_of(sum), sum, at, whole(value));
      if (!value)
        return failure();
      elements.give(sum->getResult(0), value);
      next += rows_each;
    }
    for (int64_t j = 0; j < features_each; ++j)
      if (failed(finish(i, j, whole(found[next + i * features_each + j]))))
        return failure();
    for (LinalgOp sum : plan.softmax.sums)
      elements.take_back(sum->getResult(0));
    elements.take_back(top->getResult(0));
    return success();
  }

  LogicalResult finish(int64_t i, int64_t j, Value sum) {
    OpBuilder::InsertionGuard guard(b);
    Value feature = add(first_feature, add(x, index(j * side)));
    auto own = scf::IfOp::create(b, loc, both(below(row(i), rows), below(feature, features)), /*withElseRegion=*/false);
    b.setInsertionPointToStart(own.thenBlock());
    LinalgOp weighted = plan.match.weighted.product.op;
    Place at{row(i), {}, feature, {}};
    Value value = of_row(plan.weights.value, weighted, at, sum);
    if (!value)
      return failure();
    elements.give(weighted->getResult(0), value);
    Value returned = program.kernel().front().getTerminator()->getOperand(0);
    SmallVector<Value> place;
    for (int axis = 0; axis < int(cast<RankedTensorType>(returned.getType()).getRank()); ++axis)
      place.push_back(axis == plan.match.row_axis    ? at.row
                      : axis == plan.match.lane_axis ? feature
                                                     : others.lookup(axis));
    Value element = elements.element(returned, place);
    if (!element)
      return failure();
    elements.store(returned, place, element);
    return success();
  }

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const StagedKeys &plan;
  gpu::Elements &elements;
  const int64_t rows_each, keys_each, features_each;
  Value rows, keys_count, features, first_row, first_feature, first_key, end_key, x, y;
  llvm::DenseMap<Role, Value> others;
  SmallVector<Value> queries, staged; // by product, in shared memory
  Value weights, values;
  int ranges_of = 0;
};

} // namespace

LogicalResult write_staged_keys(gpu::Program &program, const ScheduleRow &row, const Target &target) {
  Result<StagedKeys> plan = staged_keys_plan(program.kernel(), row.params.at("per_thread"), *target.gpu);
  if (!plan)
    return program.kernel().emitError() << plan.error().message;
  SmallVector<AffineExpr> items;
  for (auto [axis, extent] : plan->others)
    items.push_back(extent);
  items.push_back(plan->rows.ceilDiv(plan->block_rows()));
  items.push_back(plan->features.ceilDiv(plan->block_features()));
  return program.launch(items, 1, threads,
                        [&](gpu::Program::Thread &thread) { return Code(program, thread, *plan).write(); });
}

} // namespace heddle::attention
