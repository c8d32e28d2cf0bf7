// "did you mean …?": the known name that is closest in spelling to an unknown one.
#pragma once

#include <string>
#include <vector>

namespace heddle::checking {

/// Empty where nothing is close.
std::string nearest_of(const std::string &name, const std::vector<std::string> &candidates);

} // namespace heddle::checking
