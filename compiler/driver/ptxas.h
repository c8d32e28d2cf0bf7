// NVIDIA's assembler, which nothing needs: where it is found, libraries carry machine code beside PTX, and `show` tells
// the registers of launches.
#pragma once

#include "dsl/errors/result.h"

#include <string>

namespace heddle {

/// $HEDDLE_PTXAS, else `ptxas` where programs are looked for; "": there is none, or $HEDDLE_PTXAS is `none`.
Result<std::string> find_ptxas();

} // namespace heddle
