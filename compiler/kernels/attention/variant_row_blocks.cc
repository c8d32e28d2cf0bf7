// The variants `row_blocks` and `copied_keys`: blocks of rows with lanes along the rows, and all keys at once. A task
// of the first is one block, which reads keys and values where they lie; a task of the second copies those of its head
// for several blocks.
#include "compiler/kernels/attention/problem.h"
#include "compiler/kernels/attention/row_blocks.h"
#include "compiler/kernels/product/cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace heddle::attention {

/// Row blocks that share a copy of keys and values. Measured with 48 rows: 24 blocks are 26 % faster at 1024 keys and 8
/// blocks 14 % at 384 than no copy; below 256 rows the copy gains nothing.
static constexpr int64_t blocks_of_task = 24;

/// Cycles of a call in blocks of so many rows, of which `blocks` share a copy; 0: there is none.
static double cycles(const Problem &problem, int64_t rows, int64_t blocks, llvm::ArrayRef<int64_t> given,
                     const Target &target) {
  Sizes sizes = sizes_of(problem, given);
  double keys = problem.match.slide ? double(problem.window + rows * problem.match.slide->row) : sizes.keys;
  double number = std::ceil(sizes.rows / double(rows)), features = double(problem.features);
  // Scores: a tile has all rows of a block and as many keys as the registers hold.
  int64_t vectors = rows / target.lanes, keys_of_tile = std::clamp<int64_t>(target.registers * 3 / 4 / vectors, 1, 12);
  double scores = std::ceil(keys / double(keys_of_tile)) * std::ceil(features / problem.micro_kernel->group) *
                  step_cycles({keys_of_tile, vectors}, false, target) * problem.products;
  double values = value_cycles(problem, rows, keys, target);
  double block = scores + values + softmax_cycles(double(rows) * keys, problem.gathered_by_rows, target);
  // Of many keys a tile reads one element of each line at a time, and the scores of a block leave the nearest cache
  // (measured on Cascade Lake: from 320 keys on tiles with lanes along the keys are faster).
  block *= 1 + 0.1 * std::clamp((keys - 128) / 256, 0.0, 1.0);
  // As they lie, the keys of a head share few sets of the caches; those that are narrow are widened at every read, and
  // those that are computed are computed again for every block.
  double copying = 0;
  if (blocks > 0)
    copying = std::ceil(number / double(blocks)) * keys * features * 2 / target.lanes * 4;
  else
    block *= 1 + std::min(0.25, 0.25 * std::max(0.0, keys - 128) / 896) + (problem.narrow ? 0.5 : 0) +
             (problem.computed ? 0.5 : 0);
  return sizes.heads * (number * block + copying);
}

/// Row blocks of a task whose keys slide: neighbouring tasks copy the keys of a window twice, so a task has the rows of
/// two windows or more.
static int64_t blocks_that_slide(const Problem &problem, int64_t rows) {
  int64_t window = problem.window * std::abs(problem.match.slide->key);
  return std::clamp<int64_t>(2 * window / (rows * problem.match.slide->row), 4, 16);
}

static Candidate candidate(const Problem &problem, std::string_view variant, int64_t rows, int64_t blocks,
                           const Target &target) {
  ScheduleRow row{.variant = std::string(variant),
                  .params = {{"rows", rows}},
                  .micro_kernel = std::string(problem.micro_kernel->name)};
  if (blocks > 0)
    row.params["blocks"] = blocks;
  return {row,
          [=](llvm::ArrayRef<int64_t> sizes) { return target.seconds(cycles(problem, rows, blocks, sizes, target)); }};
}

static Result<std::vector<Candidate>> plain_candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  if (problem.match.slide)
    return Error{"keys slide along with the rows, and are copied"};
  if (problem.micro_kernel->group > 1)
    return Error{"groups of terms lie side by side in copies only"};
  std::vector<Candidate> out;
  for (int64_t vectors : {1, 2, 3})
    out.push_back(candidate(problem, row_blocks.name, vectors * target.lanes, 0, target));
  return out;
}

static Result<std::vector<Candidate>> copying_candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  std::vector<Candidate> out;
  for (int64_t vectors : {1, 2, 3}) {
    int64_t rows = vectors * target.lanes;
    out.push_back(candidate(problem, copied_keys.name, rows,
                            problem.match.slide ? blocks_that_slide(problem, rows) : blocks_of_task, target));
  }
  return out;
}

/// Applies a row; `blocks`: of a task, which share a copy of keys and values, 0: there is none.
static Status schedule(LoweredKernel &kernel, const ScheduleRow &row, int blocks, const Target &target) {
  std::optional<Match> matched = match(kernel.function);
  if (!matched)
    return Error{"attention's schedule needs a product over keys behind its result"};
  int rows = int(row.params.at("rows"));
  if (rows % target.lanes != 0 || rows > 8 * target.lanes)
    return Error{"blocks of " + std::to_string(rows) + " rows are no whole vectors of " + std::to_string(target.lanes)};
  return schedule_row_blocks(kernel, *matched, *find_micro_kernel(row.micro_kernel), rows, blocks, target);
}

static Status schedule_plain(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return schedule(kernel, row, 0, target);
}

static Status schedule_copying(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return schedule(kernel, row, int(row.params.at("blocks")), target);
}

const Variant row_blocks = {.name = "row_blocks",
                            .what = "scores of a block of query rows at a time, one row per vector lane, for all keys",
                            .parameters = {{"rows", "rows of a block", 8, 128, {16, 32, 48}}},
                            .candidates = plain_candidates,
                            .schedule = schedule_plain,
                            .multiplies = true};

const Variant copied_keys = {
    .name = "copied_keys",
    .what = "row blocks that share a task, in which the keys and values of a head follow each other",
    .parameters = {{"rows", "rows of a block", 8, 128, {16, 48}},
                   {"blocks", "blocks of rows of a task", 1, 1 << 20, {2}}},
    .candidates = copying_candidates,
    .schedule = schedule_copying,
    .multiplies = true};

} // namespace heddle::attention
