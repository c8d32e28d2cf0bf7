// What stages read of each other, where that says in which order, and how much of it, to compute.
//
//   t[b, o, n] = sum[c](x[b, c, n] * w[o, c])
//   y[b, o, i] = t[b, 4 * o + i % 4, i // 4]          becomes    y[b, o, i] = sum[c](x[b, c, i // 4] * w[4 * o + i % 4,
//   c])
//
//   p[b, v] = exp(x[b, v] - top[b]) / n[b]
//   y[b]    = -log(p[b, ids[b]])                      becomes    y[b] = -log(exp(x[b, ids[b]] - top[b]) / n[b])
#pragma once

#include "dsl/forms/stages.h"

#include <map>
#include <optional>

namespace heddle::forms {

class Readers {
public:
  Readers(differentiating::Terms &terms, const Entry &entry);

  /// A stage of the entry itself, not of a loop; they are to be given in their order.
  void note(const Stage &stage);
  /// The product that `copy` is of, at the places of the copy: where nothing else reads a product of a weight.
  std::optional<Stage> product_at(const Stage &copy);
  /// `stage` with the formulas of others of which it reads some elements, chosen by data, and only sums read more.
  std::optional<Stage> with_formulas(const Stage &stage);
  /// Without stages that nothing reads.
  std::vector<Step> needed(std::vector<Step> steps) const;

private:
  struct Uses {
    int all = 0, sums = 0; // by steps in any way, by sums
  };
  void count(const Expr *e, bool is_sum);
  void count(const Step &step);

  differentiating::Terms &terms_;
  const Entry &entry_;
  std::map<const Tensor *, Uses> uses_;
  std::map<const Tensor *, Stage> stages_; // by result
};

} // namespace heddle::forms
