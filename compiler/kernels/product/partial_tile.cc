// Whether there is a row is read off the place at which its factor is read, min(place, last row): that there is one
// means that the place is not held back.
#include "compiler/kernels/product/partial_tile.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

using Lets = std::map<std::string, Expr>;

/// The row of a tile that a store adds up.
std::optional<int> row_of(const Store *op, const PartialTile &tile) {
  const Ramp *ramp = op->index.as<Ramp>();
  std::optional<int64_t> place = as_const_int(ramp ? ramp->base : op->index);
  return place ? std::optional<int>(int(*place / tile.width % tile.rows)) : std::nullopt;
}

/// The minima in the places that a row's products read, which should be one.
class Minima : public IRVisitor {
public:
  Minima(const PartialTile &tile, const Lets &lets) : tile_(tile), lets_(lets), of_row(tile.rows) {}

private:
  const PartialTile &tile_;
  Lets lets_;
  std::optional<int> row_;
  bool in_index_ = false;

public:
  std::vector<std::vector<Expr>> of_row;
  std::set<std::string> loops; // of the sum
  bool as_expected = true;     // every store is to one row

private:
  using IRVisitor::visit;
  void visit(const For *op) override {
    loops.insert(op->name);
    IRVisitor::visit(op);
  }
  void visit(const LetStmt *op) override {
    lets_[op->name] = substitute(lets_, op->value);
    IRVisitor::visit(op);
  }
  void visit(const Let *op) override {
    lets_[op->name] = substitute(lets_, op->value);
    IRVisitor::visit(op);
  }
  void visit(const Store *op) override {
    if (op->name != tile_.sum)
      return;
    row_ = row_of(op, tile_);
    as_expected &= row_.has_value();
    if (row_)
      op->value.accept(this);
  }
  void visit(const Load *op) override {
    in_index_ = true;
    substitute(lets_, op->index).accept(this);
    in_index_ = false;
  }
  void visit(const Min *op) override {
    IRVisitor::visit(op);
    std::vector<Expr> &known = of_row[*row_];
    if (in_index_ && std::none_of(known.begin(), known.end(), [&](const Expr &e) { return equal(e, op); }))
      known.push_back(op);
  }
};

/// Leaves out the sums of the rows from `count` on.
class FirstRows : public IRMutator {
public:
  FirstRows(const PartialTile &tile, int count) : tile_(tile), count_(count) {}

private:
  using IRMutator::visit;
  Stmt visit(const Store *op) override {
    return op->name == tile_.sum && *row_of(op, tile_) >= count_ ? Evaluate::make(0) : Stmt(op);
  }
  const PartialTile &tile_;
  int count_;
};

/// What reads the sums of a tile: for each of its loops over rows, whether that has all of them.
class Readers : public IRVisitor {
public:
  explicit Readers(const PartialTile &tile) : tile_(tile) {}
  bool all = false, fewer = false; // some loop has all rows; some loop may have fewer

private:
  using IRVisitor::visit;
  void visit(const For *op) override {
    loops_.push_back(op);
    IRVisitor::visit(op);
    loops_.pop_back();
  }
  void visit(const Load *op) override {
    IRVisitor::visit(op);
    if (op->name != tile_.sum)
      return;
    for (const For *loop : loops_)
      if (!starts_with(loop->name, tile_.sum + ".") && expr_uses_var(op->index, loop->name))
        (is_const(loop->extent, tile_.rows) ? all : fewer) = true;
  }
  const PartialTile &tile_;
  std::vector<const For *> loops_;
};

class Pass : public IRMutator {
public:
  explicit Pass(PartialTile tile) : tile_(std::move(tile)) {}

  Stmt mutate(const Stmt &stmt) override {
    if (!readers_)
      stmt.accept(&readers_.emplace(tile_));
    return IRMutator::mutate(stmt);
  }

private:
  using IRMutator::mutate;
  using IRMutator::visit;

  /// Halide has split the loop over tiles: where the rows of a copy of it are fewer than a tile's, the copy that reads
  /// all of them is of the tiles that have them.
  Stmt visit(const Allocate *op) override {
    if (op->name != tile_.sum)
      return IRMutator::visit(op);
    Readers readers(tile_);
    op->body.accept(&readers);
    has_all_rows_ = readers_->fewer && readers.all && !readers.fewer;
    Stmt out = IRMutator::visit(op);
    has_all_rows_ = false;
    return out;
  }

  Stmt visit(const LetStmt *op) override {
    lets_[op->name] = substitute(lets_, op->value);
    return IRMutator::visit(op);
  }

  Stmt visit(const For *op) override {
    if (starts_with(op->name, tile_.sum + ".s1."))
      return has_all_rows_ ? Stmt(op) : by_rows(op);
    loops_.insert(op->name);
    lets_.clear(); // what a tile has in common with others is no matter of its place
    return IRMutator::visit(op);
  }

  /// Of a minimum the side that says where the row is, and the one that is the same for all tiles.
  struct Place {
    Expr own, end;
  };
  std::optional<Place> place(const std::vector<Expr> &minima, const std::set<std::string> &loops_of_sum) const {
    if (minima.size() != 1)
      return std::nullopt;
    const Min *min = minima.front().as<Min>();
    auto uses = [](const Expr &e, const std::set<std::string> &names) {
      return std::any_of(names.begin(), names.end(), [&](const std::string &name) { return expr_uses_var(e, name); });
    };
    bool first = uses(min->a, loops_);
    if (first == uses(min->b, loops_) || uses(min, loops_of_sum))
      return std::nullopt;
    return first ? Place{min->a, min->b} : Place{min->b, min->a};
  }

  Stmt by_rows(const For *op) const {
    Minima minima(tile_, lets_);
    op->accept(&minima);
    if (!minima.as_expected)
      return op;
    std::vector<Place> places; // of the second row and those behind it: the first one is always there
    for (int row = 1; row < tile_.rows; ++row) {
      std::optional<Place> found = place(minima.of_row[row], minima.loops);
      if (!found || (row > 1 && !(equal(found->end, places.front().end) &&
                                  is_const(simplify(found->own - places.front().own), row - 1))))
        return op;
      places.push_back(*found);
    }
    Stmt out;
    for (int rows = 1; rows <= tile_.rows; ++rows) {
      Stmt loop = rows == tile_.rows ? Stmt(op) : FirstRows(tile_, rows).mutate(op);
      out = rows == 1 ? loop : IfThenElse::make(places[rows - 2].own <= places[rows - 2].end, loop, out);
    }
    return out;
  }

  PartialTile tile_;
  Lets lets_;
  std::set<std::string> loops_;    // around
  std::optional<Readers> readers_; // of all copies of the loop
  bool has_all_rows_ = false;      // the copy that is looked at
};

} // namespace

std::shared_ptr<IRMutator> make_pass(const PartialTile &tile) { return std::make_shared<Pass>(tile); }

} // namespace heddle
