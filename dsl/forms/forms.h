// Equal formulas as one form. A sum of products whose places divide indices, or whose conditions say which terms count,
// is written as the sum over the terms that count, at places that are sums of indices:
//
//   y[i] = sum[u where (i + 1 - u) % 2 == 0](x[(i + 1 - u) // 2] * w[u])         i < 2 N, u < 4
//
//   f[p, r]    = w[2 r + (p + 1) % 2]                                            p < 2, r < 2
//   z[p, i]    = sum[r](x[i + (p + 1) // 2 - r] * f[p, r])                       i < N
//   y[i]       = z[i % 2, i // 2]
//
// An equality gives an index its value (dsl/differentiate/solve.h, which gradients ask, too), an index that is divided
// is the two that it is made of, and what a product reads of a weight at computed places is a tensor of its own. The
// values of all definitions stay what they are, in other orders of summation where terms that are 0 are left out.
#pragma once

#include "dsl/check/program.h"
#include "dsl/differentiate/whole.h"
#include "dsl/forms/factors.h"
#include "dsl/forms/readers.h"

#include <deque>
#include <set>
#include <string>

namespace heddle::forms {

class Forms {
public:
  explicit Forms(const Program &program);

  /// The steps of each entry in their forms. They, and what is made for them, live as long as this does.
  std::vector<std::vector<Step>> steps(const Program &program);
  /// The tensors of all stages that were made.
  const std::deque<Tensor> &tensors() const { return tensors_; }

private:
  /// `factors`: what it knows of the steps before. `readers`: those of the entry; null in its loops.
  std::vector<Step> rewritten(const std::vector<Step> &steps, FactorForms factors, Readers *readers);
  std::vector<Stage> rewritten(const Stage &stage, Readers *readers);
  /// A sum with its conditions and divided indices solved; none where there are none.
  std::vector<Stage> solved(const Stage &stage);
  /// What is known of the elements of a stage's result: that they are indices of something.
  void note_range(const Stage &stage);
  void note_range(const Tensor *tensor, const Size &below);
  std::vector<Stage> with_views(const Stage &stage, Readers *readers);
  const Tensor *new_tensor(const Stage &of, const std::string &part, Type type, std::vector<Size> shape);

  differentiating::Terms terms_;
  differentiating::Whole whole_{terms_};
  MakeTensor make_ = [this](const Stage &of, const std::string &part, Type type, std::vector<Size> shape) {
    return new_tensor(of, part, type, std::move(shape));
  };
  std::deque<Tensor> tensors_;
  std::set<std::string> names_;
  std::vector<Size> loops_; // around the steps at hand
};

} // namespace heddle::forms
