// Whole numbers that decide whether a call is allowed, and where it writes. A proof knows no overflow, and nor does the
// entry: what it computes of single numbers, and what its requirements say of elements, has 64 bits, of which a number
// that is kept may fill 32. Where that can't be proven it is required, so that a number that is too large is a refused
// call. Formulas of tensors have 32 bits; what they read is kept inside of its tensor (see may_wrap).
#include "dsl/check/exact.h"

#include "dsl/check/steps.h"

#include <algorithm>
#include <cmath>

namespace heddle::checking {

namespace {

/// What doubles, with which the evaluator computes, hold exactly.
constexpr double most_exact = 0x1p53;

struct Range {
  double least, most;
};

Range operator+(const Range &a, const Range &b) { return {a.least + b.least, a.most + b.most}; }
Range operator-(const Range &a, const Range &b) { return {a.least - b.most, a.most - b.least}; }

Range operator*(const Range &a, const Range &b) {
  auto corners = {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most};
  return {std::min(corners), std::max(corners)};
}

constexpr Range of_i32 = {-0x1p31, 0x1p31 - 1};

Range hull(const Range &a, const Range &b) { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

/// Rounded down, by any number: none is further from 0 than the dividend, but for the rounding.
Range divide(const Range &a, const Range &by) {
  if (by.least >= 1)
    return {std::floor(std::min(a.least / by.least, a.least / by.most)),
            std::floor(std::max(a.most / by.least, a.most / by.most))};
  double most = std::max(std::fabs(a.least), std::fabs(a.most));
  return {-most - 1, most};
}

Range remainder(const Range &by) { return {std::min(by.least, 0.0), std::max(by.most, 0.0)}; }

Range values_of(const Size &size, const std::vector<Dim> &dims);

Range values_of(const Size::Atom &atom, const std::vector<Dim> &dims) {
  switch (atom.kind) {
  case Size::Atom::dim:
    return {0, double(dims[atom.dim_index].most.value_or(INT32_MAX))};
  case Size::Atom::floor_div:
    return divide(values_of(*atom.inner, dims), {double(atom.divisor), double(atom.divisor)});
  case Size::Atom::mod:
    return {0, double(atom.divisor - 1)};
  case Size::Atom::product:
    break;
  }
  Range all = {1, 1};
  for (const Size::Atom &factor : atom.factors)
    all = all * values_of(factor, dims);
  double most = double(Size::most_product);
  return {std::max(all.least, -most), std::min(all.most, most)};
}

Range values_of(const Size &size, const std::vector<Dim> &dims) {
  Range all = {double(size.constant()), double(size.constant())};
  for (const Size::Term &term : size.terms())
    all = all + Range{double(term.factor), double(term.factor)} * values_of(term.atom, dims);
  return all;
}

bool fits(const Range &range, const Range &into) { return range.least >= into.least && range.most <= into.most; }

} // namespace

void Steps::keep_exact(const Expr *e, const std::string &path, Span span) {
  std::map<const Expr *, Range> ranges;
  std::function<Range(const Expr *)> visit;
  auto compute = [&](const Expr *node) -> Range {
    std::vector<Range> args;
    for (const Expr *arg : node->args)
      args.push_back(visit(arg));
    if (node->type == Type::boolean)
      return {0, 1};
    if (node->type == Type::i8)
      return {-128, 127};
    if (exact_.count(node))
      return of_i32;
    switch (node->op) {
    case Expr::integer:
      return {double(node->whole), double(node->whole)};
    case Expr::size:
      return values_of(node->extent, program_.dims);
    case Expr::index:
    case Expr::loop_index:
      return {0, of_i32.most};
    case Expr::add:
      return args[0] + args[1];
    case Expr::sub:
      return args[0] - args[1];
    case Expr::mul:
      return args[0] * args[1];
    case Expr::negate:
      return Range{0, 0} - args[0];
    case Expr::floor_div:
      return divide(args[0], args[1]);
    case Expr::mod:
      return remainder(args[1]);
    case Expr::minimum:
      return {std::min(args[0].least, args[1].least), std::min(args[0].most, args[1].most)};
    case Expr::maximum:
      return {std::max(args[0].least, args[1].least), std::max(args[0].most, args[1].most)};
    case Expr::select:
      return hull(args[1], args[2]);
    default:
      return of_i32;
    }
  };
  visit = [&](const Expr *node) -> Range {
    if (auto known = ranges.find(node); known != ranges.end())
      return known->second;
    Range range = is_floating(node->type) ? Range{0, 0} : compute(node);
    if (!fits(range, {-most_exact, most_exact})) {
      require_32_bits(node, path, span);
      range = of_i32;
    }
    return ranges[node] = range;
  };
  Range all = visit(e);
  if (e->type == Type::i32 && !fits(all, of_i32))
    require_32_bits(e, path, span);
}

void Steps::require_32_bits(const Expr *e, const std::string &path, Span span) {
  if (exact_.count(e))
    return;
  std::vector<Fact> sizes;
  for (size_t dim = 0; dim < program_.dims.size(); ++dim)
    if (!program_.dims[dim].most)
      sizes.push_back({build_.apply(Expr::less_equal, Type::boolean,
                                    {build_.of_size(Size::of_dim(dim)), build_.integer(INT32_MAX)}, span),
                       true});
  sizes.insert(sizes.end(), knowledge_.facts().begin(), knowledge_.facts().end());
  const Expr *least = build_.integer(INT32_MIN), *most = build_.integer(INT32_MAX);
  auto proven = [&](const Expr *a, const Expr *b) { // a >= b; not folded, which would refuse what it asks for
    Expr difference{};
    difference.op = Expr::sub;
    difference.type = Type::i32;
    return knowledge_.prove_always(build_.with_args(&difference, {a, b}), sizes).kind == Prover::Outcome::proven;
  };
  if (proven(e, least) && proven(most, e))
    return;
  exact_.insert(e);
  const Expr *from = build_.apply(Expr::less_equal, Type::boolean, {least, e}, span);
  const Expr *to = build_.apply(Expr::less_equal, Type::boolean, {e, most}, span);
  Span place = e->span.valid() ? e->span : span;
  Knowledge::Mark mark = knowledge_.mark();
  need(build_.apply(Expr::logical_and, Type::boolean, {from, to}, span),
       "`" + messages_.text(place) + "` does not fit the 32 bits of a whole number", place, path);
  knowledge_.forget_since(mark); // true of every number that there is
  if (!knowledge_.facts().empty() || !indices_.loops().empty())
    exact_.erase(e); // it is tested under these conditions only
}

} // namespace heddle::checking

namespace heddle {

bool is_whole(const Expr &expr) {
  std::vector<const Expr *> nodes = nodes_of(&expr);
  return std::all_of(nodes.begin(), nodes.end(), [](const Expr *node) {
    bool whole = node->type == Type::i32 || node->type == Type::boolean;
    return whole && node->op != Expr::power && node->op != Expr::absolute;
  });
}

} // namespace heddle
