// Stages made of terms, and terms of stages.
#pragma once

#include "dsl/check/program.h"
#include "dsl/differentiate/terms.h"

#include <functional>

namespace heddle::forms {

/// A tensor for a stage that stands in for `of`, or is a part of it: of that name behind the stage's, type and shape.
using MakeTensor =
    std::function<const Tensor *(const Stage &of, const std::string &part, Type type, std::vector<Size>)>;

/// The stage of that value over variables, with the place in the source of `like`. It adds what `over` counts.
Stage stage_of(differentiating::Terms &terms, const Stage &like, const Tensor *result, const std::vector<int> &space,
               differentiating::Term value, const std::vector<int> &over);

/// The indices of a stage as new variables: those of its space, then those that it sums over.
std::vector<differentiating::Term> variables_of(differentiating::Terms &terms, const Stage &stage);

/// A sum of reals over products of two factors.
bool is_product(const Stage &stage);

/// The extents of variables.
std::vector<Size> extents(const differentiating::Terms &terms, const std::vector<int> &variables);

} // namespace heddle::forms
