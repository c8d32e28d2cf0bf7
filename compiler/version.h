// The version that `heddle --version`, libraries and manifests give.
#pragma once

namespace heddle {

inline constexpr const char *version = "0.1.0";

} // namespace heddle
