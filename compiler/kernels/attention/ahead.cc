// Every sum over the keys of a block asks for one line of each of the next block's keys, or of a part of them where
// there are sums enough: the first sum for the first line, the next sum for the second one, until all have come. Memory
// has time to answer: asked for a line at every step, it would hold the sum up. Where a line lies is known from the
// loop that copies keys: its place for the first key and for the second one, as if all keys were equally far from each
// other; where that is not so, a few lines come late or for nothing. Past the last block it asks for what nobody reads;
// a prefetch never faults.
#include "compiler/kernels/attention/ahead.h"

#include "compiler/halide/loops.h"
#include "compiler/halide/prefetch.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

namespace heddle::attention {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

/// What a copy reads of an input of the kernel: the address, in terms of loops.
struct Source {
  const KeysAhead::Copy *copy = nullptr;
  Expr address;
  std::vector<std::pair<std::string, Expr>> around; // loops outside of the copy and where they begin, outermost first
  std::vector<const For *> keys, others;            // outermost first
  Expr first_key;                                   // where the first loop over keys begins
  std::vector<int> keys_of_turn;
  int lines = 1;  // of a key
  int stride = 1; // iterations of the innermost other loop that a line has
};

/// The reads of inputs inside of a statement that fills copies.
class FindSources : public IRVisitor {
public:
  explicit FindSources(const std::vector<KeysAhead::Copy> &copies) : copies_(copies) {}
  std::vector<Source> sources;
  std::vector<std::string> names; // of all loops and variables of the statement

private:
  using IRVisitor::visit;
  void visit(const ProducerConsumer *op) override {
    const KeysAhead::Copy *outside = copy_;
    for (const KeysAhead::Copy &copy : copies_)
      if (op->is_producer && op->name == copy.func)
        copy_ = &copy;
    IRVisitor::visit(op);
    copy_ = outside;
  }
  void visit(const LetStmt *op) override {
    names.push_back(op->name);
    lets_.push_back({op->name, op->value});
    IRVisitor::visit(op);
    lets_.pop_back();
  }
  void visit(const For *op) override {
    names.push_back(op->name);
    copy_ ? loops_.push_back(op) : around_.push_back({op->name, known(op->min)});
    IRVisitor::visit(op);
    copy_ ? loops_.pop_back() : around_.pop_back();
  }
  /// Of what is read in one place or the other, as of a memory and a segment, one source.
  void visit(const Select *op) override {
    const Broadcast *same = op->condition.as<Broadcast>();
    Expr condition = same ? same->value : op->condition;
    op->condition.accept(this);
    size_t before = sources.size();
    op->true_value.accept(this);
    size_t between = sources.size();
    op->false_value.accept(this);
    if (!copy_ || !condition.type().is_scalar() || between != before + 1 || sources.size() != between + 1 ||
        sources[before].lines != sources[between].lines)
      return;
    sources[before].address = select(known(condition), sources[before].address, sources[between].address);
    sources.pop_back();
  }
  Expr known(Expr e) const {
    for (size_t i = lets_.size(); i-- > 0;)
      if (expr_uses_var(e, lets_[i].first))
        e = Let::make(lets_[i].first, lets_[i].second, e);
    return e;
  }
  void visit(const Load *op) override {
    IRVisitor::visit(op);
    if (!copy_ || !op->param.defined() || !is_const_one(op->predicate))
      return;
    const Ramp *ramp = op->index.as<Ramp>();
    Expr first = ramp ? ramp->base : op->index;
    if (!first.type().is_scalar())
      return;
    Source source;
    source.copy = copy_;
    source.around = around_;
    Expr element = Cast::make(Halide::Int(64), first) * op->type.bytes();
    source.address = reinterpret(Halide::UInt(64), Variable::make(Halide::Handle(), op->name)) +
                     Cast::make(Halide::UInt(64), element);
    source.address = known(source.address);
    for (const For *loop : loops_) {
      auto key = std::find_if(copy_->by_keys.begin(), copy_->by_keys.end(),
                              [&](const auto &named) { return is_loop(loop, named.first); });
      (key == copy_->by_keys.end() ? source.others : source.keys).push_back(loop);
      if (key != copy_->by_keys.end())
        source.keys_of_turn.push_back(key->second);
    }
    if (source.keys.size() != copy_->by_keys.size())
      return;
    source.first_key = known(source.keys.front()->min);
    for (const For *loop : source.others) {
      std::optional<int64_t> iterations = as_const_int(loop->extent);
      if (!iterations)
        return;
      source.lines *= int(*iterations);
    }
    int bytes = op->type.bytes() * op->type.lanes();
    source.stride = std::max(1, line_bytes / bytes);
    source.lines = (source.lines + source.stride - 1) / source.stride;
    for (const Source &other : sources)
      if (equal(other.address, source.address))
        return;
    sources.push_back(source);
  }

