// Whether a formula of tensors is the number that proofs take it for. They know no overflow; the formula has 32 bits. A
// sum, difference or product that leaves these is off by a multiple of 2^32, as is what sums, differences and products
// make of it, so that what is proven to fit 32 bits in the end is right all the same. But a comparison, a minimum, a
// quotient or a remainder of it is another number. So their operands have to fit: by the ranges of what they are made
// of, or, where those are sizes that may be too large, because each call is checked for that.
#include "dsl/check/knowledge.h"
#include "dsl/check/whole_ranges.h"

#include <algorithm>

namespace heddle::checking {

namespace {

/// Where a part of a formula lies. What no sizes tell has no ends.
struct Values {
  Range range;
  struct Ends {
    Size least, most;
  };
  std::optional<Ends> ends = {};
  bool data = false; // something that is read takes part
};

Values one_of(const Range &range) {
  return {range, Values::Ends{Size(int64_t(range.least)), Size(int64_t(range.most))}};
}

/// The sum of the magnitudes of its numbers.
double weight(const Size &size) {
  double all = std::abs(double(size.constant()));
  for (const Size::Term &term : size.terms())
    all += std::abs(double(term.factor));
  return all;
}

class Wraps {
public:
  Wraps(const std::vector<Dim> &dims, const std::deque<Variable> &variables, const std::vector<LoopIndex> &loops,
        const std::map<const Tensor *, Prover::Bound> &below)
      : dims_(dims), variables_(variables), loops_(loops), below_(below) {}

  Values visit(const Expr *e) {
    if (auto known = known_.find(e); known != known_.end())
      return known->second;
    Values all = values(e);
    if (all.data)
      settle(all); // a library may add up the parts of a subscript in 64 bits
    return known_[e] = all;
  }

  bool may = false;
  std::set<Size> sizes; // that have to fit 32 bits

private:
  Size never_less(const Size &size) const { return at_least(size, dims_); }

  Values anything(const Range &range = of_i32) const { return {range, std::nullopt, true}; }

  /// Demands that it fits 32 bits.
  void settle(Values &all) {
    if (fits(all.range, of_i32))
      return;
    if (all.ends) {
      constexpr double most_weight = 0x1p31; // with sizes of 32 bits the sum has 64
      for (bool upper : {false, true}) {
        if (upper ? all.range.most <= of_i32.most : all.range.least >= of_i32.least)
          continue;
        Size most = never_less(upper ? all.ends->most : all.ends->least * -1);
        if (most.is_constant() || weight(most) > most_weight) {
          may = true;
          all = anything();
          return;
        }
        sizes.insert(most);
      }
      all.range = common(all.range, of_i32);
      return;
    }
    may = true;
    all = anything();
  }

  /// Of an operation that takes its operand for the number that it is.
  Values exact(const Expr *e) {
    Values all = visit(e);
    settle(all);
    return known_[e] = all;
  }

  static std::optional<Size> product(const Size &a, const Size &b) {
    return weight(a) * weight(b) <= 0x1p62 ? std::optional(a * b) : std::nullopt;
  }

  /// What no number between the ends is further away from 0 than.
  Size magnitude(const Values::Ends &ends) const { return never_less(ends.most) + never_less(ends.least * -1); }

  Values times(const Values &a, const Values &b) const {
    Values out{a.range * b.range};
    if (!a.ends || !b.ends)
      return out;
    bool positive = a.range.least >= 0 && b.range.least >= 0;
    auto constant = [](const Values &v) {
      return v.ends->least == v.ends->most && v.ends->least.is_constant() ? std::optional(v.ends->least.constant())
                                                                          : std::nullopt;
    };
    std::optional<Size> least, most;
    if (auto by = constant(a) ? constant(a) : constant(b)) {
      const Values &other = constant(a) ? b : a;
      least = product(*by < 0 ? other.ends->most : other.ends->least, Size(*by));
      most = product(*by < 0 ? other.ends->least : other.ends->most, Size(*by));
    } else if (positive) {
      least = Size(0);
      most = product(a.ends->most, b.ends->most);
      // Where an index has no value its end is -1, and the product of two such is no end of anything.
    } else if ((most = product(magnitude(*a.ends), magnitude(*b.ends)))) {
      least = *most * -1;
    }
    if (least && most)
      out.ends = Values::Ends{*least, *most};
    return out;
  }

  Values quotient(const Values &a, const Values &by) const {
    Values out{common(divide(a.range, by.range), of_i32)};
    bool constant = by.ends && by.ends->least == by.ends->most && by.ends->least.is_constant();
    if (a.ends && constant && by.ends->least.constant() > 0) {
      int64_t divisor = by.ends->least.constant();
      out.ends = Values::Ends{a.ends->least.floor_div(divisor), a.ends->most.floor_div(divisor)};
    } else if (a.ends) {
      Size most = magnitude(*a.ends) + Size(1);
      out.ends = Values::Ends{most * -1, most};
    }
    return out;
  }

  /// An end of the larger of two numbers, or of the smaller one: one of theirs where that is certain, else of both.
  Values extreme(const Values &a, const Values &b, bool larger_one) const {
    Values out{larger_one ? larger(a.range, b.range) : smaller(a.range, b.range)};
    if (!a.ends || !b.ends)
      return out;
    if (larger_one)
      out.ends = {a.range.least >= b.range.least ? a.ends->least : b.ends->least, upper(*a.ends, *b.ends)};
    else
      out.ends = {lower(*a.ends, *b.ends), a.range.most <= b.range.most ? a.ends->most : b.ends->most};
    return out;
  }

