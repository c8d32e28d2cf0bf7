// Products of a few rows on a GPU, such as a step's of a text that is generated: a variant of the kind contraction.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle::contraction {

extern const Variant few_rows;

} // namespace heddle::contraction