  const std::vector<KeysAhead::Copy> &copies_;
  const KeysAhead::Copy *copy_ = nullptr;
  std::vector<const For *> loops_;
  std::vector<std::pair<std::string, Expr>> around_, lets_;
};

class FindLoads : public IRVisitor {
public:
  bool found = false;

private:
  using IRVisitor::visit;
  void visit(const Load *) override { found = true; }
};

/// Where a line of a key lies, if loops over keys are `at` these places.
Expr address_of_line(const Source &source, Expr line, std::map<std::string, Expr> at) {
  line = line * source.stride;
  for (size_t i = source.others.size(); i-- > 0;) {
    const For *loop = source.others[i];
    at[loop->name] = loop->min + (i > 0 ? line % loop->extent : line);
    line = line / loop->extent;
  }
  return substitute(at, source.address);
}

class Pass : public IRMutator {
public:
  explicit Pass(const KeysAhead &ahead) : ahead_(ahead) {}

private:
  using IRMutator::visit;

  Stmt visit(const For *op) override {
    if (is_loop(op, ahead_.block_loop)) {
      FindSources find(ahead_.copies);
      op->body.accept(&find);
      sources_ = find.sources;
      block_ = op;
      Stmt result = IRMutator::visit(op);
      block_ = nullptr;
      return result;
    }
    if (block_ && is_loop(op, ahead_.sum_loop) && !sources_.empty())
      return with_prefetch(op);
    const For **kept = is_loop(op, ahead_.row_loop) ? &rows_ : is_loop(op, ahead_.tile_loop) ? &tile_ : nullptr;
    if (!kept)
      return IRMutator::visit(op);
    const For *outside = std::exchange(*kept, op);
    Stmt result = IRMutator::visit(op);
    *kept = outside;
    return result;
  }

  static Expr iteration(const For *loop) {
    return loop ? Variable::make(Halide::Int(32), loop->name) - loop->min : Expr(0);
  }
  static Expr iterations(const For *loop) { return loop ? loop->extent : Expr(1); }

  /// Where a line of a key of the next block lies.
  Expr address(const Source &source, int key, const Expr &line) const {
    std::map<std::string, Expr> at = {{block_->name, Variable::make(Halide::Int(32), block_->name) + 1}};
    for (size_t i = 0; i < source.keys.size(); ++i) {
      int before = i > 0 ? source.keys_of_turn[i - 1] : 1 << 30;
      at[source.keys[i]->name] = source.keys[i]->min + key % before / source.keys_of_turn[i];
    }
    return address_of_line(source, line, at);
  }

  Stmt with_prefetch(const For *op) {
    int lines = 0;
    for (const Source &source : sources_)
      lines += source.lines;
    auto named = [](const char *name, Halide::Type type) { return Variable::make(type, unique_name(name)); };
    auto name = [](const Expr &variable) { return variable.as<Variable>()->name; };
    // A line of all keys takes 1 << parts sums, of which each asks for the same one at as many steps.
    Expr sum = named("sum", Halide::Int(32)), parts = named("parts", Halide::Int(32)), line = sum >> parts;
    Expr begin = named("next", Halide::UInt(64)), further = named("step", Halide::UInt(64)), from, to;
    int before = 0;
    for (const Source &source : sources_) {
      Expr first = address(source, 0, line - before), second = address(source, 1, line - before);
      from = from.defined() ? select(line >= before, first, from) : first;
      to = to.defined() ? select(line >= before, second, to) : second;
      before += source.lines;
    }
    Expr key = (sum & ((1 << parts) - 1)) * (ahead_.keys >> parts) + (iteration(op) >> parts);
    Stmt ahead = ask(begin + Cast::make(Halide::UInt(64), key) * further);
    Stmt loop = For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                          Block::make(ahead, op->body));
    // All have come: the first key's line again, at no cost.
    loop = LetStmt::make(name(further), select(line >= lines, make_zero(Halide::UInt(64)), to - begin), loop);
    loop = LetStmt::make(name(begin), from, loop);
    Expr sums = iterations(rows_) * iterations(tile_);
    loop = LetStmt::make(name(parts), select(sums >= 4 * lines, 2, sums >= 2 * lines, 1, 0), loop);
    return LetStmt::make(name(sum), iteration(rows_) * iterations(tile_) + iteration(tile_), loop);
  }

