// The variant `blocks`: a task computes a block of the table's rows. It goes through all terms once and adds those that
// belong to one of its rows, in their order: no two tasks write the same place, and no sum depends on the threads.
//
//   task (block of rows x part of a row, parallel) → sums of the block = 0
//                                                    n → if ids[n] is in the block: sums[ids[n] - first, d] += x[n, d]
//                                                    rows of the result from the sums
//
// Asking every number once per block costs little as long as a block is as much work as asking.
#include "compiler/kernels/inlining.h"
#include "compiler/kernels/scatter/scatter.h"
#include "compiler/kernels/sizes.h"

#include <algorithm>
#include <cmath>

namespace heddle::scatter {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
namespace hi = Halide::Internal;

namespace {

/// Arguments read as images, not through the Funcs around them, whose indices Halide names by lets: a term that is
/// asked for under a condition in vectors has that condition at each of its reads, and of names within themselves
/// Halide makes an internal error ("every name is unique").
class ReadImages : public hi::IRGraphMutator {
public:
  explicit ReadImages(LoweredKernel &kernel) {
    for (KernelInput &input : kernel.inputs)
      images_.emplace(Func(input.param).name(), input.param.parameter());
  }

protected:
  using IRGraphMutator::visit;
  Expr visit(const hi::Call *call) override {
    auto image = call->call_type == hi::Call::Halide ? images_.find(call->name) : images_.end();
    if (image == images_.end())
      return IRGraphMutator::visit(call);
    std::vector<Expr> indices;
    for (const Expr &arg : call->args)
      indices.push_back(mutate(arg));
    return hi::Call::make(image->second, indices);
  }

private:
  std::map<std::string, Halide::Parameter> images_;
};

class ScatterNest {
public:
  ScatterNest(LoweredKernel &kernel, KernelOutput &output, int place, int rows, int columns, int lanes)
      : kernel_(kernel), output_(output), place_(size_t(place)), rows_(rows), columns_(columns), lanes_(lanes) {}

  Status build() {
    Func result = redefine_by_sums(kernel_, output_,
                                   [this](LoweredOp &stage, const auto &indices) { return sum(stage, indices); });
    if (error_)
      return *error_;
    schedule(result);
    return Done();
  }

private:
  struct Sum {
    std::string stage;
    Func func;
    Halide::RDom terms;
  };

  /// Whether lanes run along the rows of the table, not along what is looked up.
  bool has_lanes() const { return place_ + 1 < output_.axes.size(); }

  /// A sum at the result's own place, as an element of its block.
  Expr sum(LoweredOp &stage, const std::vector<Expr> &) {
    std::vector<Expr> call;
    for (size_t i = output_.axes.size(); i-- > 0;)
      call.push_back(output_.axes[i].var);
    size_t place = output_.axes.size() - 1 - place_; // innermost first
    call.push_back(call[place] / rows_);
    call[place] = call[place] % rows_;
    for (Sum &known : sums_)
      if (known.stage == stage.func.name())
        return known.func(call);

    std::vector<Var> own = stage.func.args();
    std::string row_of_table = own[place].name();
    Var row("row"), block("block");
    own[place] = row;
    own.push_back(block);
    Expr first = block * rows_;
    Inliner inline_all(kernel_);
    Func func("sums");
    func(own) = replaced(row_of_table, first + row, inline_all(stage.func.value()));

    Expr update = hi::substitute_in_all_lets(stage.func.update_value(0));
    const hi::Add *add = update.as<hi::Add>();
    auto is_self = [&](const Expr &e) { return e.as<hi::Call>() && e.as<hi::Call>()->name == stage.func.name(); };
    Expr term = !add ? Expr() : is_self(add->a) ? add->b : is_self(add->b) ? add->a : Expr();
    Expr condition = term.defined() ? equation(term, row_of_table) : Expr();
    if (!condition.defined()) {
      error_ = Error{"a sum does not have the form of one"};
      return update;
    }
    const hi::EQ *equal = condition.as<hi::EQ>();
    Expr number = hi::expr_uses_var(equal->a, row_of_table) ? equal->b : equal->a;
    Halide::RDom terms(reduction_loops(stage));
    Substitution loops;
    std::vector<std::string> names = reduction_names(stage);
    for (size_t i = 0; i < names.size(); ++i)
      loops[names[i]] = terms[int(i)];
    term = hi::graph_substitute(condition, hi::const_true(), term);
    // What else is asked of the row may read at it, and a number that is no row is asked, too, before it is passed
    // over.
    Expr last = Halide::max(output_.axes[place_].extent - 1, 0);
    term = inline_all(replaced(loops, replaced(row_of_table, clamp(number, 0, last), term)));
    number = inline_all(replaced(loops, number));
    ReadImages read_images(kernel_);
    term = read_images.mutate(term), number = read_images.mutate(number);
    terms.where(number >= first && number < first + rows_);
    std::vector<Expr> at(own.begin(), own.end());
    at[place] = clamp(number - first, 0, rows_ - 1);
    func(at) = func(at) + term;
    sums_.push_back({stage.func.name(), func, terms});
    return func(call);
  }

