// Which formulas an entry itself computes, exactly, instead of a kernel.
#pragma once

#include "dsl/check/program.h"

namespace heddle {

/// Whether `expr` is made of whole numbers and conditions by what 64 bits hold exactly: all but powers and absolute
/// values.
bool is_whole(const Expr &expr);

} // namespace heddle
