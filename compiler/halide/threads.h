// Loops that are cut for as many threads as a run has, which kernels ask when they run. Results don't depend on it: it
// decides which task computes an element, never how.
#pragma once

#include <Halide.h>

#include <vector>

namespace heddle {

/// The runtime's function that says how many threads share the loops of a run; 1 in a task, whose loops nobody shares.
inline constexpr const char *threads_function = "heddle_sharing_threads";

/// What that function says.
Halide::Expr threads_of_run();

/// Threads for which sizes of tasks are chosen when compiling.
inline constexpr int few_threads = 4;

/// Tasks that a kernel should at least have on few threads, so that they finish together.
inline constexpr int least_tasks = 16;

/// Tasks that a loop should have: for few threads as many as given, for more of them more in proportion.
Halide::Expr tasks_for_threads(int for_few);

/// One value for few threads, another one for more of them.
Halide::Expr by_threads(Halide::Expr few, Halide::Expr many);

/// Iterations of a task that has so many of all for few threads: for more of them ever fewer, down to an eighth, so
/// that each has some.
Halide::Expr iterations_of_task(Halide::Expr for_few, Halide::Expr all);

/// Makes one parallel loop of loops of a Func, which are given innermost first; returns it. Each of its iterations is a
/// task. Halide knows an index exactly that is a quotient of the task's number, or a quotient of a remainder, as those
/// of the two outermost loops are. Of a remainder of a remainder it only sees a range, and room for one index would
/// begin at the first of that range: an axis of which a task has room for one index is among these two, or a loop of
/// the task.
Halide::Var fuse_into_tasks(Halide::Func &func, const std::vector<Halide::Var> &loops);

} // namespace heddle
