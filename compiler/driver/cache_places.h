// Where the command keeps what it finds again: measured schedules, compiled kernels.
#pragma once

#include <string>

namespace heddle {

/// An environment variable; empty where there is none.
std::string variable(const char *name);

/// What the environment variable says, else `place` in the user's folder for caches; empty where there is no such
/// folder.
std::string cache_place(const char *name, const std::string &place);

} // namespace heddle
