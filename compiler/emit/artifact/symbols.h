// Names of functions in objects.
#pragma once

#include "dsl/errors/result.h"

#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// The object with each symbol that begins with a `from`, and goes on with no digit, beginning with its `to` instead.
Result<std::string> rename_symbols(const std::string &object,
                                   const std::vector<std::pair<std::string, std::string>> &from_to);

} // namespace heddle
