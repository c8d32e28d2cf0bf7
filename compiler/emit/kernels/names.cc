// A name consists of parts between dots, as panels$3.s0.r5$x does. Numbers that make unique are those behind a $, and
// those of names of one letter (t12). A part that may have such a number, which is the first one of a name, whose
// number may be missing, and each one with a $, gets the number of its turn among those that are alike without theirs,
// behind a sign that no other name has.
#include "compiler/emit/kernels/names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

namespace {

using namespace Halide::Internal;
using Halide::Expr;

/// Past the digits from a place on.
size_t past_digits(std::string_view part, size_t at) {
  while (at < part.size() && std::isdigit(static_cast<unsigned char>(part[at])))
    ++at;
  return at;
}

/// A part without the numbers that make it unique.
std::string stem_of(std::string_view part) {
  std::string out(part.substr(0, 1));
  size_t digits = past_digits(part, 1);
  for (size_t at = digits == part.size() || part[digits] == '$' ? digits : 1; at < part.size();) {
    size_t end = part[at] == '$' ? past_digits(part, at + 1) : at + 1;
    if (end == at + 1) // no number
      out += part[at];
    at = end;
  }
  return out;
}

/// Numbers what a statement defines as it comes to it, of one kernel.
class Numbering : public IRMutator {
private:
  using IRMutator::visit;

  std::string numbered(const std::string &name) {
    std::string out;
    for (size_t at = 0, dot = 0; dot < name.size(); at = dot + 1) {
      dot = std::min(name.find('.', at), name.size());
      std::string part = name.substr(at, dot - at);
      if (!part.empty() && (at == 0 || part.find('$') != part.npos)) {
        auto [known, is_new] = parts_.try_emplace(part);
        if (is_new) {
          std::string stem = stem_of(part);
          known->second = stem + "$n" + std::to_string(turns_[stem]++);
        }
        part = known->second;
      }
      out += (at ? "." : "") + part;
    }
    return out;
  }
  /// Of what is defined here: before what it holds for is looked at.
  std::string define(const std::string &name) {
    auto [known, is_new] = renamed_.try_emplace(name);
    if (is_new)
      known->second = numbered(name);
    return known->second;
  }
  const std::string &name_of(const std::string &name) const {
    auto found = renamed_.find(name);
    return found == renamed_.end() ? name : found->second;
  }

  Expr visit(const Variable *op) override {
    return Variable::make(op->type, name_of(op->name), op->image, op->param, op->reduction_domain);
  }
  Expr visit(const Let *op) override {
    std::string name = define(op->name);
    Expr value = mutate(op->value);
    return Let::make(name, value, mutate(op->body));
  }
  Stmt visit(const LetStmt *op) override {
    std::string name = define(op->name);
    Expr value = mutate(op->value);
    return LetStmt::make(name, value, mutate(op->body));
  }
  Stmt visit(const For *op) override {
    std::string name = define(op->name);
    Expr min = mutate(op->min), extent = mutate(op->extent);
    return For::make(name, min, extent, op->for_type, op->partition_policy, op->device_api, mutate(op->body));
  }
  Expr visit(const Load *op) override {
    return Load::make(op->type, name_of(op->name), mutate(op->index), op->image, op->param, mutate(op->predicate),
                      op->alignment);
  }
  Stmt visit(const Store *op) override {
    return Store::make(name_of(op->name), mutate(op->value), mutate(op->index), op->param, mutate(op->predicate),
                       op->alignment);
  }
  Stmt visit(const Allocate *op) override {
    std::string name = define(op->name);
    std::vector<Expr> extents;
    for (const Expr &extent : op->extents)
      extents.push_back(mutate(extent));
    Expr condition = mutate(op->condition), made = op->new_expr.defined() ? mutate(op->new_expr) : Expr();
    return Allocate::make(name, op->type, op->memory_type, extents, condition, mutate(op->body), made,
                          op->free_function, op->padding);
  }
  Stmt visit(const Free *op) override { return Free::make(name_of(op->name)); }

  std::map<std::string, std::string> renamed_; // whole names
  std::map<std::string, std::string> parts_;
  std::map<std::string, int> turns_; // by stem
};

} // namespace

std::shared_ptr<IRMutator> number_names() { return std::make_shared<Numbering>(); }

} // namespace heddle
