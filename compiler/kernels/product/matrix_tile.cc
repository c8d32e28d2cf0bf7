// Where an operand begins and how far apart its rows are is read off the index of the one product in the loops: at
// their first iterations, and from there to the second ones.
#include "compiler/kernels/product/matrix_tile.h"

#include "compiler/halide/loops.h"
#include "compiler/halide/prefetch.h"
#include "compiler/kernels/product/split_factors.h"

#include <algorithm>
#include <map>
#include <utility>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class Loads : public IRVisitor {
public:
  std::vector<const Load *> all;

private:
  using IRVisitor::visit;
  void visit(const Load *op) override { all.push_back(op); }
};

/// How many operations of vectors an iteration of a loop has.
class Epilogue : public IRVisitor {
public:
  explicit Epilogue(std::string loop) : loop_(std::move(loop)) {}
  int operations = 0;

private:
  using IRVisitor::visit;
  void visit(const For *op) override {
    bool outside = std::exchange(inside_, inside_ || is_loop(op, loop_));
    IRVisitor::visit(op);
    inside_ = outside;
  }
  template <class Op> void count(const Op *op) {
    operations += inside_ && op->type.is_float() && op->type.is_vector();
    IRVisitor::visit(op);
  }
  void visit(const Add *op) override { count(op); }
  void visit(const Sub *op) override { count(op); }
  void visit(const Mul *op) override { count(op); }
  void visit(const Div *op) override { count(op); }
  void visit(const Select *op) override { count(op); }

  std::string loop_;
  bool inside_ = false;
};

/// The element that a copy reads of a buffer in the first iteration of its loops.
class FirstRead : public IRVisitor {
public:
  explicit FirstRead(std::string buffer) : buffer_(std::move(buffer)) {}
  const Load *load = nullptr;
  Expr place;

private:
  using IRVisitor::visit;
  void visit(const For *op) override { enter(op->name, op->min, op->body); }
  void visit(const LetStmt *op) override { enter(op->name, op->value, op->body); }
  void enter(const std::string &name, const Expr &value, const Stmt &body) {
    inside_[name] = substitute(inside_, value);
    body.accept(this);
  }
  void visit(const Load *op) override {
    if (load || op->name != buffer_)
      return IRVisitor::visit(op);
    load = op;
    const Ramp *ramp = op->index.as<Ramp>();
    Expr first = ramp                           ? ramp->base
                 : op->index.type().is_vector() ? Shuffle::make_extract_element(op->index, 0)
                                                : op->index;
    place = substitute(inside_, substitute_in_all_lets(first));
  }

  std::string buffer_;
  std::map<std::string, Expr> inside_; // loops in their first iteration, and lets
};

/// Operations of vectors that take as long as a line from memory keeps one of a core's line buffers.
constexpr int operations_of_line = 24;

/// Of the task whose calls need the unit: rows of the pieces that it is configured for, 0 at first.
constexpr char configured[] = "matrix_unit";

/// Whether a statement already begins and ends the use of the unit, for another product.
bool is_task(const Stmt &stmt) {
  const Allocate *allocate = stmt.as<Allocate>();
  return allocate && allocate->name == configured;
}

Stmt as_task(const Stmt &body) {
  if (is_task(body))
    return body;
  Expr address = Variable::make(Halide::Handle(), configured);
  Stmt begin = Store::make(configured, 0, 0, Halide::Parameter(), const_true(), ModulusRemainder());
  Stmt end = Evaluate::make(Call::make(Halide::Int(32), end_of_tiles, {address}, Call::Extern));
  return Allocate::make(configured, Halide::Int(32), Halide::MemoryType::Stack, {1}, const_true(),
                        Block::make({begin, body, end}));
}

class Pass : public IRMutator {
public:
  explicit Pass(MatrixTile tile) : tile_(std::move(tile)) {}

  Stmt mutate(const Stmt &stmt) override {
    ++depth_;
    Stmt result = IRMutator::mutate(stmt);
    if (--depth_ == 0 && std::exchange(calls_, false)) // no loop is parallel
      result = as_task(result);
    return result;
  }
  using IRMutator::mutate;

private:
  using IRMutator::visit;

