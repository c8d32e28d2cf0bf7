// The variant `packed_panels`: the tiles of `tiles`, where the factor with lanes is packed whole, by all threads,
// before blocks of rows pass over its panels. So a block stays in the second cache and no panel is packed twice, where
// `tiles` lets all rows pass over a panel, and rows that don't fit come from further away for each of them. Rows that
// lie side by side are copied as in `copied_rows`.
#include "compiler/halide/threads.h"
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/schedule.h"

namespace heddle::contraction {

/// Columns at most: panels take as much room as the factor, which for those of a vocabulary would be a lot.
static constexpr int64_t most_columns = 4096;

/// Bytes that a core reads from the third cache in a cycle, below which this pays. On Zen 4 (12 and more) rows that
/// come from there beside a panel that doesn't take no longer; on an Emerald Rapids (8) packed panels save 6 to 10 %.
static constexpr double slow_l3 = 10;

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  if (!packs(problem))
    return Error{"panels of weights are packed before"};
  if (target.l3_bytes_per_cycle >= slow_l3)
    return Error{"rows come fast enough from the third cache"};
  if (!problem.has_rows || problem.rows_of_tile > 0)
    return Error{"no rows share all panels"};
  if (!problem.others.empty())
    return Error{"rows share panels with few others"};
  if (problem.columns < 0 || problem.columns > most_columns)
    return Error{"panels of so many columns would take too much room"};
  if (problem.micro_kernel->group > 1)
    return Error{"the terms of a group do not lie side by side"};
  const bool copied = problem.terms_apart > 0;
  const int64_t block = copied ? rows_of_copied_block(problem, target) : rows_of_block(problem, target);
  std::vector<Candidate> out;
  for (int64_t width : panel_widths(problem, target))
    for (int64_t rows : tile_heights(problem, width, target)) {
      Candidate made = candidate(problem, packed_panels.name,
                                 {rows, width, 0, Ahead::next_panel, false, block, 1, copied, true}, target);
      made.row.params = {{"rows", rows},
                         {"width", width},
                         {"block", block},
                         {"copied", copied},
                         {"tasks", copied ? copying_tasks : least_tasks}};
      out.push_back(std::move(made));
    }
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  Shape shape = shape_of(row);
  shape.ahead = Ahead::next_panel;
  shape.packed = true;
  shape.copied = row.params.at("copied") != 0;
  return schedule(kernel, shape, target);
}

static std::vector<Parameter> parameters() {
  return {{"rows", "rows of accumulators of a tile", 1, 64, {6, 8, 12}},
          {"width", "columns of a panel and of a tile", 8, 1024, {32, 48}},
          {"block", "rows at most that pass over all panels together", 1, 1 << 20, {96, 512}},
          {"copied", "1: a block's rows, which lie side by side, are copied tile by tile", 0, 1, {0, 1}},
          {"tasks", "tasks at least, as far as there are tiles", 1, 1 << 16, {least_tasks}}};
}

const Variant packed_panels = {.name = "packed_panels",
                               .what =
                                   "tiles over panels that are packed whole, before rows pass over them block by block",
                               .parameters = parameters(),
                               .candidates = candidates,
                               .schedule = apply,
                               .multiplies = true};

} // namespace heddle::contraction
