// Every sum over the keys, and the largest score, has a range of its own; the block needs what any of them does.
#include "compiler/kernels/attention/key_ranges.h"

#include "compiler/gpu/arithmetic.h"
#include "compiler/halide/ranges.h"
#include "compiler/kernels/whole_numbers.h"

namespace heddle::attention {

using namespace mlir;
using Halide::Internal::Interval;
using linalg::LinalgOp;

namespace {

class Ranges : gpu::Arithmetic {
public:
  Ranges(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan, Value first_row, Value last_row)
      : Arithmetic(thread.b, thread.loc), kernel(program.kernel()), elements(thread.elements), plan(plan),
        variables{{"first_row", first_row}, {"last_row", last_row}} {
    for (BlockArgument argument : kernel.getArguments()) {
      arguments.push_back({});
      if (!argument.getType().isIndex() && !argument.getType().isInteger(32))
        continue;
      std::string name = "argument" + std::to_string(argument.getArgNumber());
      arguments.back() = variable(name);
      Value value = elements.scalar(argument);
      variables[name] =
          argument.getType().isIndex() ? value : arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
    }
  }

  FailureOr<KeyRanges> find() {
    SmallVector<LinalgOp> over_keys(plan.softmax.sums);
    over_keys.push_back(plan.softmax.top);
    SmallVector<std::pair<LinalgOp, std::vector<Interval>>> loops;
    std::vector<Interval> needed;
    for (LinalgOp op : over_keys) {
      loops.emplace_back(op, ranges_of_loops(op));
      if (loops.back().second.empty())
        return failure();
      needed.push_back(needed_range(kernel, op, loop_of_keys(op), loops.back().second, arguments));
    }
    KeyRanges out;
    Value count = elements.size(plan.keys, kernel);
    KeyRange all = code(needed, {});
    out.needed = {all.first ? greatest(all.first, index(0)) : index(0), all.end ? least(all.end, count) : count};
    for (const StagedKeys::Scores &scores : plan.products) {
      LinalgOp product = scores.op;
      std::vector<Interval> read;
      for (auto &[op, ranges] : loops)
        read.push_back(reading_range(kernel, op, loop_of_keys(op), ranges, arguments, product->getResult(0)));
      out.of_products.push_back(code(read, needed));
    }
    return out;
  }

private:
  static Halide::Expr variable(const std::string &name) {
    return Halide::Internal::Variable::make(Halide::Int(32), name);
  }
  unsigned loop_of_keys(LinalgOp op) const {
    const std::vector<Role> &roles = plan.match.roles.find(op)->second;
    return unsigned(llvm::find(roles, keys) - roles.begin());
  }
  std::vector<Interval> ranges_of_loops(LinalgOp op) {
    const std::vector<Role> &roles = plan.match.roles.find(op)->second;
    std::vector<Interval> out;
    SmallVector<Value> extents = elements.loop_extents(op);
    if (extents.size() != roles.size())
      return out;
    for (auto [loop, role] : llvm::enumerate(roles)) {
      std::string name = "extent" + std::to_string(loop) + "of" + std::to_string(ops);
      variables[name] = extents[loop];
      out.emplace_back(Halide::Expr(0), variable(name) - 1);
      if (role == plan.match.row_axis)
        out.back() = {variable("first_row"), variable("last_row")};
    }
    ++ops;
    return out;
  }

  /// The keys that lie in any of these ranges, of one op each; no bound that each has from `known`.
  KeyRange code(ArrayRef<Interval> ranges, ArrayRef<Interval> known) {
    auto bound = [&](Halide::Expr Interval::*side, auto combine) {
      bool is_known = !known.empty();
      Value out;
      for (auto [number, range] : llvm::enumerate(ranges)) {
        is_known = is_known && Halide::Internal::equal(range.*side, known[number].*side);
        bool has = side == &Interval::min ? range.has_lower_bound() : range.has_upper_bound();
        Value own = has ? whole_number(b, loc, range.*side, variables) : Value();
        if (!own)
          return Value();
        out = out ? combine(out, own) : own;
      }
      return is_known ? Value() : out;
    };
    Value first = bound(&Interval::min, [&](Value p, Value q) { return least(p, q); });
    Value last = bound(&Interval::max, [&](Value p, Value q) { return greatest(p, q); });
    return {first, last ? add(last, index(1)) : Value()};
  }

  func::FuncOp kernel;
  gpu::Elements &elements;
  const StagedKeys &plan;
  std::map<std::string, Value> variables;
  std::vector<Halide::Expr> arguments;
  int ops = 0;
};

} // namespace

FailureOr<KeyRanges> key_ranges(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                Value first_row, Value last_row) {
  return Ranges(program, thread, plan, first_row, last_row).find();
}

} // namespace heddle::attention
