#include "dsl/check/multiply_adds.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace heddle {
namespace {

double points(const Stage &stage, const std::vector<int64_t> &dims) {
  double product = 1;
  for (const auto *list : {&stage.space, &stage.over})
    for (const Index &index : *list)
      product *= double(index.extent.evaluate(dims));
  return product;
}

void factors(const Expr *e, std::vector<const Expr *> &out) {
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

void indices(const Expr *e, std::set<int> &out, bool &reads) {
  for (const Expr *node : nodes_of(e)) {
    if (node->op == Expr::index)
      out.insert(node->position);
    reads |= node->op == Expr::read;
  }
}

bool is_product(const Stage &stage) {
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

bool has_gradient(const std::vector<Step> &steps) {
  return std::ranges::any_of(steps, [](const Step &step) {
    auto *stage = std::get_if<Stage>(&step.what);
    auto *loop = std::get_if<Loop>(&step.what);
    return (stage && stage->backward) || (loop && has_gradient(loop->steps));
  });
}

} // namespace

MultiplyAdds multiply_adds(const std::vector<Step> &steps, const std::vector<int64_t> &dims) {
  MultiplyAdds sum;
  for (const Step &step : steps)
    if (auto *stage = std::get_if<Stage>(&step.what)) {
      if (is_product(*stage))
        (stage->backward ? sum.backward : sum.forward) += points(*stage, dims);
    } else if (auto *loop = std::get_if<Loop>(&step.what)) {
      auto times = double(loop->index.extent.evaluate(dims));
      MultiplyAdds once = multiply_adds(loop->steps, dims);
      sum.forward += times * once.forward;
      sum.backward += times * once.backward;
    }
  return sum;
}

std::string gradient_costs(const Program &program, const std::map<std::string, int64_t> &dims) {
  std::vector<int64_t> values;
  std::string at, out;
  for (const Dim &dim : program.dims) {
    auto given = dims.find(dim.name);
    values.push_back(given != dims.end() ? given->second : std::min<int64_t>(dim.most.value_or(64), 64));
    at += (at.empty() ? ", at " : " ") + dim.name + "=" + std::to_string(values.back());
  }
  for (const Entry &entry : program.entries) {
    if (!has_gradient(entry.steps))
      continue;
    MultiplyAdds of = multiply_adds(entry.steps, values);
    char text[128];
    std::snprintf(text, sizeof text, ": %.4g multiply-adds forward, %.4g backward, ratio %.3f", of.forward, of.backward,
                  of.forward > 0 ? of.backward / of.forward : 0);
    out += "cost of entry " + entry.name + text + at + "\n";
  }
  return out;
}

} // namespace heddle
