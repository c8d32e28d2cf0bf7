// The code of the variants `staged_keys` and `tensor_keys`. A block computes some features (most often all) of some
// rows of a head, and goes over the keys some at a time. Of these it brings keys and values to shared memory, computes
// scores in registers, each thread those of a few rows and keys, and adds weighted values up in registers (key_tile.h).
// Whatever is made of scores is computed from them in place: masks, distances, anything.
//
// A row's largest score is the largest so far, m. Where a block of keys has a larger one, M, sums so far are
// multiplied by exp(m - M) (Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867; Dao et al. 2022,
// https://arxiv.org/abs/2205.14135). What is the same for all keys of a row, such as 1 / total, comes at the end.
// Keys that no row of the block needs (those after the last row, of causal scores) are left out.
//
// Keys that slide along with the rows are a band: a block goes over the numbers (staged_keys.h) of all of its rows'
// windows, and each row leaves out those that are none of its own.
//
// Few rows make few blocks. Several blocks then share the keys of a row, a part each, and write what they have to
// scratch memory, from which a second launch adds up parts in their order, by the same rule.
//
// Rows and features past the last one repeat it and are never stored; keys past the last one that is needed repeat it
// and are left out of every sum.
#include "compiler/kernels/attention/staged_keys.h"

#include "compiler/gpu/program.h"
#include "compiler/kernels/attention/key_tile.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <array>
#include <limits>

namespace heddle::attention {

using namespace mlir;
using contraction::Factor;
using linalg::LinalgOp;

namespace {

constexpr double lowest = -std::numeric_limits<double>::infinity();

/// What a launch computes: everything, what some keys add, or what all of these make.
enum class Share { all, some_keys, sums_of_all };

class Code : gpu::Arithmetic {
public:
  /// `parts`: a tensor for what some keys add, where keys are shared.
  Code(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan, Value parts)
      : Arithmetic(thread.b, thread.loc), program(program), thread(thread), plan(plan), elements(thread.elements),
        parts(parts), rows_each(plan.rows_each), keys_each(plan.keys_each), features_each(plan.features_each) {
    for (Value value : program.kernel().front().getTerminator()->getOperands())
      elements.hide(value);
  }

  LogicalResult write(Share share) {
    find_place(share);
    Surroundings around{[this](LinalgOp op, const Place &at) { return loops(op, at); }, first_row, rows, first_feature,
                        features};
    tile = plan.warps > 0 ? tensor_core_keys(program, thread, plan, around)
                          : multiply_add_keys(program, thread, plan, around);
    if (share == Share::sums_of_all)
      return sum_parts();
    if (failed(find_range()))
      return failure();
    if (share == Share::some_keys)
      find_part();
    if (failed(tile->begin(first_key, end_key, ranges_of_products)))
      return failure();
    auto over_keys = scf::ForOp::create(b, loc, first_key, end_key, index(plan.block_keys()), nothing_yet());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_keys.getBody());
      if (failed(block_of_keys(over_keys.getInductionVar(), over_keys.getRegionIterArgs())))
        return failure();
    }
    if (share == Share::all)
      return finish(over_keys.getResults());
    store_part(over_keys.getResults());
    return success();
  }

private:
  /// Of each row its largest score, then its sums, then, of each feature, its weighted values.
  SmallVector<Value> nothing_yet() {
    SmallVector<Value> out(rows_each, real(lowest));
    out.append(plan.numbers_of_thread() - rows_each, real(0));
    return out;
  }

  // --- parts of the keys

