// Finds the loop over the sum within the loop over tiles, takes the place of its read of the weights, and puts a
// prefetch of the same place one panel ahead before it, shifted so that the tiles together pass over the whole panel.
// Past the last panel it asks for addresses that nobody reads; a prefetch never faults.
#include "compiler/kernels/contraction/prefetch.h"

#include "compiler/halide/loops.h"
#include "compiler/halide/prefetch.h"

#include <ranges>

namespace heddle::contraction {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

/// Asks for the line of element `index` of a buffer.
Stmt ask_for(const std::string &name, const Expr &index, Halide::Type element) {
  Expr start = reinterpret(Halide::UInt(64), Variable::make(Halide::Handle(), name));
  Expr place = Cast::make(Halide::Int(64), simplify(index));
  return ask(start + Cast::make(Halide::UInt(64), place * element.bytes()));
}

/// The index of the first element of the first read of `name` that is a plain vector.
class FindRead : public IRVisitor {
public:
  explicit FindRead(const std::string &name) : name_(name) {}
  Expr first;
  Halide::Type element;

private:
  using IRVisitor::visit;
  void visit(const Load *op) override {
    const Ramp *ramp = op->index.as<Ramp>();
    if (op->name == name_ && ramp && ramp->base.type().is_scalar() && !first.defined()) {
      first = ramp->base;
      element = op->type.element_of();
    }
    IRVisitor::visit(op);
  }
  const std::string &name_;
};

/// The first read of an input other than `weights`, a number or a few for all lanes.
class FindRow : public IRVisitor {
public:
  explicit FindRow(const std::string &weights) : weights_(weights) {}
  std::string buffer;
  Expr first;
  Halide::Type element;
  int lanes = 0;

private:
  using IRVisitor::visit;
  void visit(const Load *op) override {
    const Ramp *ramp = op->index.as<Ramp>();
    Expr index = ramp ? ramp->base : op->index;
    if (op->param.defined() && op->name != weights_ && buffer.empty() && index.type().is_scalar()) {
      buffer = op->name;
      first = index;
      element = op->type.element_of();
      lanes = op->type.lanes();
    }
    IRVisitor::visit(op);
  }
  const std::string &weights_;
};

class Pass : public IRMutator {
public:
  explicit Pass(const PanelPrefetch &prefetch) : prefetch_(prefetch) {}

private:
  using IRMutator::visit;

  Stmt visit(const For *op) override {
    if (is_loop(op, prefetch_.copy_loop)) {
      FindRead read(prefetch_.weights);
      op->body.accept(&read);
      if (read.first.defined())
        copied_ = {substitute(lets_, read.first), substitute(lets_, op->min), op->name, read.element};
      return op;
    }
    const For **kept = op->name == prefetch_.sum_loop && tile_ ? &sum_
                       : is_loop(op, prefetch_.tile_loop)      ? &tile_
                       : is_loop(op, prefetch_.panel_loop)     ? &panel_
                       : is_loop(op, prefetch_.chunk_loop)     ? &chunk_
                                                               : nullptr;
    if (!kept)
      return IRMutator::visit(op);
    const For *outside = std::exchange(*kept, op);
    done_ = false;
    Stmt result = IRMutator::visit(op);
    *kept = outside;
    if (auto known = before_.find(op); known != before_.end())
      for (auto &[name, value] : std::views::reverse(known->second)) // a later one may use those before it
        result = LetStmt::make(name, value, result);
    return result;
  }

  /// A number that is known before a loop, and computed there: LLVM would leave a division by a number of tiles in the
  /// loop over terms, at every step, since it may not divide before it knows that the loop has any.
  Expr before(const For *loop, const char *name, const Expr &value) {
    Expr variable = Variable::make(value.type(), unique_name(name));
    before_[loop].push_back({variable.as<Variable>()->name, simplify(value)});
    return variable;
  }

  static Expr variable(const For *loop) { return Variable::make(Halide::Int(32), loop->name); }
  /// Iterations of a loop before this one. A loop of one iteration is gone.
  static Expr iteration(const For *loop) { return loop ? variable(loop) - loop->min : Expr(0); }
  static Expr iterations(const For *loop) { return loop ? loop->extent : Expr(1); }

