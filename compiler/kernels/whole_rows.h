// Row reductions on a GPU in one launch.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle {

extern const Variant whole_rows;

} // namespace heddle
