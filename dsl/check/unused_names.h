// Warnings about names: what nothing mentions, and what hides something else.
#pragma once

#include "dsl/errors/diagnostics.h"
#include "dsl/syntax/tree.h"

namespace heddle::checking {

void warn_unused(const Sources &sources, Diagnostics &diagnostics, const syntax::File &file);

} // namespace heddle::checking