  /// The condition of a term that says which row of the table it belongs to.
  static Expr equation(const Expr &term, const std::string &row) {
    class Find : public hi::IRVisitor {
    public:
      explicit Find(const std::string &row) : row_(row) {}
      Expr found;

    protected:
      using IRVisitor::visit;
      void visit(const hi::EQ *op) override {
        const hi::Variable *a = op->a.as<hi::Variable>(), *b = op->b.as<hi::Variable>();
        bool left = a && a->name == row_ && !hi::expr_uses_var(op->b, row_);
        bool right = b && b->name == row_ && !hi::expr_uses_var(op->a, row_);
        if (left || right)
          found = op;
      }

    private:
      const std::string &row_;
    } find(row);
    const hi::Select *choice = term.as<hi::Select>();
    if (choice)
      choice->condition.accept(&find);
    return find.found;
  }

  void vectorize(Halide::Stage stage, const Var &lane, int64_t size) {
    Var vector("vector"), inner("inner");
    stage.split(lane, vector, inner, lanes_, TailStrategy::GuardWithIf).vectorize(inner);
    if (size >= 0 && size % (4 * lanes_) == 0)
      stage.unroll(vector, 4);
  }

  void schedule(Func &result) {
    const OutputAxis &table = output_.axes[place_], &last = output_.axes.back();
    Var block("block"), row("row"), part("part"), column("column"), task("task");
    result.compute_root().split(table.var, block, row, rows_, TailStrategy::GuardWithIf);
    std::vector<Halide::VarOrRVar> order;
    Var innermost = row;
    if (has_lanes()) {
      innermost = last.var;
      if (columns_ > 0) {
        result.split(last.var, part, column, columns_, TailStrategy::GuardWithIf);
        innermost = column;
      }
      order.push_back(innermost);
    }
    order.push_back(row);
    std::optional<Var> inside; // the innermost loop in which all other axes are fixed
    for (size_t axis = output_.axes.size(); axis-- > 0;)
      if (axis != place_ && (axis + 1 < output_.axes.size() || !has_lanes())) {
        order.push_back(output_.axes[axis].var);
        inside = inside.value_or(output_.axes[axis].var);
      }
    bool parts = has_lanes() && columns_ > 0;
    if (parts)
      order.push_back(part);
    order.push_back(block);
    result.reorder(order);
    if (parts)
      result.fuse(part, block, task);
    else
      result.rename(block, task);
    result.parallel(task);
    int64_t size = !has_lanes() ? rows_ : columns_ > 0 ? columns_ : last.size;
    vectorize(Halide::Stage(result), innermost, size);

    for (Sum &sum : sums_) {
      std::vector<Var> own = sum.func.args();
      size_t place = own.size() - 2 - place_;
      sum.func.compute_at(result, inside.value_or(task)).bound(own[place], 0, rows_).bound_extent(own.back(), 1);
      if (kernel_.hoists_storage)
        sum.func.hoist_storage(result, task);
      vectorize(Halide::Stage(sum.func), own[0], size);
      Halide::Stage update = sum.func.update();
      std::vector<Halide::VarOrRVar> loops;
      for (size_t i = 0; i + 1 < own.size(); ++i)
        if (i != place)
          loops.push_back(own[i]);
      for (int i = 0; i < sum.terms.dimensions(); ++i)
        loops.insert(loops.begin() + (has_lanes() ? 1 + i : i), sum.terms[i]);
      loops.push_back(own.back());
      update.reorder(loops);
      if (has_lanes())
        vectorize(update, own[0], size);
    }
  }