  Stmt visit(const For *op) override {
    if (op->for_type != ForType::Parallel)
      return replace(op);
    bool outside = std::exchange(calls_, false);
    Stmt result = replace(op);
    if (const For *loop = result.as<For>(); loop && std::exchange(calls_, false))
      result = For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                         as_task(loop->body));
    calls_ |= outside;
    return result;
  }

  Stmt replace(const For *op) {
    if (starts_with(op->name, tile_.sum + ".s0."))
      return Evaluate::make(0); // the function sets the sums
    if (tile_.ahead && starts_with(op->name, tile_.ahead->copy + ".s0."))
      return copying(op);
    if (tile_.ahead && panel_loop_.empty() && is_loop(op, tile_.ahead->panels)) {
      panel_loop_ = op->name;
      Stmt result = IRMutator::visit(op);
      panel_loop_.clear();
      source_ = nullptr;
      return result;
    }
    if (tile_.ahead && is_loop(op, tile_.ahead->loop))
      return asking(op);
    if (next_.defined() && is_loop(op, tile_.ahead->epilogue))
      return with_share(op);
    if (name_of(op) != loop(tile_.row))
      return IRMutator::visit(op);
    loops_.clear();
    lets_.clear();
    place_ = nullptr;
    find(op);
    return call();
  }

  static void expect(bool holds, const std::string &what) {
    if (!holds)
      throw Halide::InternalError(what);
  }

  std::string loop(const std::string &name) const { return tile_.sum + ".s1." + name; }

  /// Goes down to the update, and keeps what stands on the way.
  void find(const Stmt &stmt) {
    if (const For *op = stmt.as<For>()) {
      loops_[name_of(op)] = op;
      return find(op->body);
    }
    if (const LetStmt *op = stmt.as<LetStmt>()) {
      lets_[op->name] = substitute(lets_, op->value);
      return find(op->body);
    }
    place_ = stmt.as<Store>();
  }

  /// An operand's first element and how many there are from one to the next along each loop.
  struct Operand {
    const Load *load;
    Expr first, by_lane, by_row, by_term, to_second; // the last: from lane 0 to the first of the second tile
    std::vector<Expr> by_groups;
    const Expr &by_group() const { return by_groups.front(); }
  };

  /// An index in the first iteration of every loop.
  Expr at_first(Expr index) const {
    for (const auto &[name, op] : loops_)
      index = substitute(op->name, substitute(lets_, op->min), index);
    return index;
  }

  /// How much larger an index is so many iterations further in a loop. That is the same wherever sums begin: at zero,
  /// it can be seen to be a number.
  Expr growth(Expr index, const std::string &name, int distance) const {
    auto found = loops_.find(loop(name));
    if (found == loops_.end()) // of one iteration, which is gone
      return 0;
    const std::string &own = found->second->name;
    Expr start = is_over_sum(name) ? Expr(0) : substitute(lets_, found->second->min);
    for (const std::string &other : tile_.sum_loops)
      if (auto over = loops_.find(loop(other)); other != name && over != loops_.end())
        index = substitute(over->second->name, 0, index);
    return simplify(at_first(substitute(own, start + distance, index) - substitute(own, start, index)));
  }
  bool is_over_sum(const std::string &name) const {
    return std::find(tile_.sum_loops.begin(), tile_.sum_loops.end(), name) != tile_.sum_loops.end();
  }

  Operand operand(const Load *load) const {
    Expr index = substitute_in_all_lets(substitute(lets_, load->index));
    Operand out{load,
                simplify(at_first(index)),
                growth(index, tile_.lane, 1),
                growth(index, tile_.row, 1),
                growth(index, tile_.term, 1),
                growth(index, tile_.lane, MatrixTile::width / 2),
                {}};
    for (const std::string &group : tile_.sum_loops)
      out.by_groups.push_back(growth(index, group, 1));
    return out;
  }

  /// Iterations of a loop. One of a single iteration is gone.
  Expr extent(const std::string &name) const {
    auto found = loops_.find(loop(name));
    return found == loops_.end() ? Expr(1) : substitute(lets_, found->second->extent);
  }

  /// The loops at which an operand's groups don't go on where those of the loop inside end.
  std::vector<size_t> breaks(const Operand &operand) const {
    std::vector<size_t> out;
    for (size_t i = 1; i < tile_.sum_loops.size(); ++i)
      if (loops_.contains(loop(tile_.sum_loops[i])) &&
          !is_const_zero(simplify(operand.by_groups[i] - operand.by_groups[i - 1] * extent(tile_.sum_loops[i - 1]))))
        out.push_back(i);
    return out;
  }

  static Expr address(const Operand &operand) {
    Expr start = reinterpret(Halide::UInt(64), Variable::make(Halide::Handle(), operand.load->name));
    Expr place = Cast::make(Halide::Int(64), operand.first) * operand.load->type.bytes();
    return reinterpret(Halide::Handle(), start + Cast::make(Halide::UInt(64), simplify(place)));
  }

  static Expr bytes(const Operand &operand, const Expr &elements) {
    return Cast::make(Halide::Int(64), simplify(elements * operand.load->type.bytes()));
  }

  /// The loop over calls that read the same panel, which ask for the one behind it. A block of one piece waits for
  /// memory all the time, and leaves that to the processor's own prefetchers.
  Stmt asking(const For *op) {
    Epilogue epilogue(tile_.ahead->epilogue);
    op->body.accept(&epilogue);
    const std::string of_step = unique_name("lines_of_step"), of_row = unique_name("lines_of_row");
    lines_of_step_ = Variable::make(Halide::Int(32), of_step);
    most_of_row_ = epilogue.operations / operations_of_line;
    lines_of_row_ = most_of_row_ > 0 ? Variable::make(Halide::Int(32), of_row) : Expr(0);
    steps_ = next_ = Expr();
    const For *outside = std::exchange(block_, op);
    Stmt result = IRMutator::visit(op);
    block_ = outside;
    next_ = Expr();
    if (!steps_.defined()) // it is another product's
      return result;
    Expr pieces = (tile_.ahead->block + rows_of_piece() - 1) / rows_of_piece();
    Expr all = (steps_ * lines_of_panel_step() + pieces - 1) / pieces; // of a piece
    Expr rest = all - rows_of_piece() * lines_of_row_;
    result = LetStmt::make(of_step, simplify(select(pieces > 1, (rest + steps_ - 1) / steps_, 0)), result);
    if (most_of_row_ > 0)
      result = LetStmt::make(of_row, simplify(select(pieces > 1, min(all / rows_of_piece(), most_of_row_), 0)), result);
    return result;
  }
  int rows_of_piece() const { return 2 * tile_.micro_kernel->rows; }
  int lines_of_panel_step() const {
    int bytes = tile_.micro_kernel->splits() ? split::terms * 4 : MatrixTile::groups * 4; // of a column
    return bytes * tile_.columns / MatrixTile::bytes;
  }

  /// The loops that split a panel: what they read for the next one is asked for by the calls that follow.
  Stmt copying(const For *op) {
    FirstRead first(tile_.ahead->source);
    op->accept(&first);
    source_ = panel_loop_.empty() ? nullptr : first.load; // nullptr: a single panel
    if (source_)
      source_place_ =
          substitute(panel_loop_, Variable::make(Halide::Int(32), panel_loop_) + 1, substitute(around_, first.place));
    return op;
  }

  /// Where a call begins to ask for the panel behind this one, and lines of it for each step.
  std::pair<Expr, Expr> ahead(const Operand &panel, const Expr &groups) {
    if (!tile_.ahead || !block_ || (tile_.micro_kernel->splits() && !source_)) // no loop: of one piece
      return {address(panel), 0};
    steps_ = groups / groups_of_step(*tile_.micro_kernel);
    const int pieces = tile_.ahead->rows / rows_of_piece(), of_line = MatrixTile::bytes / panel.load->type.bytes();
    Expr calls = Variable::make(Halide::Int(32), block_->name) - block_->min;
    Expr in_steps = pieces * steps_ * lines_of_step_, in_rows = tile_.ahead->rows * lines_of_row_;
    Operand place = panel; // in elements
    if (tile_.micro_kernel->splits()) {
      place.load = source_;
      place.first = source_place_;
    } else {
      place.first += groups * (tile_.columns * tile_.micro_kernel->group);
    }
    place.first += calls * (in_steps + in_rows) * of_line;
    Expr first = address(place);
    place.first += in_steps * of_line;
    next_ = most_of_row_ > 0 ? substitute(inside_, address(place)) : Expr();
    return {first, lines_of_step_};
  }

  /// The loop over rows of an epilogue, each of which asks for its share of the panel behind this one.
  Stmt with_share(const For *op) const {
    const std::string line = unique_name("line");
    Expr row = Variable::make(Halide::Int(32), op->name) - op->min;
    Expr before = row * lines_of_row_ + Variable::make(Halide::Int(32), line);
    Expr place = reinterpret(Halide::UInt(64), next_) + Cast::make(Halide::UInt(64), before * line_bytes);
    Stmt share =
        For::make(line, 0, lines_of_row_, ForType::Serial, Halide::Partition::Never, op->device_api, ask(place));
    return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                     Block::make(share, op->body));
  }

  /// What is known in the loop over calls alone, in terms of what is known outside.
  Stmt visit(const LetStmt *op) override {
    if (tile_.micro_kernel->splits())
      around_[op->name] = substitute(around_, op->value);
    if (block_)
      inside_[op->name] = substitute(inside_, op->value);
    return IRMutator::visit(op);
  }

  Stmt call() {
    expect(place_ && place_->name == tile_.sum, "no update of " + tile_.sum);
    Expr value = substitute_in_all_lets(substitute(lets_, place_->value));
    Loads loads;
    value.accept(&loads);
    Operand sum{}, row{}, panel{};
    const int group = tile_.micro_kernel->group;
    for (const Load *load : loads.all) {
      expect(load->type.is_scalar(), "vectors in the loops of " + tile_.sum);
      Operand found = operand(load);
      if (load->name == tile_.sum)
        sum = found;
      else if (is_const(found.by_lane, group) && is_const_zero(found.by_row))
        panel = found;
      else if (is_const_zero(found.by_lane) && is_const(found.by_group(), group))
        row = found;
    }
    const std::vector<size_t> ends = row.load ? breaks(row) : std::vector<size_t>(); // of runs
    expect(sum.load && row.load && panel.load &&
               (group == 1 || (is_const_one(row.by_term) && is_const_one(panel.by_term))) &&
               is_const_one(sum.by_lane) && ends.size() <= 1 && breaks(panel).empty(),
           "the operands of " + tile_.sum + " do not lie as the micro-kernel takes them");
    const size_t run = ends.empty() ? tile_.sum_loops.size() : ends.front(); // the loops inside
    Expr groups = 1, runs = 1;
    for (size_t i = 0; i < tile_.sum_loops.size(); ++i)
      (i < run ? groups : runs) *= extent(tile_.sum_loops[i]);
    groups = simplify(groups);
    Expr apart = run < tile_.sum_loops.size() ? row.by_groups[run] : Expr(0);
    expect(is_const_zero(apart) || is_const_zero(simplify(groups % MatrixTile::groups)),
           "runs of " + tile_.sum + " are no whole steps");
    auto [place, lines] = ahead(panel, groups);
    calls_ = true;
    return Evaluate::make(
        Call::make(Halide::Int(32), function_of(*tile_.micro_kernel, tile_.columns),
                   {address(sum), bytes(sum, sum.by_row), address(row), bytes(row, row.by_row), address(panel),
                    bytes(panel, panel.by_group()), bytes(panel, panel.to_second), extent(tile_.row), groups, place,
                    lines, Variable::make(Halide::Handle(), configured), simplify(runs), bytes(row, apart)},
                   Call::Extern));
  }

  MatrixTile tile_;
  std::map<std::string, const For *> loops_; // of the update
  std::map<std::string, Expr> lets_;
  const Store *place_ = nullptr;
  const Load *source_ = nullptr; // of numbers that a panel is split from
  Expr source_place_;
  std::map<std::string, Expr> around_; // lets around the copy
  std::string panel_loop_;
  const For *block_ = nullptr;         // over calls that read the same panel
  std::map<std::string, Expr> inside_; // its lets
  Expr steps_, lines_of_step_, lines_of_row_;
  int most_of_row_ = 0; // lines
  Expr next_;           // the address that an epilogue's first row asks for
  bool calls_ = false;  // outside of parallel loops, so far
  int depth_ = 0;
};

} // namespace

MatrixTile matrix_tile(const MicroKernel &micro_kernel, const Halide::Func &sum, const std::string &lane,
                       const Halide::Var &row, const RegisterTile &tile) {
  std::vector<std::string> loops;
  for (const Halide::RVar &loop : tile.loops())
    loops.push_back(loop.name());
  return {&micro_kernel, sum.name(), lane, row.name(), loops, tile.group().name()};
}

int groups_of_step(const MicroKernel &micro_kernel) {
  return MatrixTile::groups * (micro_kernel.splits() ? split::parts : 1);
}

std::string function_of(const MicroKernel &micro_kernel, int columns) {
  return "heddle_" + std::string(micro_kernel.name) + "_by_" + std::to_string(columns);
}

std::shared_ptr<IRMutator> make_pass(const MatrixTile &tile) { return std::make_shared<Pass>(tile); }

} // namespace heddle
