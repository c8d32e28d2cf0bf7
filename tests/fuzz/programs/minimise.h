// A failing program made smaller while it fails in the same way.
#pragma once

#include "tests/fuzz/programs/verdict.h"

namespace heddle::fuzz {

/// `text` without the calls, lines, words and sizes that its failure does not need. Stops after `seconds`.
std::string minimise(const std::string &text, Verdict::Kind kind, int seconds);

} // namespace heddle::fuzz
