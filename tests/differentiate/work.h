// The multiply-adds of a program's products: of sums whose terms multiply what depends on different indices of the
// result.
#pragma once

#include "dsl/check/program.h"

#include <algorithm>
#include <functional>
#include <set>

namespace heddle::tests {

class Work {
public:
  explicit Work(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  double of(const std::vector<Step> &steps) const {
    double sum = 0;
    for (const Step &step : steps)
      if (auto *stage = std::get_if<Stage>(&step.what))
        sum += is_product(*stage) ? points(*stage) : 0;
      else if (auto *loop = std::get_if<Loop>(&step.what))
        sum += double(loop->index.extent.evaluate(dims_)) * of(loop->steps);
    return sum;
  }

private:
  double points(const Stage &stage) const {
    double product = 1;
    for (const auto *list : {&stage.space, &stage.over})
      for (const Index &index : *list)
        product *= double(index.extent.evaluate(dims_));
    return product;
  }

  static void factors(const Expr *e, std::vector<const Expr *> &out) {
    bool guarded = e->op == Expr::select && e->args[2]->op == Expr::real && e->args[2]->number == 0;
    if (e->op == Expr::mul)
      factors(e->args[0], out), factors(e->args[1], out);
    else if (e->op == Expr::negate || e->op == Expr::cast)
      factors(e->args[0], out);
    else if (guarded)
      factors(e->args[1], out);
    else
      out.push_back(e);
  }

  static void indices(const Expr *e, std::set<int> &out, bool &reads) {
    if (e->op == Expr::index)
      out.insert(e->position);
    reads |= e->op == Expr::read;
    for (const Expr *arg : e->args)
      indices(arg, out, reads);
  }

  static bool is_product(const Stage &stage) {
    if (stage.reducer != Reducer::sum)
      return false;
    std::vector<const Expr *> all;
    factors(stage.value, all);
    int space = int(stage.space.size());
    std::vector<std::set<int>> kept; // of each factor that is summed: its indices of the result
    for (const Expr *factor : all) {
      std::set<int> own;
      bool reads = false;
      indices(factor, own, reads);
      if (!reads || own.empty() || *own.rbegin() < space)
        continue;
      own.erase(own.lower_bound(space), own.end());
      kept.push_back(own);
    }
    auto lacks = [](const std::set<int> &a, const std::set<int> &b) {
      return !std::includes(b.begin(), b.end(), a.begin(), a.end());
    };
    for (const auto &a : kept)
      for (const auto &b : kept)
        if (lacks(a, b) && lacks(b, a))
          return true;
    return false;
  }

  std::vector<int64_t> dims_;
};

} // namespace heddle::tests
