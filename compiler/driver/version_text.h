// What `heddle --version` says.
#pragma once

#include <string>

namespace heddle {

/// "heddle 0.1.0 (commit 0123456789ab, LLVM 22.1.0, Halide 21.0.0)"; no commit where it was built from an archive.
std::string version_text();

} // namespace heddle