  Size upper(const Values::Ends &a, const Values::Ends &b) const {
    if (a.most == b.most)
      return a.most;
    if (a.most.is_constant() && b.most.is_constant())
      return Size(std::max(a.most.constant(), b.most.constant()));
    return never_less(a.most) + never_less(b.most);
  }

  Size lower(const Values::Ends &a, const Values::Ends &b) const {
    return upper({Size(), a.least * -1}, {Size(), b.least * -1}) * -1;
  }

  Values of_size(const Size &size) const { return {values_of(size, dims_), Values::Ends{size, size}}; }

  Values of_extent(const Size &extent) const {
    Values out{{0, std::max(values_of(extent, dims_).most - 1, 0.0)}};
    out.ends = {Size(0), extent.is_constant() ? Size(std::max<int64_t>(extent.constant() - 1, 0)) : extent - Size(1)};
    return out;
  }

  Values values(const Expr *e) {
    if (is_comparison(e->op)) {
      for (const Expr *arg : e->args)
        if (is_integer(arg->type))
          exact(arg);
      return one_of({0, 1});
    }
    Values out;
    switch (e->op) {
    case Expr::integer:
      return one_of({double(e->whole), double(e->whole)});
    case Expr::boolean:
      return one_of({0, 1});
    case Expr::size:
      return of_size(e->extent);
    case Expr::index:
      return of_extent(variables_[e->position].extent);
    case Expr::loop_index:
      return of_extent(loops_[e->position].extent);
    case Expr::read: {
      for (const Expr *arg : e->args)
        visit(arg); // what is read elsewhere may be something else
      if (!is_integer(e->type))
        return anything();
      auto below = below_.find(e->tensor);
      out = below != below_.end() ? of_extent(below->second.below) : e->type == Type::i8 ? one_of(of_i8) : anything();
      break;
    }
    case Expr::logical_and:
    case Expr::logical_or:
    case Expr::logical_not:
      for (const Expr *arg : e->args)
        visit(arg);
      return one_of({0, 1});
    case Expr::cast:
      if (e->args[0]->type == Type::boolean)
        return visit(e->args[0]), one_of({0, 1});
      if (e->args[0]->type == Type::i8 && e->type == Type::i32)
        return visit(e->args[0]);
      return anything(e->type == Type::i8 ? of_i8 : of_i32);
    case Expr::add:
    case Expr::sub:
    case Expr::mul: {
      if (!is_integer(e->type))
        return anything();
      Values a = visit(e->args[0]), b = visit(e->args[1]);
      if (e->op == Expr::mul)
        out = times(a, b);
      else
        out.range = e->op == Expr::add ? a.range + b.range : a.range - b.range;
      if (e->op != Expr::mul && a.ends && b.ends)
        out.ends = e->op == Expr::add ? Values::Ends{a.ends->least + b.ends->least, a.ends->most + b.ends->most}
                                      : Values::Ends{a.ends->least - b.ends->most, a.ends->most - b.ends->least};
      out.data = a.data || b.data;
      break;
    }
    case Expr::negate: {
      if (!is_integer(e->type))
        return anything();
      Values a = visit(e->args[0]);
      out = {Range{0, 0} - a.range, std::nullopt, a.data};
      if (a.ends)
        out.ends = Values::Ends{a.ends->most * -1, a.ends->least * -1};
      break;
    }
    case Expr::floor_div:
    case Expr::mod:
    case Expr::minimum:
    case Expr::maximum: {
      if (!is_integer(e->type))
        return anything();
      Values a = exact(e->args[0]), b = exact(e->args[1]);
      if (e->op == Expr::floor_div) {
        out = quotient(a, b);
      } else if (e->op == Expr::mod) {
        out.range = remainder(b.range);
        if (b.ends)
          out.ends = Values::Ends{never_less(b.ends->least * -1) * -1, never_less(b.ends->most)};
      } else {
        out = extreme(a, b, e->op == Expr::maximum);
      }
      out.data = a.data || b.data;
      break;
    }
    case Expr::select: {
      visit(e->args[0]);
      Values a = visit(e->args[1]), b = visit(e->args[2]);
      if (!is_integer(e->type))
        return anything();
      out.range = hull(a.range, b.range);
      if (a.ends && b.ends)
        out.ends = Values::Ends{lower(*a.ends, *b.ends), upper(*a.ends, *b.ends)};
      out.data = a.data || b.data;
      break;
    }
    default: // no proof knows what it is
      return anything(e->type == Type::i8 ? of_i8 : of_i32);
    }
    if (e->op == Expr::read)
      out.data = true;
    return out;
  }

  const std::vector<Dim> &dims_;
  const std::deque<Variable> &variables_;
  const std::vector<LoopIndex> &loops_;
  const std::map<const Tensor *, Prover::Bound> &below_;
  std::map<const Expr *, Values> known_;
};

} // namespace

std::optional<std::set<Size>> Knowledge::fits_with(const Expr *e) const {
  Wraps wraps(program_.dims, indices_.all(), indices_.loops(), below_);
  wraps.visit(e);
  return wraps.may ? std::nullopt : std::optional(std::move(wraps.sizes));
}

void Knowledge::rely_on(const Expr *e) {
  if (auto sizes = fits_with(e))
    fitting_.insert(sizes->begin(), sizes->end());
}

std::set<Size> Knowledge::products() const {
  std::set<Size> all = fitting_;
  for (const Size &size : prover_.products())
    all.insert(at_least(size, program_.dims));
  return all;
}

} // namespace heddle::checking
