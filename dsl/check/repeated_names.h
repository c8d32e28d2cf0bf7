// Lists in which each name stands once: what a function or an entry takes, what an entry gives, the sizes of a module,
// what a loop carries.
#pragma once

#include "dsl/syntax/tree.h"

#include <functional>

namespace heddle::checking {

/// Calls `found` with each name that its list has already, in all of the file, used or not.
void find_repeated(const syntax::File &file, const std::function<void(const syntax::Name &)> &found);

} // namespace heddle::checking
