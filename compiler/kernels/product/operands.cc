// Copies are Funcs; where in a loop nest they are computed is their users' matter.
#include "compiler/kernels/product/operands.h"

#include "compiler/kernels/inlining.h"

#include "compiler/layout/layout.h"

#include <algorithm>

namespace heddle {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
namespace hi = Halide::Internal;

const hi::Call *read_of(const Expr &factor) {
  const Expr *read = &factor;
  while (const hi::Cast *cast = read->as<hi::Cast>())
    read = &cast->value;
  return read->as<hi::Call>();
}

KernelInput *input_read_by(LoweredKernel &kernel, const Expr &factor) {
  const hi::Call *call = read_of(factor);
  for (KernelInput &input : kernel.inputs)
    if (call && call->name == Func(input.param).name())
      return &input;
  return nullptr;
}

namespace {

class FindReadsAlong : public hi::IRVisitor {
public:
  explicit FindReadsAlong(const Var &term) : term_(term) {}
  int along = 0, across = 0;

private:
  using IRVisitor::visit;
  void visit(const hi::Call *op) override {
    IRVisitor::visit(op);
    if (op->call_type != hi::Call::Halide && op->call_type != hi::Call::Image)
      return;
    for (size_t i = 0; i < op->args.size(); ++i)
      if (hi::expr_uses_var(op->args[i], term_.name()))
        ++(i == 0 && hi::equal(op->args[0], Expr(term_)) ? along : across);
  }
  const Var &term_;
};

} // namespace

bool all_reads_lie_by(const Expr &factor, const Var &term) {
  FindReadsAlong find(term);
  factor.accept(&find);
  return find.along > 0 && find.across == 0;
}

int64_t row_length(const KernelInput &input) {
  auto type = llvm::cast<mlir::RankedTensorType>(input.value.getType());
  bool known = !input.layout && type.getRank() > 0 && !type.isDynamicDim(unsigned(type.getRank()) - 1);
  return known ? type.getShape().back() : 0;
}

int64_t panel_width(const MicroKernel &micro_kernel, const KernelInput &input) {
  std::optional<layout::Panels> panels = layout::panels_of(input.layout);
  return panels && panels->group == micro_kernel.group ? panels->width : 0;
}

bool is_widened(const Expr &factor) {
  const hi::Call *call = read_of(factor);
  return call && call->type.bits() < factor.type().bits();
}

Expr operand_of(const MicroKernel &micro_kernel, const Expr &factor) {
  const hi::Cast *cast = micro_kernel.takes_any_type() ? nullptr : factor.as<hi::Cast>();
  return cast && cast->value.type().bits() < factor.type().bits() ? cast->value : factor;
}

Expr filled(int group, const Expr &factor, const Var &innermost, const Expr &terms) {
  if (hi::is_const_zero(hi::simplify(terms % group)))
    return factor;
  Expr place = replaced(innermost.name(), min(innermost, terms - 1), factor);
  return select(Halide::likely(innermost < terms), place, hi::make_zero(factor.type()));
}

Expr without_condition(const Expr &factor, Expr &condition) {
  if (const hi::Cast *cast = factor.as<hi::Cast>())
    return Halide::cast(cast->type, without_condition(cast->value, condition));
  const hi::Select *choice = factor.as<hi::Select>();
  if (!choice || !hi::is_const_zero(choice->false_value))
    return factor;
  condition = choice->condition;
  return choice->true_value;
}

Expr in_panels(const Expr &factor, const Var &column, int width, const Expr &columns) {
  Expr place = panel_of_columns() * width + lane_of_panel();
  if (!columns.defined())
    return replaced(column.name(), place, factor);
  Expr value = replaced(column.name(), min(Halide::likely(place), columns - 1), factor);
  return select(Halide::likely(place < columns), value, hi::make_zero(value.type()));
}

Expr at_column(const Expr &value, const Var &column, int width) {
  return replaced({{lane_of_panel().name(), column % width}, {panel_of_columns().name(), column / width}}, value);
}

std::vector<Var> used_by(const Expr &expr, const std::vector<Var> &candidates) {
  std::vector<Var> used;
  for (const Var &var : candidates)
    if (hi::expr_uses_var(expr, var.name()))
      used.push_back(var);
  return used;
}

Copy copy_in_groups(const MicroKernel &micro_kernel, const std::string &name, const Expr &factor,
                    const std::vector<Var> &dims, const Var &innermost, const Expr &terms) {
  std::vector<Var> parameters = dims;
  std::vector<Expr> at(dims.begin(), dims.end());
  Expr value = filled(micro_kernel.group, factor, innermost, terms);
  auto grouped = std::find_if(dims.begin(), dims.end(), [&](const Var &dim) { return dim.same_as(innermost); });
  if (int group = micro_kernel.group; group > 1 && grouped != dims.end()) {
    Var member = member_of_group();
    value = replaced(innermost.name(), Expr(innermost) * group + member, value);
    at[grouped - dims.begin()] = Expr(innermost) / group;
    at.insert(at.begin(), Expr(innermost) % group);
    parameters.insert(parameters.begin(), member);
  }
  Func func(name);
  func(parameters) = value;
  return {func, func(at), {}};
}

Transposed transpose(const MicroKernel &micro_kernel, const std::string &natural, const std::string &name,
                     const Expr &factor, const std::vector<Var> &loops, const Var &lane, const std::vector<Var> &others,
                     const Var &innermost) {
  std::vector<Var> as_they_lie = loops, dims = {lane};
  as_they_lie.push_back(lane);
  as_they_lie.insert(as_they_lie.end(), others.begin(), others.end());
  dims.insert(dims.end(), loops.begin(), loops.end());
  dims.insert(dims.end(), others.begin(), others.end());
  std::vector<Expr> at_natural(as_they_lie.begin(), as_they_lie.end()), at(dims.begin(), dims.end());
  Transposed made{Func(natural), Func(name), {}};
  int group = micro_kernel.group;
  if (group == 1 || loops.empty() || !loops[0].same_as(innermost)) {
    made.natural(as_they_lie) = factor;
    made.func(dims) = made.natural(at_natural);
  } else {
    // A group is one number: 16 lanes of pairs are transposed like 16 lanes of floats.
    Var term = loops[0], member = member_of_group();
    int bits = factor.type().bits();
    Halide::Type word = Halide::UInt(bits * group);
    Expr packed = hi::make_zero(word);
    for (int i = 0; i < group; ++i)
      packed = packed | (Halide::cast(word, Halide::reinterpret(Halide::UInt(bits),
                                                                replaced(term.name(), Expr(term) * group + i, factor)))
                         << (bits * i));
    made.natural(as_they_lie) = packed;
    dims.insert(dims.begin(), member);
    made.func(dims) = Halide::reinterpret(
        factor.type(), Halide::cast(Halide::UInt(bits), made.natural(at_natural) >> (member * bits)));
    at[1] = Expr(term) / group;
    at.insert(at.begin(), Expr(term) % group);
  }
  made.read = made.func(at);
  return made;
}

Operands::Operands(LoweredKernel &kernel, const MicroKernel &micro_kernel, Var innermost, Expr terms)
    : kernel_(kernel), micro_kernel_(micro_kernel), innermost_(std::move(innermost)), terms_(std::move(terms)) {}

bool Operands::is_in_groups(const Expr &factor) const {
  return micro_kernel_.group == 1 || (input_read_by(kernel_, factor) && has_whole_groups(micro_kernel_, terms_) &&
                                      hi::equal(read_of(factor)->args[0], Expr(innermost_)));
}

int64_t Operands::panel_width(const Expr &factor, const Var &column) const {
  KernelInput *input = input_read_by(kernel_, factor);
  int64_t width = input ? heddle::panel_width(micro_kernel_, *input) : 0;
  bool grouped = micro_kernel_.group > 1;
  const hi::Call *call = read_of(factor);
  if (width == 0 || (grouped && !hi::expr_uses_var(call->args[0], innermost_.name())))
    return 0;
  // A tile's lanes are those of one panel: what is read may be a part of the input, if it begins a panel.
  Var panel("p"), lane = lane_of_panel();
  Expr place = replaced(column.name(), panel * int(width) + lane, call->args[grouped]);
  hi::Scope<hi::Interval> lanes;
  lanes.push(lane.name(), {0, int(width) - 1});
  return hi::equal(hi::simplify(place, /*remove_dead_lets=*/true, lanes), Expr(lane)) ? width : 0;
}

bool Operands::is_plain_read(const Expr &factor) const {
  if (!input_read_by(kernel_, factor))
    return false;
  const std::vector<Expr> &args = read_of(factor)->args;
  return std::all_of(args.begin(), args.end(), [](const Expr &index) {
    const hi::Min *clamp = index.as<hi::Min>();
    return index.as<hi::Variable>() || (clamp && clamp->a.as<hi::Variable>());
  });
}

bool Operands::lies_by_terms(const Expr &factor) const {
  return input_read_by(kernel_, factor) && all_reads_lie_by(factor, innermost_);
}

Expr Operands::filled(const Expr &factor) const {
  return heddle::filled(micro_kernel_.group, factor, innermost_, terms_);
}

Copy Operands::packed(const Expr &factor, const Var &column, int width, const Expr &columns,
                      const std::vector<Var> &others, bool whole_vectors) const {
  Expr value = in_panels(factor, column, width, columns);
  std::vector<Var> dims = {lane_of_panel()};
  dims.insert(dims.end(), others.begin(), others.end());
  dims.push_back(panel_of_columns());
  Func turned;
  if (whole_vectors && micro_kernel_.group == 1 && !others.empty() && others[0].same_as(innermost_) &&
      lies_by_terms(factor)) {
    turned = Func("turned");
    turned(dims) = value;
    std::vector<Expr> here(dims.begin(), dims.end());
    value = turned(here);
  }
  Copy copy = copy_in_groups(micro_kernel_, "panel", value, dims, innermost_, terms_);
  copy.read = at_column(copy.read, column, width);
  copy.turned = turned;
  return copy;
}

void Operands::schedule_packed(const MicroKernel &micro_kernel, Copy &copy, int width, int lanes, int panels) {
  Func &panel = copy.func;
  std::vector<Var> dims = panel.args();
  Var lane = lane_of_panel(), member = member_of_group();
  panel.bound_extent(lane, width);
  if (panels > 0)
    panel.bound_extent(dims.back(), panels);
  if (copy.turned.defined()) {
    // A square at a time: read along the terms, put down transposed, copied row by row. All terms of the columns of a
    // vector before the next: the processor asks ahead for places that follow one another in so many rows.
    Var in("in"), vectors("vectors"), terms("terms");
    panel.split(lane, vectors, lane, lanes)
        .split(dims[1], terms, in, lanes, Halide::TailStrategy::RoundUp)
        .reorder(lane, in, terms, vectors)
        .vectorize(lane)
        .unroll(in);
    copy.turned.compute_at(panel, terms).bound_extent(lane, lanes).bound_extent(dims[1], lanes);
    for (size_t i = 2; i < dims.size(); ++i)
      copy.turned.bound_extent(dims[i], 1);
    copy.turned.reorder(dims[1], lane).vectorize(dims[1]).unroll(lane);
    return;
  }
  if (dims.front().same_as(member))
    panel.bound_extent(member, micro_kernel.group).vectorize(member);
  panel.vectorize(lane, lanes).unroll(lane);
}

void Operands::schedule_copied_rows(Func &rows, int height) {
  constexpr int together = 4;
  std::vector<Var> dims = rows.args();
  Var lane = dims.front(), tile = dims.back(), tiles("tiles"), in("in");
  rows.bound_extent(lane, height).split(tile, tiles, in, together, Halide::TailStrategy::GuardWithIf);
  std::vector<Halide::VarOrRVar> order = {lane, in};
  order.insert(order.end(), dims.begin() + 1, dims.end() - 1);
  order.push_back(tiles);
  rows.reorder(order).vectorize(lane, height & -height).unroll(lane);
}

} // namespace heddle
