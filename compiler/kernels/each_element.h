// The plainest way to compute a kernel of any kind on a GPU: one launch for each stage that is stored, one thread for
// each element of it.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle {

extern const Variant each_element;

} // namespace heddle