  /// Elements from a term to the same term of the piece of a panel that is multiplied next.
  Expr distance() {
    Expr panel = prefetch_.terms * prefetch_.width;
    if (prefetch_.panel_loop.empty())
      return panel;
    Expr chunk = prefetch_.chunk * prefetch_.width;
    Expr back = panel - prefetch_.first * prefetch_.width - iteration(chunk_) * chunk; // to the next task's first panel
    Expr again = chunk - (iterations(panel_) - 1) * panel;                             // to the task's first panel
    bool rest = prefetch_.chunk_loop.empty();
    Expr after = rest ? back : prefetch_.last ? select(iteration(chunk_) + 1 < iterations(chunk_), again, back) : again;
    return select(iteration(panel_) + 1 < iterations(panel_), panel, after);
  }

  Stmt lines_of_a_later_step(const FindRead &read) const {
    std::vector<Stmt> asked;
    for (int at = 0; at < prefetch_.width * read.element.bytes(); at += line_bytes)
      asked.push_back(ask_for(prefetch_.weights, read.first + (bytes_ahead + at) / read.element.bytes(), read.element));
    return Block::make(asked);
  }

  Stmt visit(const Store *op) override { return with_prefetch(op, op->value); }
  Stmt visit(const LetStmt *op) override {
    if (Stmt with = with_prefetch(op, op->value); !with.same_as(op))
      return with;
    if (!prefetch_.copy.empty())
      lets_[op->name] = substitute(lets_, op->value);
    return IRMutator::visit(op);
  }

  template <class Op> Stmt with_prefetch(const Op *op, const Expr &value) {
    if (!sum_ || done_)
      return op;
    FindRead read(prefetch_.copy.empty() ? prefetch_.weights : prefetch_.copy);
    value.accept(&read);
    if (!read.first.defined() || (!prefetch_.copy.empty() && !copied_.first.defined()))
      return op;
    done_ = true;
    if (!prefetch_.copy.empty()) { // where the copy's term came from
      read.first = substitute(copied_.loop, copied_.least + iteration(sum_), copied_.first);
      read.element = copied_.element;
    }
    if (prefetch_.of_this_panel)
      return Block::make(lines_of_a_later_step(read), op);
    // A step of the sum reads `width` elements; of the next panel it asks for one line of a share of that, which may be
    // two of three: the processor brings the third. Tiles so few that it would be less ask for nothing: lines asked for
    // here and there hinder the processor's own prefetchers (on Zen 4 a tile of 8 rows takes 1.4 times as long).
    auto is_too_much = [&](const Expr &elements) { return 2 * elements * read.element.bytes() > 3 * line_bytes; };
    Expr share = simplify((prefetch_.width + prefetch_.tiles - 1) / prefetch_.tiles);
    Expr few = simplify(is_too_much(share));
    std::vector<Stmt> asked;
    FindRow row(prefetch_.weights);
    value.accept(&row);
    if (prefetch_.rows > 0 && !row.buffer.empty()) { // a step for each step: all of the tile's elements in the end
      Expr next = tiles_ahead * prefetch_.rows * sum_->extent * row.lanes;
      asked.push_back(
          ask_for(row.buffer, row.first + next + iteration(sum_) * ((prefetch_.rows - 1) * row.lanes), row.element));
    }
    if (is_const_one(few))
      return op;
    if (!is_const(share)) {
      share = before(tile_ ? tile_ : sum_, "share", share);
      few = is_too_much(share);
    }
    Expr start = before(sum_, "ahead", select(few, 0, distance() + iteration(tile_) * sum_->extent * share));
    Expr step = before(sum_, "step", select(few, 0, share - prefetch_.width));
    asked.push_back(ask_for(prefetch_.weights, read.first + start + iteration(sum_) * step, read.element));
    asked.push_back(op);
    return Block::make(asked);
  }

  /// The copy's first read of the input in an iteration of its loop over terms, in terms of what is known outside.
  struct Copied {
    Expr first, least;
    std::string loop;
    Halide::Type element;
  };

