// What the page of `heddle show --html` says about a compiled model, as plain values: the kernels of each entry in
// order, what each costs for given sizes, where its results live, and how the weights lie. Read from a planned module.
#pragma once

#include "dsl/errors/result.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace heddle {

struct CompileGoal;
struct Model;
struct Target;

/// A place in a source text that a kernel computes: one definition.
struct PageSource {
  std::string path;
  int line = 0; // from 1
  bool operator<(const PageSource &o) const { return std::tie(path, line) < std::tie(o.path, o.line); }
  bool operator==(const PageSource &) const = default;
};

struct PageTensor {
  std::string what;  // "slot 2", "result `y`", "weight embed.word", "input `x`"
  std::string shape; // "f32[B, S, 768]"
  int64_t bytes = 0; // -1: not known before the call
};

/// One function that is compiled; several calls may share it.
struct PageKernel {
  std::string name, kind;
  struct Row {
    std::string variant, what, params, when;
  };
  std::vector<Row> rows;
  std::vector<PageSource> sources; // what its calls compute, in their order
  std::string why;                 // it is `general`, or a row reduction and no product; else empty
  std::string reduced;             // then: the last reduction in it, and where that stands
  PageSource reduced_at;
  int calls = 0;
  std::string text; // its MLIR
};

/// A launch of a call on a GPU.
struct PageLaunch {
  std::string name;
  int64_t blocks = 0, threads = 0;
  int64_t shared = 0;             // bytes of a block
  std::optional<int> registers;   // of a thread; where NVIDIA's assembler was found, as what follows
  std::optional<int64_t> spilled; // bytes
  int64_t resident = 0;           // blocks on a multiprocessor at once,
  double occupancy = 0;           // and which part of its warps that is
};

/// A line of an entry: a kernel's call, or the head of a loop that the deeper lines after it belong to.
struct PageStep {
  int depth = 0;
  std::string loop;                     // "for t in S (64 iterations)"; empty: a call
  int kernel = -1;                      // number in `kernels`
  std::vector<std::string> definitions; // that it computes
  PageSource source;                    // where the last of them stands
  std::vector<PageSource> sources;      // where each of them stands
  std::string first;                    // as the library's observer tells the call: its first definition
  std::vector<PageTensor> inputs, results;
  int row = -1;                       // of the schedule, for these sizes; -1: not known before the call
  double flops = 0;                   // of one call
  double moved = 0;                   // bytes that one call reads and writes; -1: not known before
  double ms = -1;                     // measured, over all iterations; -1: not measured
  int64_t iterations = 1;             // how often it is called; -1: not known before
  bool once = false;                  // only in the first call of a session; its work and bytes are 0, a later call's
  std::vector<int64_t> sizes;         // of the kernel, at this call; empty: not known before
  std::vector<PageLaunch> launches;   // on a GPU
  double expected = -1, at_roof = -1; // seconds of a call by the cost of its schedule, and at the device's limits
  bool by_memory = false;             // the limit is that of its memory
};

/// A value of the arena, alive from step `first` to step `last`.
struct PageLife {
  int slot = 0, first = 0, last = 0;
  int64_t bytes = 0;
  std::string name, kind; // the definition; the kind of the kernel that makes it
};

struct PageEntry {
  std::string name;
  std::vector<PageTensor> inputs, results;
  std::vector<PageStep> steps;
  std::vector<PageLife> lives;
  std::vector<int64_t> slot_bytes;
  double ms = -1;           // of a call, measured
  std::string not_measured; // why not, where it was tried
};

struct PageWeight {
  std::string name, path, shape, layout;
  int64_t bytes = 0; // packed
  std::vector<int> kernels;
};

/// What the machine can do, beside which measured times are read.
struct PageRoof {
  double gflops = 0, gigabytes = 0; // per second
  int threads = 0;
};

struct PageFacts {
  std::string model, path, target;
  std::optional<PageRoof> roof;                      // of a page with measured times
  std::vector<std::pair<std::string, int64_t>> dims; // and the sizes that the numbers are for
  std::vector<PageKernel> kernels;
  std::vector<PageEntry> entries;
  std::vector<PageWeight> weights;
  std::vector<PageTensor> states;
  std::map<std::string, std::string> texts; // of every file that some kernel comes from
};

/// `sizes`: of dims by name; for the others the bound or 64, whichever is less, as the memory plan assumes.
PageFacts page_facts(const Model &model, mlir::ModuleOp module, const Target &target,
                     const std::map<std::string, int64_t> &sizes);

/// Fills in launches, for a target that is a GPU (page_launches.cc). ptxas: NVIDIA's assembler, or "".
Status add_launches(mlir::ModuleOp module, const Target &target, const std::string &ptxas, PageFacts &facts);
/// "96 blocks of 256 threads, 10240 bytes of shared memory, 63 registers; 4 blocks at once, 50 % of the warps".
std::string launch_text(const PageLaunch &launch);
/// "22 % of the roof (memory)": what a call is expected to reach; "" where that is not known.
std::string share_text(const PageStep &step);
/// All launches, by entry and call.
std::string launches_text(const PageFacts &facts);

/// Fills in measured times: compiles the model to a folder that goes away, and calls each entry with made-up inputs of
/// the sizes that the facts are for (page_measure.cc).
Status measure_page(Model &model, const CompileGoal &goal, int threads, PageFacts &facts);

/// The rows of a kernel's schedule (page_schedule.cc, for names of Halide and of the checker do not meet in one file).
/// `sizes`: what the size arguments are at its calls, in the author's names.
std::vector<PageKernel::Row> page_rows(mlir::func::FuncOp kernel, const std::vector<std::string> &sizes);
/// The row that is called where size argument `i` has the value `size(i)`; -1 where that is not known.
int page_row_for(mlir::func::FuncOp kernel, const std::function<std::optional<int64_t>(unsigned)> &size);

/// A kernel of the kind `general` that has more than a hundredth of an entry's work.
struct GeneralWork {
  int entry, kernel; // numbers in the facts
  double share;      // of the entry's work, over all its calls
};

/// All of them. The work of a call is what it takes at a machine's limits, where four operations take as long as moving
/// a byte; calls whose work is only known during the run count for nothing.
std::vector<GeneralWork> general_work(const PageFacts &facts);
/// "`z` takes 98 % of the work of `forward` (N = 64) in a general kernel, the slowest kind: …"; the same of row
/// reductions that would be products.
std::string general_text(const PageFacts &facts, const GeneralWork &work);
/// A line for each, with its place.
std::vector<std::string> general_lines(const PageFacts &facts);

/// The page: one file that needs nothing else.
std::string page_html(const PageFacts &facts);
/// The colour of a kind of kernels on it.
const char *page_colour(const std::string &kind);
/// Kernels under the roofs of the machine, as a drawing; "" where nothing was measured (page_roofline.cc).
std::string roofline_svg(const PageFacts &facts);
/// All measured calls of a kernel.
struct RooflinePoint {
  std::string name, kind; // name: of what the point leads to on the page
  double flops = 0, bytes = 0, ms = 0;
};
std::string roofline_svg(const PageRoof &roof, const std::vector<RooflinePoint> &points);

/// Numbers as pages have them: "3.1 MB", "0.6 Gflop"; "?" below 0.
std::string bytes_text(double bytes);
std::string flops_text(double flops);

/// What pages of Heddle have in common: everything up to the first heading, and text as HTML has it.
std::string page_begin(const std::string &title);
std::string escaped(std::string_view text);

} // namespace heddle
