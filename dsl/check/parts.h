// Checks a file that declares no model: its functions and modules, each by itself. What only a caller knows (the sizes
// of a module, size parameters, the rank of a pack) is a symbol, and only what is wrong whatever it stands for is said.
#pragma once

#include "dsl/check/check.h"

namespace heddle {

std::vector<Diagnostic> check_parts(Sources &sources, const syntax::File &file, const CheckOptions &options);

} // namespace heddle