  PanelPrefetch prefetch_;
  Copied copied_;
  std::map<std::string, Expr> lets_;
  std::map<const For *, std::vector<std::pair<std::string, Expr>>> before_;
  const For *chunk_ = nullptr, *panel_ = nullptr, *tile_ = nullptr, *sum_ = nullptr;
  bool done_ = false;
};

/// The vectors that the epilogue of a tile writes to the result, and those that it reads where the tile says.
class FindRows : public IRVisitor {
public:
  FindRows(const RowsPrefetch &prefetch, const For *tiles) : prefetch_(prefetch), tiles_(tiles) {}
  struct RowAccess {
    std::string buffer;
    Expr first;
    Halide::Type element;
  };
  std::vector<RowAccess> places;
  const For *rows = nullptr; // the loop over rows, where it is one
  Expr first_row, row_count;

private:
  using IRVisitor::visit;
  void visit(const For *op) override {
    if (is_loop(op, prefetch_.row_loop)) {
      rows = op;
      first_row = known(op->min);
      row_count = known(op->extent);
    }
    if (op == tiles_ || op == rows) // others are those of the sum
      IRVisitor::visit(op);
  }
  void visit(const LetStmt *op) override { visit_let(op); }
  void visit(const Let *op) override { visit_let(op); }
  template <class Op> void visit_let(const Op *op) {
    lets_[op->name] = known(op->value);
    IRVisitor::visit(op);
    lets_.erase(op->name);
  }
  /// In terms of what is known outside of the tile.
  Expr known(const Expr &e) const { return substitute(lets_, e); }
  void visit(const Store *op) override {
    if (op->name == prefetch_.result || starts_with(op->name, prefetch_.result + ".")) // one of several
      add(op->name, op->index, op->value.type());
    IRVisitor::visit(op);
  }
  void visit(const Load *op) override {
    if (op->param.defined())
      add(op->name, op->index, op->type);
    IRVisitor::visit(op);
  }
  void add(const std::string &buffer, const Expr &index, Halide::Type type) {
    const Ramp *ramp = index.as<Ramp>();
    Expr first = ramp ? known(ramp->base) : Expr();
    if (!ramp || !is_const_one(ramp->stride) || !expr_uses_var(first, tiles_->name))
      return;
    const int bytes = type.element_of().bytes(), near = prefetch_.width > 0 ? line_bytes : bytes;
    for (const RowAccess &place : places) { // asked for already; a panel of a matrix unit begins with a line
      std::optional<int64_t> apart =
          place.buffer == buffer ? as_const_int(simplify(first - place.first)) : std::nullopt;
      if (apart && std::abs(*apart) * bytes < near)
        return;
    }
    places.push_back({buffer, first, type.element_of()});
  }
  const RowsPrefetch &prefetch_;
  const For *tiles_;
  std::map<std::string, Expr> lets_;
};

class RowsPass : public IRMutator {
public:
  explicit RowsPass(const RowsPrefetch &prefetch) : prefetch_(prefetch) {}

private:
  using IRMutator::visit;
  Stmt visit(const For *op) override {
    if (op == rows_)
      return with_next(op);
    if (!is_loop(op, prefetch_.tile_loop))
      return IRMutator::visit(op);
    FindRows find(prefetch_, op);
    op->accept(&find);
    if (find.places.empty())
      return op;
    found_ = &find;
    tiles_ = op;
    if (prefetch_.width > 0 && find.rows) {
      rows_ = find.rows;
      return IRMutator::visit(op);
    }
    std::vector<Stmt> asked;
    for (const FindRows::RowAccess &place : find.places)
      asked.push_back(ask_for(place.buffer, later(place.first), place.element));
    Stmt ahead = Block::make(asked);
    if (find.rows)
      ahead = For::make(find.rows->name, later(find.first_row), later(find.row_count), ForType::Serial,
                        Halide::Partition::Never, find.rows->device_api, ahead);
    return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                     Block::make(ahead, op->body));
  }

  /// The loop over rows of an epilogue that asks in each row for that of the next tile, or, in the last tile, for that
  /// of the first one in the next panel.
  Stmt with_next(const For *op) const {
    Expr tile = Variable::make(Halide::Int(32), tiles_->name), row = Variable::make(Halide::Int(32), op->name);
    Expr is_last = tile + 1 >= tiles_->min + tiles_->extent, next = select(is_last, tiles_->min, tile + 1);
    auto in_next = [&](const Expr &e) { return substitute(tiles_->name, next, e); };
    std::vector<Stmt> body;
    for (const FindRows::RowAccess &place : found_->places) {
      Expr there = substitute(op->name, row - found_->first_row + in_next(found_->first_row), in_next(place.first));
      body.push_back(ask_for(place.buffer, there + select(is_last, prefetch_.width, 0), place.element));
    }
    body.push_back(op->body);
    return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                     Block::make(body));
  }

  Expr later(const Expr &e) const {
    return substitute(tiles_->name, Variable::make(Halide::Int(32), tiles_->name) + prefetch_.ahead, e);
  }

  RowsPrefetch prefetch_;
  const FindRows *found_ = nullptr;
  const For *tiles_ = nullptr, *rows_ = nullptr;
};

} // namespace

std::shared_ptr<IRMutator> make_pass(const PanelPrefetch &prefetch) { return std::make_shared<Pass>(prefetch); }
std::shared_ptr<IRMutator> make_pass(const RowsPrefetch &prefetch) { return std::make_shared<RowsPass>(prefetch); }

} // namespace heddle::contraction