  void find_part() {
    int64_t each = plan.block_keys();
    Value chunk = mul(times(sub(end_key, first_key), each * plan.splits), index(each));
    first_key = least(add(first_key, mul(part, chunk)), end_key);
    end_key = least(add(first_key, chunk), end_key);
  }
  SmallVector<Value> place_of_part(Value part, int64_t number) {
    SmallVector<Value> out(block_place);
    out.append({part, index(number), thread.number});
    return out;
  }
  /// The row, of a thread's, that its number of that place belongs to.
  int64_t row_of_number(int64_t number) const {
    int64_t of_sums = number - rows_each, of_features = of_sums - (int64_t(plan.softmax.sums.size()) - 1) * rows_each;
    return number < rows_each ? number : of_features < 0 ? of_sums % rows_each : of_features / features_each;
  }
  Value is_row(int64_t i) { return below(row(i), rows); }
  void store_part(ValueRange found) {
    for (int64_t i = 0; i < rows_each; ++i) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(scf::IfOp::create(b, loc, is_row(i), /*withElseRegion=*/false).thenBlock());
      for (auto [number, value] : llvm::enumerate(found))
        if (row_of_number(int64_t(number)) == i)
          elements.store(parts, place_of_part(part, int64_t(number)), value);
    }
  }
  /// What the thread had of a part of the keys; of rows that there aren't it is as before all keys.
  SmallVector<Value> load_part(Value part) {
    SmallVector<Value> out = nothing_yet();
    for (int64_t i = 0; i < rows_each; ++i) {
      SmallVector<Value> own, none;
      SmallVector<int64_t> numbers;
      for (int64_t number = 0; number < int64_t(out.size()); ++number)
        if (row_of_number(number) == i)
          numbers.push_back(number), none.push_back(out[number]);
      auto exists =
          scf::IfOp::create(b, loc, SmallVector<Type>(numbers.size(), b.getF32Type()), is_row(i), /*withElse=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(exists.thenBlock());
      for (int64_t number : numbers)
        own.push_back(elements.element(parts, place_of_part(part, number)));
      scf::YieldOp::create(b, loc, own);
      b.setInsertionPointToStart(exists.elseBlock());
      scf::YieldOp::create(b, loc, none);
      for (auto [number, value] : llvm::zip_equal(numbers, exists.getResults()))
        out[number] = value;
    }
    return out;
  }
  /// Each thread adds up what it had of each part.
  LogicalResult sum_parts() {
    auto over_parts = scf::ForOp::create(b, loc, index(0), index(plan.splits), index(1), nothing_yet());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(over_parts.getBody());
      ValueRange so_far = over_parts.getRegionIterArgs();
      SmallVector<Value> more = load_part(over_parts.getInductionVar()), next;
      SmallVector<std::array<Value, 2>> scales;
      for (int64_t i = 0; i < rows_each; ++i) {
        Place at{inside(row(i), rows), {}, {}, {}};
        next.push_back(larger(so_far[i], more[i]));
        Value after = subtracted_of(next[i], at), before_old = subtracted_of(so_far[i], at),
              before_own = subtracted_of(more[i], at);
        if (!after || !before_old || !before_own)
          return failure();
        scales.push_back({choose(is_lowest(so_far[i]), real(0), exp_of_difference(before_old, after)),
                          choose(is_lowest(more[i]), real(0), exp_of_difference(before_own, after))});
      }
      for (int64_t number = rows_each; number < int64_t(so_far.size()); ++number) {
        auto [old, own] = scales[row_of_number(number)];
        next.push_back(real_sum(real_product(so_far[number], old), real_product(more[number], own)));
      }
      scf::YieldOp::create(b, loc, next);
    }
    return finish(over_parts.getResults());
  }

  Value real_sum(Value p, Value q) { return arith::AddFOp::create(b, loc, p, q); }
  Value real_product(Value p, Value q) { return arith::MulFOp::create(b, loc, p, q); }
  Value exp_of_difference(Value p, Value q) { return math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, p, q)); }
  Value is_lowest(Value p) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, p, real(lowest)); }

  // --- places

  void find_place(Share share) {
    rows = size(plan.rows), keys_count = size(plan.keys), features = size(plan.features);
    SmallVector<Value> extents;
    if (share == Share::some_keys)
      extents.push_back(index(plan.splits));
    for (auto [axis, extent] : plan.others)
      extents.push_back(size(extent));
    extents.push_back(times(rows, plan.block_rows()));
    extents.push_back(times(features, plan.block_features()));
    SmallVector<Value> at = gpu::digits(thread, thread.block, extents);
    if (share == Share::some_keys) {
      part = at.front();
      at.erase(at.begin());
    }
    block_place = at;
    for (auto [other, value] : llvm::zip(plan.others, at))
      others[other.first] = value;
    first_row = mul(at[at.size() - 2], index(plan.block_rows()));
    first_feature = mul(at.back(), index(plan.block_features()));
  }

  Value size(AffineExpr formula) { return elements.size(formula, program.kernel()); }
  Value row(int64_t i) { return add(first_row, tile->row(i)); }
  Value inside(Value place, Value count) { return least(place, sub(count, index(1))); }

  /// The loops of an op at a place.
  SmallVector<Value> loops(LinalgOp op, Place at) {
    if (plan.match.slide && at.key && !at.row) { // what depends on the number alone: of any row that has it
      Value behind = sub(at.key, first_row), step = index(plan.match.slide->key);
      at.row = add(first_row, rem(behind, step)), at.key = div(behind, step);
    }
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

  // --- keys

  /// From the first key that some row of the block needs to the one after the last.
  LogicalResult find_range() {
    Value last_row = sub(least(add(first_row, index(plan.block_rows())), rows), index(1));
    auto ranges = key_ranges(program, thread, plan, first_row, last_row);
    if (failed(ranges))
      return failure();
    auto [first, end] = ranges->needed;
    if (plan.match.slide) {
      Value step = index(plan.match.slide->key),
            none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, end, first);
      first = add(first_row, mul(first, step));
      end = add(last_row, add(mul(sub(end, index(1)), step), index(1)));
      end = choose(none, first, end);
    } else {
      ranges_of_products = ranges->of_products;
    }
    first_key = first, end_key = greatest(end, first);
    return success();
  }

  LogicalResult block_of_keys(Value first, ValueRange so_far) {
    auto sums = tile->scores(first);
    if (failed(sums))
      return failure();
    // Scores as the kernel makes them of these sums.
    SmallVector<Value> score(rows_each * keys_each), is_key(rows_each * keys_each);
    SmallVector<Place> at(rows_each * keys_each);
    auto score_op = plan.score.getDefiningOp<LinalgOp>();
    for (int64_t j = 0; j < keys_each; ++j) {
      Value number = add(first, tile->key(j)), exists = below(number, end_key);
      for (int64_t i = 0; i < rows_each; ++i) {
        int64_t n = i * keys_each + j;
        at[n] = {inside(row(i), rows), inside(number, end_key), {}, {}};
        is_key[n] = exists;
        if (plan.match.slide) {
          Value behind = sub(number, at[n].row), step = index(plan.match.slide->key), key = div(behind, step);
          Value is_own = both(below(behind, mul(keys_count, step)), // a number before the row is a large one
                              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rem(behind, step), index(0)));
          is_key[n] = both(exists, is_own);
          at[n].key = choose(is_own, key, index(0));
        }
        give_products(*sums, n);
        score[n] = result_at(score_op, at[n]);
        if (!score[n])
          return failure();
      }
    }
    SmallVector<Value> next, subtracted, scale;
    for (int64_t i = 0; i < rows_each; ++i) {
      Value top = so_far[i], block;
      for (int64_t j = 0; j < keys_each; ++j) {
        Value own = choose(is_key[i * keys_each + j], score[i * keys_each + j], real(lowest));
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
          give_products(*sums, n);
          Value term = of_key(term_of(sum), sum, at[n], score[n], subtracted[i]);
          if (!term)
            return failure();
          own = real_sum(own, choose(is_key[n], term, real(0)));
        }
        next.push_back(own);
      }
    SmallVector<Value> weights;
    for (int64_t i = 0; i < rows_each; ++i)
      for (int64_t j = 0; j < keys_each; ++j) {
        int64_t n = i * keys_each + j;
        give_products(*sums, n);
        Value weight =
            of_key(plan.weights.value, plan.match.weighted.front().product.op, at[n], score[n], subtracted[i]);
        if (!weight)
          return failure();
        weights.push_back(choose(is_key[n], weight, real(0)));
      }
    take_back_products();
    SmallVector<Value> weighted;
    for (int64_t i = 0; i < rows_each; ++i)
      for (int64_t j = 0; j < features_each; ++j)
        weighted.push_back(real_product(so_far[next.size() + weighted.size()], scale[i]));
    auto added = tile->weighted(first, weights, weighted);
    if (failed(added))
      return failure();
    next.append(*added);
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
    for (int32_t bits : tile->across())
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

  LogicalResult finish(ValueRange found) {
    SmallVector<Value> sums;
    bool apart = !reads_statistics();
    for (int64_t i = 0; i < rows_each; ++i)
      if (failed(finish_row(i, found, apart, sums)))
        return failure();
    for (auto [number, sum] : llvm::enumerate(tile->exchanged(sums))) {
      auto [own_row, own_feature] = tile->exchanged_place(int64_t(number));
      if (failed(store(add(first_row, own_row), add(first_feature, own_feature), sum)))
        return failure();
    }
    return success();
  }

  /// Whether what the kernel returns is made of more than the weighted values and its arguments: such as sums of rows.
  bool reads_statistics() {
    SmallVector<Value> open{program.kernel().front().getTerminator()->getOperand(0)};
    while (!open.empty()) {
      auto op = open.pop_back_val().getDefiningOp<LinalgOp>();
      if (!op || op == plan.match.weighted.front().product.op || isa<linalg::FillOp>(op.getOperation()))
        continue;
      if (op.getNumReductionLoops() > 0)
        return true;
      llvm::append_range(open, op->getOperands());
    }
    return false;
  }

  /// A row's weighted values: added to `sums`, or stored, where they need what is known of the row.
  LogicalResult finish_row(int64_t i, ValueRange found, bool apart, SmallVector<Value> &sums) {
    Place at{inside(row(i), rows), {}, {}, {}};
    LinalgOp top = plan.softmax.top, weighted = plan.match.weighted.front().product.op;
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
    for (int64_t j = 0; j < features_each; ++j) {
      Value feature = add(first_feature, tile->feature(j));
      at.feature = inside(feature, features);
      Value value = of_row(plan.weights.value, weighted, at, whole(found[next + i * features_each + j]));
      if (!value)
        return failure();
      if (apart)
        sums.push_back(value);
      else if (failed(store(row(i), feature, value)))
        return failure();
    }
    for (LinalgOp sum : plan.softmax.sums)
      elements.take_back(sum->getResult(0));
    elements.take_back(top->getResult(0));
    return success();
  }

  /// What the kernel returns of an element of the weighted values.
  LogicalResult store(Value row, Value feature, Value sum) {
    OpBuilder::InsertionGuard guard(b);
    auto own = scf::IfOp::create(b, loc, both(below(row, rows), below(feature, features)), /*withElseRegion=*/false);
    b.setInsertionPointToStart(own.thenBlock());
    LinalgOp weighted = plan.match.weighted.front().product.op;
    elements.give(weighted->getResult(0), sum);
    Value returned = program.kernel().front().getTerminator()->getOperand(0);
    SmallVector<Value> place;
    for (int axis = 0; axis < int(cast<RankedTensorType>(returned.getType()).getRank()); ++axis)
      place.push_back(axis == plan.match.row_axis ? row : axis == plan.match.lane_axis ? feature : others.lookup(axis));
    Value element = elements.element(returned, place);
    if (!element)
      return failure();
    elements.store(returned, place, element);
    elements.take_back(weighted->getResult(0));
    return success();
  }

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const StagedKeys &plan;
  gpu::Elements &elements;
  const Value parts;
  const int64_t rows_each, keys_each, features_each;
  std::unique_ptr<KeyTile> tile;
  Value rows, keys_count, features, first_row, first_feature, first_key, end_key;
  Value part;                     // number of this block's keys
  SmallVector<Value> block_place; // among blocks of rows and features
  llvm::DenseMap<Role, Value> others;
  SmallVector<KeyRange> ranges_of_products; // in which each is read; none: everywhere
};

} // namespace

