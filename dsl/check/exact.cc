// Whole numbers that decide whether a call is allowed, and where it writes. A proof knows no overflow, and nor does the
// entry: what it computes of single numbers, and what its requirements say of elements, has 64 bits, of which a number
// that is kept may fill 32. Where that can't be proven it is required, so that a number that is too large is a refused
// call. Formulas of tensors have 32 bits; what they read is kept inside of its tensor (see may_wrap).
#include "dsl/check/exact.h"

#include "dsl/check/steps.h"
#include "dsl/check/whole_ranges.h"

#include <algorithm>

namespace heddle::checking {

namespace {

/// What doubles, with which the evaluator computes, hold exactly.
constexpr double most_exact = 0x1p53;

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
      return of_i8;
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
      return smaller(args[0], args[1]);
    case Expr::maximum:
      return larger(args[0], args[1]);
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
