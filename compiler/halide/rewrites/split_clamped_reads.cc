// A place that is made of a ramp with stride 1 or -1, bounds, and what is the same for all lanes never goes back, and
// takes steps of 1 at most: so its first and its last lane say where all others are. It is the ramp held back by one
// lower and one upper bound, whatever these are made of: a lane is where the ramp is without them, or where the first
// or the last lane is.
#include "compiler/halide/rewrites/rewrites.h"

#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

/// Of a place that is looked at: the bounds of a window and a position take ten, and names that hold others twice each
/// would take 2^n.
constexpr int most_parts = 256;

class Split : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Let *op) override {
    return with<Expr>(op->name, op->value, [&] { return IRMutator::visit(op); });
  }
  Stmt visit(const LetStmt *op) override {
    return with<Stmt>(op->name, op->value, [&] { return IRMutator::visit(op); });
  }
  template <class Node> Node with(const std::string &name, const Expr &value, const std::function<Node()> &visit) {
    if (!value.type().is_vector())
      return visit();
    Expr outside = std::exchange(lets_[name], value);
    Node result = visit();
    lets_[name] = outside;
    return result;
  }

  Expr visit(const Load *op) override {
    Expr read = IRMutator::visit(op);
    op = read.as<Load>();
    int parts = most_parts;
    if (!op->type.is_vector() || op->index.as<Ramp>() || op->index.as<Broadcast>() || !is_const_one(op->predicate) ||
        !has_few_parts(op->index, parts))
      return read;
    int step = step_of(op->index).value_or(0), lanes = op->type.lanes();
    if (step == 0)
      return read;
    std::string low = unique_name("low"), high = unique_name("high");
    Expr first = Variable::make(Halide::Int(32), low), last = Variable::make(Halide::Int(32), high);
    auto load = [&](const Expr &index, const Expr &predicate) {
      return Load::make(op->type.with_lanes(index.type().lanes()), op->name, index, op->image, op->param, predicate,
                        ModulusRemainder());
    };
    auto same = [&](const Expr &place) { return Broadcast::make(load(place, const_true()), lanes); };
    auto turned = [&](const Expr &row) { return step > 0 ? row : Shuffle::make_slice(row, lanes - 1, -1, lanes); };
    auto row = [&](const Expr &from, const Expr &predicate) {
      return turned(load(Ramp::make(from, 1, lanes), turned(predicate)));
    };
    auto either = [&](const Expr &condition, const Expr &yes, const Expr &no) {
      return Call::make(op->type, Call::if_then_else, {condition, yes, no}, Call::PureIntrinsic);
    };
    Expr free = without_bounds(op->index), mixed = read;
    Expr begin = free.defined() ? simplify(lane(free, step > 0 ? 0 : lanes - 1)) : Expr();
    // Known to be negative, it would end in an internal error ("base >= 0").
    if (begin.defined() && !Halide::Internal::is_negative_const(begin)) {
      Expr is_free = op->index == free;
      Expr held = select(op->index == Broadcast::make(first, lanes), same(first), same(last));
      mixed = select(is_free, row(begin, is_free), held);
    }
    Expr value =
        either(first == last, same(first), either(last - first == lanes - 1, row(first, const_true(lanes)), mixed));
    value = Let::make(high, simplify(lane(op->index, step > 0 ? lanes - 1 : 0)), value);
    return Let::make(low, simplify(lane(op->index, step > 0 ? 0 : lanes - 1)), value);
  }

  /// Whether a place has no more than `left` parts with all names written out, which is how they are looked at below.
  bool has_few_parts(const Expr &place, int &left) const {
    if (--left < 0)
      return false;
    auto both = [&](const auto *op) { return has_few_parts(op->a, left) && has_few_parts(op->b, left); };
    if (auto variable = place.as<Variable>()) {
      auto value = lets_.find(variable->name);
      return value == lets_.end() || !value->second.defined() || has_few_parts(value->second, left);
    }
    if (auto add = place.as<Add>())
      return both(add);
    if (auto sub = place.as<Sub>())
      return both(sub);
    if (auto least = place.as<Min>())
      return both(least);
    if (auto most = place.as<Max>())
      return both(most);
    return true;
  }

  /// What a lane of a place is more than the one before it, unless it is the same: 1 or -1, or 0 where all are the
  /// same; nothing where that isn't known.
  std::optional<int> step_of(const Expr &place) const {
    if (place.type() != Halide::Int(32, place.type().lanes()))
      return std::nullopt;
    if (place.as<Broadcast>())
      return place.as<Broadcast>()->value.type().is_scalar() ? std::optional(0) : std::nullopt;
    if (auto ramp = place.as<Ramp>()) {
      std::optional<int64_t> stride = as_const_int(ramp->stride);
      bool one = stride && (*stride == 1 || *stride == -1) && ramp->base.type().is_scalar();
      return one ? std::optional(int(*stride)) : std::nullopt;
    }
    if (auto variable = place.as<Variable>()) {
      auto value = lets_.find(variable->name);
      return value == lets_.end() || !value->second.defined() ? std::nullopt : step_of(value->second);
    }
    auto both = [&](const Expr &a, const Expr &b, int sign, bool bound) -> std::optional<int> {
      std::optional<int> left = step_of(a), right = step_of(b);
      if (!left || !right || (*left && *right && !(bound && *left == *right)))
        return std::nullopt;
      return *left ? *left : sign * *right;
    };
    if (auto add = place.as<Add>())
      return both(add->a, add->b, 1, false);
    if (auto sub = place.as<Sub>())
      return both(sub->a, sub->b, -1, false);
    if (auto least = place.as<Min>())
      return both(least->a, least->b, 1, true);
    if (auto most = place.as<Max>())
      return both(most->a, most->b, 1, true);
    return std::nullopt;
  }

  /// A place whose step is known, without the bounds that hold it back; nothing where one of them moves, too.
  Expr without_bounds(const Expr &place) const {
    if (auto variable = place.as<Variable>())
      return without_bounds(lets_.at(variable->name));
    auto sum = [](const Expr &a, const Expr &b, int sign) {
      return !a.defined() || !b.defined() ? Expr() : sign > 0 ? a + b : a - b;
    };
    auto moving = [&](const Expr &a, const Expr &b) {
      return *step_of(a) == 0 ? without_bounds(b) : *step_of(b) == 0 ? without_bounds(a) : Expr();
    };
    if (auto add = place.as<Add>())
      return sum(without_bounds(add->a), without_bounds(add->b), 1);
    if (auto sub = place.as<Sub>())
      return sum(without_bounds(sub->a), without_bounds(sub->b), -1);
    if (auto least = place.as<Min>())
      return moving(least->a, least->b);
    if (auto most = place.as<Max>())
      return moving(most->a, most->b);
    return place;
  }

  /// One lane of a place whose step is known.
  Expr lane(const Expr &place, int number) const {
    if (auto broadcast = place.as<Broadcast>())
      return broadcast->value;
    if (auto ramp = place.as<Ramp>())
      return ramp->base + ramp->stride * number;
    if (auto variable = place.as<Variable>())
      return lane(lets_.at(variable->name), number);
    if (auto add = place.as<Add>())
      return lane(add->a, number) + lane(add->b, number);
    if (auto sub = place.as<Sub>())
      return lane(sub->a, number) - lane(sub->b, number);
    if (auto least = place.as<Min>())
      return min(lane(least->a, number), lane(least->b, number));
    auto most = place.as<Max>();
    return max(lane(most->a, number), lane(most->b, number));
  }

  std::map<std::string, Expr> lets_; // vectors that names stand for, while they do
};

} // namespace

std::shared_ptr<IRMutator> split_clamped_reads() { return std::make_shared<Split>(); }

} // namespace heddle