/// A tensor in scratch memory for what each thread of each part of the keys has.
static Value room_for_parts(gpu::Program &program, const StagedKeys &plan) {
  func::FuncOp kernel = program.kernel();
  OpBuilder b(kernel.front().getTerminator());
  Location loc = kernel.getLoc();
  SmallVector<AffineExpr> extents = llvm::map_to_vector(plan.others, [](auto &other) { return other.second; });
  extents.append({plan.rows.ceilDiv(plan.block_rows()), plan.features.ceilDiv(plan.block_features())});
  for (int64_t extent : {plan.splits, plan.numbers_of_thread(), plan.threads()})
    extents.push_back(b.getAffineConstantExpr(extent));
  SmallVector<Value> sizes, dynamic;
  llvm::copy_if(kernel.getArguments(), std::back_inserter(sizes), [](Value v) { return v.getType().isIndex(); });
  SmallVector<int64_t> shape(extents.size(), ShapedType::kDynamic);
  for (AffineExpr extent : extents)
    dynamic.push_back(affine::AffineApplyOp::create(b, loc, AffineMap::get(sizes.size(), 0, extent), sizes));
  return tensor::EmptyOp::create(b, loc, shape, b.getF32Type(), dynamic);
}

LogicalResult write_staged_keys(gpu::Program &program, const StagedKeys &plan) {
  SmallVector<gpu::Dealt> items;
  for (auto [axis, extent] : plan.others)
    items.push_back({{extent}});
  items.push_back({{plan.rows}, plan.block_rows()});
  items.push_back({{plan.features}, plan.block_features()});
  auto launch = [&](Share share, ArrayRef<gpu::Dealt> items, Value parts) {
    return program.launch(items, plan.threads(), [&](gpu::Program::Thread &thread) {
      return Code(program, thread, plan, parts).write(share);
    });
  };
  if (plan.splits == 1)
    return launch(Share::all, items, {});
  Value parts = room_for_parts(program, plan);
  if (failed(program.keep(parts)))
    return failure();
  SmallVector<gpu::Dealt> shared{{{getAffineConstantExpr(plan.splits, parts.getContext())}}};
  shared.append(items);
  return success(succeeded(launch(Share::some_keys, shared, parts)) &&
                 succeeded(launch(Share::sums_of_all, items, parts)));
}

} // namespace heddle::attention
