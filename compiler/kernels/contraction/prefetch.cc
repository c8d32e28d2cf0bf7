// Finds the loop over the sum within the loop over tiles, takes the place of its read of the weights, and puts a
// prefetch of the same place one panel ahead before it, shifted so that the tiles together pass over the whole panel.
// Past the last panel it asks for addresses that nobody reads; a prefetch never faults.
#include "compiler/kernels/contraction/prefetch.h"

namespace heddle::contraction {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

// Arguments of LLVM's prefetch. Halide's own prefetch asks for the least locality, which on x86 leaves the second
// cache out: it makes these loops slower, not faster.
constexpr int reading = 0, second_cache = 2, data = 1;

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

class Pass : public IRMutator {
public:
  explicit Pass(const PanelPrefetch &prefetch) : prefetch_(prefetch) {}

private:
  using IRMutator::visit;

  Stmt visit(const For *op) override {
    bool tiles = Halide::Internal::ends_with(op->name, prefetch_.tile_loop);
    const For *&kept = tiles ? tile_ : sum_;
    if (!tiles && (op->name != prefetch_.sum_loop || !tile_))
      return IRMutator::visit(op);
    const For *outside = std::exchange(kept, op);
    done_ = false;
    Stmt result = IRMutator::visit(op);
    kept = outside;
    return result;
  }

  Stmt visit(const Store *op) override { return with_prefetch(op, op->value); }
  Stmt visit(const LetStmt *op) override {
    if (Stmt with = with_prefetch(op, op->value); !with.same_as(op))
      return with;
    return IRMutator::visit(op);
  }

  template <class Op> Stmt with_prefetch(const Op *op, const Expr &value) {
    if (!sum_ || done_)
      return op;
    FindRead read(prefetch_.weights);
    value.accept(&read);
    if (!read.first.defined())
      return op;
    done_ = true;
    // A step of the sum reads `width` elements; of the next panel it asks for a share of that.
    Expr step = Variable::make(Halide::Int(32), sum_->name), tile = Variable::make(Halide::Int(32), tile_->name);
    Expr share = (prefetch_.width + prefetch_.tiles - 1) / prefetch_.tiles;
    Expr panel = sum_->extent * prefetch_.width;
    Stmt ahead = ask(prefetch_.weights, read, panel + tile * sum_->extent * share + step * (share - prefetch_.width));
    return Block::make(ahead, op);
  }

  /// Asks for the line `ahead` elements behind a read.
  static Stmt ask(const std::string &name, const FindRead &read, const Expr &ahead) {
    Expr start = reinterpret(Halide::UInt(64), Variable::make(Halide::Handle(), name));
    Expr place = Cast::make(Halide::Int(64), simplify(read.first + ahead));
    Expr bytes = Cast::make(Halide::UInt(64), place * read.element.bytes());
    Expr address = reinterpret(Halide::Handle(), start + bytes);
    Expr call = Call::make(Halide::Int(32), "llvm.prefetch.p0", {address, reading, second_cache, data}, Call::Extern);
    return Evaluate::make(call);
  }

  PanelPrefetch prefetch_;
  const For *tile_ = nullptr, *sum_ = nullptr;
  bool done_ = false;
};

} // namespace

std::shared_ptr<IRMutator> make_pass(const PanelPrefetch &prefetch) { return std::make_shared<Pass>(prefetch); }

} // namespace heddle::contraction