  LoweredKernel &kernel_;
  KernelOutput &output_;
  size_t place_; // the table's axis of the result, outermost first
  int rows_;     // of a block
  int columns_;  // of a part; 0: whole rows
  int lanes_;
  std::vector<Sum> sums_;
  std::optional<Error> error_;
};

/// Tasks that a kernel should have, as far as there are places.
constexpr int64_t wanted_tasks = 16;
/// Columns of a part, where rows are parted: some lines of the cache.
constexpr int64_t columns_of_part = 64;
/// What a task takes beside its work, and asking a number for its row.
constexpr double task_seconds = 0.3e-6, ask_seconds = 0.6e-9;
/// Elements that are added or written in a second.
constexpr double elements_per_second = 4e9;

Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  int place = place_axis(kernel);
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  bool has_lanes = place + 1 < int(type.getRank());
  auto size_of = [&](int axis) {
    return type.isDynamicDim(unsigned(axis)) ? sizes::unknown : type.getDimSize(unsigned(axis));
  };
  int64_t row = has_lanes ? std::max<int64_t>(1, size_of(int(type.getRank()) - 1)) : 1, table = size_of(place);
  double terms = 0;
  kernel.walk([&](mlir::linalg::LinalgOp op) {
    if (op.getNumReductionLoops() > 0)
      terms += double(sizes::terms_of(op));
  });
  std::vector<Candidate> out;
  for (int64_t columns : {int64_t(0), columns_of_part}) {
    if (columns > 0 && (!has_lanes || row <= columns))
      break;
    int64_t width = columns > 0 ? columns : row;
    int64_t most = std::max<int64_t>(1, target.l2 / 4 / 4 / width), parts = (row + width - 1) / width;
    int64_t shared = std::max<int64_t>(1, (table * parts + wanted_tasks - 1) / wanted_tasks);
    int64_t rows = std::clamp<int64_t>(std::min(most, shared), 1, 1 << 20);
    out.push_back({{"blocks", {{"rows", rows}, {"columns", columns}}}, [=](llvm::ArrayRef<int64_t> sizes) {
                     double places = 1;
                     for (int axis = 0; axis < int(type.getRank()); ++axis)
                       places *= sizes::value_of(sizes::extent_of(kernel, axis), sizes);
                     double others = places / double(table * row);
                     double blocks = std::ceil(double(table) / double(rows)) * double(parts);
                     // Until there are tasks for all threads, half of the work is waiting for the longest one.
                     double idle = std::max(1.0, double(wanted_tasks) / blocks / 4);
                     return idle * (places + terms * double(row) * others) / elements_per_second +
                            blocks * (task_seconds + others * terms * ask_seconds);
                   }});
  }
  return out;
}

Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  int place = place_axis(kernel.function);
  join_outputs_loads_first(kernel);
  for (KernelOutput &output : kernel.outputs)
    if (Status status =
            ScatterNest(kernel, output, place, int(row.params.at("rows")), int(row.params.at("columns")), target.lanes)
                .build();
        !status)
      return status;
  return Done();
}

} // namespace

const Variant blocks = {.name = "blocks",
                        .what = "a task adds up the terms of a block of rows, in their order",
                        .parameters = {{"rows", "rows of the table in a block", 1, 1 << 20, {1, 5, 64}},
                                       {"columns", "columns of a task; 0: whole rows", 0, 1 << 20, {0, 32}}},
                        .candidates = candidates,
                        .schedule = apply};

} // namespace heddle::scatter
