// Measuring in a process of its own, so that a candidate that crashes, hangs or takes all memory ends no search. The
// search starts this program again with the word below; a job comes in on standard input, as JSON, and a line of JSON
// goes out on standard output for each thing that begins or has ended, so that what ended the process is known.
//
//   {"target": …, "threads": 1, "sizes": […], "scalars": […], "seconds": 2, "work": operations, "memory": bytes,
//    "options": [MLIR, …]}
//     →
//   {"compiling": 3}  {"compiled": 3}  {"running": 3}  {"ran": 3, "seconds": …}  {"turn": 0}
//   {"fault": 3, "why": …}  {"result": 3, "seconds": …}  {"peak": …}  {"done": true}
//
// The results of option 0 are what the others' are compared with.
#pragma once

#include <string_view>

namespace heddle::tune {

inline constexpr std::string_view worker_word = "--measure-candidates";

/// The process's exit status.
int run_worker();

/// Of the worker: memory ran out, which may be the fault of no single option.
inline constexpr int out_of_memory = 3;

} // namespace heddle::tune
