// Waits for changes of a model's files.
#pragma once

#include "dsl/errors/result.h"

#include <functional>
#include <string>

namespace heddle {

/// Calls `work` now and after every change of a .heddle file or config.json in the folder of `path` (or in `path`, a
/// folder), until the process is interrupted. Returns only where the folder cannot be watched.
Status watch_folder(const std::string &path, const std::function<void()> &work);

} // namespace heddle