  KeysAhead ahead_;
  std::vector<Source> sources_;
  const For *block_ = nullptr, *rows_ = nullptr, *tile_ = nullptr;
};

class PassInPlace : public IRMutator {
public:
  explicit PassInPlace(const KeysInPlace &ahead) : ahead_(ahead) {}

private:
  using IRMutator::visit;

  Stmt visit(const ProducerConsumer *op) override {
    for (const KeysAhead::Copy &reader : ahead_.readers)
      if (op->is_producer && op->name == reader.func) {
        std::vector<KeysAhead::Copy> one{reader};
        FindSources find(one);
        op->accept(&find);
        sources_ = find.sources;
        Stmt result = IRMutator::visit(op);
        sources_.clear();
        return result;
      }
    return IRMutator::visit(op);
  }

  Stmt visit(const For *op) override {
    Stmt result = IRMutator::visit(op);
    std::vector<Stmt> asked = op->for_type == ForType::Parallel ? first_keys(op) : std::vector<Stmt>();
    Expr later = Variable::make(Halide::Int(32), op->name) + ahead_.distance;
    for (const Source &source : sources_)
      if (source.keys.front() == op)
        for (int line = 0; line < source.lines; ++line)
          asked.push_back(ask(simplify(address_of_line(source, line, {{op->name, later}}))));
    if (asked.empty())
      return result;
    const For *loop = result.as<For>();
    asked.push_back(loop->body);
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                     Block::make(asked));
  }

  /// Asks for the first keys of each reader, before anything that a task computes is known: where they lie depends on
  /// its number alone, or they are left out.
  std::vector<Stmt> first_keys(const For *task) const {
    FindSources find(ahead_.readers);
    task->body.accept(&find);
    Expr last = task->min + task->extent - 1, next = min(Variable::make(Halide::Int(32), task->name) + 1, last);
    std::vector<Stmt> out;
    for (const KeysAhead::Copy &reader : ahead_.readers) {
      const For *loop = nullptr; // the first over the reader's keys; Halide may have made several of it
      Expr key = Variable::make(Halide::Int(32), unique_name("first"));
      std::vector<Stmt> lines;
      for (const Source &source : find.sources) {
        if (source.copy != &reader || (loop && source.keys.front() != loop))
          continue;
        loop = source.keys.front();
        for (int line = 0; line < source.lines; ++line) {
          Expr address = address_of_line(source, line, {{loop->name, source.first_key + key}});
          for (const auto &[name, begin] : source.around | std::views::reverse)
            address = substitute(name, begin, address);
          if (&reader == &ahead_.readers.front())
            address = substitute(task->name, next, address);
          lines.push_back(ask(simplify(substitute_in_all_lets(address)))); // what it uses is seen then
        }
      }
      if (lines.empty())
        continue;
      Stmt asked = Block::make(lines);
      FindLoads loads;
      asked.accept(&loads);
      bool known = std::none_of(find.names.begin(), find.names.end(),
                                [&](const std::string &name) { return stmt_uses_var(asked, name); });
      if (known && !loads.found)
        out.push_back(For::make(key.as<Variable>()->name, 0, ahead_.distance, ForType::Serial, Halide::Partition::Never,
                                Halide::DeviceAPI::None, asked));
    }
    return out;
  }

  KeysInPlace ahead_;
  std::vector<Source> sources_;
};

class JoinTiles : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Add *op) override {
    Expr mutated = IRMutator::visit(op);
    op = mutated.as<Add>();
    const Mul *tiles = op->a.as<Mul>();
    const Mod *within = op->b.as<Mod>();
    if (!tiles || !within || !equal(tiles->b, within->b) || !as_const_int(within->b))
      return mutated;
    const Sub *sub = tiles->a.as<Sub>();
    const Add *add = tiles->a.as<Add>();
    const Div *tile = (sub ? sub->a : add ? add->a : tiles->a).as<Div>();
    if (!tile || !equal(tile->a, within->a) || !equal(tile->b, within->b))
      return mutated;
    return sub ? tile->a - sub->b * tiles->b : add ? tile->a + add->b * tiles->b : tile->a;
  }
};

} // namespace

std::shared_ptr<IRMutator> join_tiles() { return std::make_shared<JoinTiles>(); }

std::shared_ptr<IRMutator> make_pass(const KeysAhead &ahead) { return std::make_shared<Pass>(ahead); }
std::shared_ptr<IRMutator> make_pass(const KeysInPlace &ahead) { return std::make_shared<PassInPlace>(ahead); }

} // namespace heddle::attention
