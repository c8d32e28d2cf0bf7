// Where an operand begins and how far apart its rows are is read off the index of the one product in the loops: at
// their first iterations, and from one row to the next.
#include "compiler/kernels/product/matrix_tile.h"

#include <map>

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

class Pass : public IRMutator {
public:
  explicit Pass(MatrixTile tile) : tile_(std::move(tile)) {}

private:
  using IRMutator::visit;

  Stmt visit(const For *op) override {
    if (starts_with(op->name, tile_.sum + ".s0."))
      return Evaluate::make(0); // the function sets the sums
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

  /// A loop that Halide lets begin at zero has another name.
  static std::string name_of(const For *op) {
    const std::string moved = ".rebased";
    return ends_with(op->name, moved) ? op->name.substr(0, op->name.size() - moved.size()) : op->name;
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
    Expr first, by_lane, by_row, by_group, by_term;
  };

  Expr step(const Expr &index, const std::string &name) const {
    auto found = loops_.find(loop(name));
    expect(found != loops_.end(), "no loop " + name + " of " + tile_.sum);
    const std::string &own = found->second->name;
    return simplify(substitute(own, Variable::make(Halide::Int(32), own) + 1, index) - index);
  }

  Operand operand(const Load *load) const {
    Expr index = substitute(lets_, load->index), first = index;
    Operand out{
        load, {}, step(index, tile_.lane), step(index, tile_.row), step(index, tile_.group), step(index, tile_.term)};
    for (const auto &[name, op] : loops_)
      first = substitute(op->name, substitute(lets_, op->min), first);
    out.first = simplify(first);
    for (const auto &[name, op] : loops_)
      expect(!expr_uses_var(out.by_row, op->name), "rows of " + load->name + " are not evenly apart");
    return out;
  }

  static Expr address(const Operand &operand) {
    Expr start = reinterpret(Halide::UInt(64), Variable::make(Halide::Handle(), operand.load->name));
    Expr place = Cast::make(Halide::Int(64), operand.first) * operand.load->type.bytes();
    return reinterpret(Halide::Handle(), start + Cast::make(Halide::UInt(64), simplify(place)));
  }

  static Expr bytes(const Operand &operand) {
    return Cast::make(Halide::Int(64), simplify(operand.by_row * operand.load->type.bytes()));
  }

  Stmt call() const {
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
      else if (is_const(found.by_lane, group) && is_const(found.by_group, int64_t(group) * MatrixTile::width) &&
               is_const_zero(found.by_row))
        panel = found;
      else if (is_const_zero(found.by_lane) && is_const(found.by_group, group))
        row = found;
    }
    expect(sum.load && row.load && panel.load && is_const_one(row.by_term) && is_const_one(panel.by_term) &&
               is_const_one(sum.by_lane),
           "the operands of " + tile_.sum + " do not lie as the micro-kernel takes them");
    auto extent = [&](const std::string &name) { return substitute(lets_, loops_.at(loop(name))->extent); };
    return Evaluate::make(Call::make(
        Halide::Int(32), function_of(*tile_.micro_kernel),
        {address(sum), bytes(sum), address(row), bytes(row), address(panel), extent(tile_.row), extent(tile_.group)},
        Call::Extern));
  }

  MatrixTile tile_;
  std::map<std::string, const For *> loops_; // of the update
  std::map<std::string, Expr> lets_;
  const Store *place_ = nullptr;
};

} // namespace

std::string function_of(const MicroKernel &micro_kernel) { return "heddle_" + std::string(micro_kernel.name); }

std::shared_ptr<IRMutator> make_pass(const MatrixTile &tile) { return std::make_shared<Pass>(tile); }

} // namespace heddle
