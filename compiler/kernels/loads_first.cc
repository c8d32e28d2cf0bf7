// Acts on stretches of stores without a loop or a condition between them, none of which reads what another one writes
// under its own name. Lets of a stretch keep their order, under names of their own.
#include "compiler/kernels/loads_first.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace heddle {

namespace hi = Halide::Internal;
using Halide::Expr;
using hi::Stmt;

namespace {

class LoadsFirst : public hi::IRMutator {
public:
  Stmt mutate(const Stmt &stmt) override {
    Stretch stretch;
    if (stmt.defined() && stretch.take(stmt) && stretch.may_be_reordered())
      return stretch.reordered();
    return IRMutator::mutate(stmt);
  }
  using IRMutator::mutate;

private:
  class Stretch {
  public:
    /// False where there is more than lets and stores.
    bool take(const Stmt &stmt) {
      if (const hi::Block *block = stmt.as<hi::Block>())
        return take(block->first) && take(block->rest);
      if (const hi::LetStmt *let = stmt.as<hi::LetStmt>()) {
        Expr value = hi::substitute(names_, let->value);
        lets_.emplace_back(hi::unique_name(let->name), value);
        auto outer = names_.find(let->name);
        Expr before = outer == names_.end() ? Expr() : outer->second;
        names_[let->name] = hi::Variable::make(value.type(), lets_.back().first);
        bool taken = take(let->body);
        if (before.defined())
          names_[let->name] = before;
        else
          names_.erase(let->name);
        return taken;
      }
      const hi::Store *store = stmt.as<hi::Store>();
      if (!store)
        return false;
      Expr value = hi::substitute(names_, store->value);
      lets_.emplace_back(hi::unique_name(store->name + ".value"), value);
      stores_.push_back(hi::Store::make(store->name, hi::Variable::make(value.type(), lets_.back().first),
                                        hi::substitute(names_, store->index), store->param,
                                        hi::substitute(names_, store->predicate), store->alignment));
      written_.insert(store->name);
      return true;
    }

    /// Whether several buffers are written, and none of them read.
    bool may_be_reordered() const {
      class Reads : public hi::IRVisitor {
      public:
        std::set<std::string> found;

      protected:
        using IRVisitor::visit;
        void visit(const hi::Load *load) override {
          found.insert(load->name);
          IRVisitor::visit(load);
        }
      } reads;
      for (const auto &[name, value] : lets_)
        value.accept(&reads);
      for (const Stmt &store : stores_)
        store.accept(&reads);
      return written_.size() > 1 && std::none_of(written_.begin(), written_.end(),
                                                 [&](const std::string &name) { return reads.found.count(name) > 0; });
    }

    Stmt reordered() const {
      Stmt out = hi::Block::make(stores_);
      for (size_t i = lets_.size(); i-- > 0;)
        out = hi::LetStmt::make(lets_[i].first, lets_[i].second, out);
      return out;
    }

  private:
    std::vector<std::pair<std::string, Expr>> lets_; // values of the stores among them
    std::vector<Stmt> stores_;
    std::set<std::string> written_;
    std::map<std::string, Expr> names_; // of the lets around, by what they were called
  };
};

} // namespace

std::shared_ptr<hi::IRMutator> loads_first() { return std::make_shared<LoadsFirst>(); }

} // namespace heddle
