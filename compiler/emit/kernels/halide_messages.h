// Halide reports mistakes by exceptions of its own, and warnings through a process-wide reporter.
#pragma once

#include <Halide.h>

#include <string>

namespace heddle {

/// From now on mistakes are exceptions, and warnings, which speak of schedules and mean nothing to users, go nowhere.
void report_by_exceptions();

/// What an exception says, on one line, of names without the numbers that make them unique (rows$2).
std::string message_of(const Halide::Error &error);

} // namespace heddle
