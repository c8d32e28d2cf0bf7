// The variant `key_blocks`: tiles of a few rows and some vectors of keys, lanes along the keys, for all keys at once or
// a block of them at a time.
#include "compiler/kernels/attention/key_blocks.h"
#include "compiler/kernels/attention/problem.h"
#include "compiler/kernels/product/cost.h"
#include "compiler/kernels/product/matrix_tile.h"

#include <algorithm>
#include <cmath>

namespace heddle::attention {

/// Row blocks that go over a block of keys before the next block of keys comes, in a task of more than
/// `most_rows_at_once` rows.
static constexpr int64_t blocks_of_group = 8;

/// Rows that can go over a block of keys together. A task that has no more of them copies the block's keys and values
/// when it comes to them; others copy all keys first.
static constexpr int64_t most_rows_at_once = 192;

/// Keys of a block. Measured, 64 features: 512 are 2 % slower, 256 6 %. Where a block's keys and values come ahead of
/// it, they should leave room in the second cache: 192 to 384 are alike.
static constexpr int64_t keys_of_block = 384, keys_at_once = 256;

/// Cycles to add up the lanes of a vector (halves, their sum, and so on) and to store the one number.
static constexpr double across_lanes = 4;

static double cycles(const Problem &problem, const KeyBlockSizes &shape, llvm::ArrayRef<int64_t> given,
                     const Target &target) {
  Sizes sizes = sizes_of(problem, given);
  double features = double(problem.features), number = std::ceil(sizes.rows / shape.rows);
  int64_t vectors = shape.rows * 4 <= target.registers * 3 / 4 ? 4 : shape.rows * 2 <= target.registers * 3 / 4 ? 2 : 1;
  double tile_keys = double(vectors * target.lanes), padded = std::ceil(sizes.keys / tile_keys) * tile_keys;
  bool in_place = shape.keys == 0 && shape.blocks == 1 && problem.micro_kernel->group == 1;
  bool across = in_place && shape.rows == 1; // lanes along a key's features, added up key by key
  double scores = across ? padded * (features / target.lanes * problem.products + across_lanes)
                         : padded / tile_keys * std::ceil(features / problem.micro_kernel->group) *
                               step_cycles({shape.rows, vectors}, false, target) * problem.products;
  double values = value_cycles(problem, shape.rows, padded, target);
  double block =
      1.03 * (scores + values) + softmax_cycles(double(shape.rows) * padded, problem.gathered_by_keys, target);
  // All keys and values of a head at once leave the rest no room in the second cache.
  bool at_once = shape.keys > 0 && sizes.rows <= shape.at_once && shape.blocks * shape.rows <= shape.at_once;
  if (shape.keys == 0)
    block *= 1 + 0.15 * std::clamp((padded * features * 8 - 0.5 * double(target.l2)) / double(target.l2) * 4, 0.0, 1.0);
  else
    block *= 1.01 + 12.0 / shape.keys; // joining blocks
  // Keys are transposed and values copied for the row blocks of a task.
  double copies = std::ceil(number / shape.blocks);
  double copying = copies * padded * features / target.lanes * (across ? 0 : in_place ? 6 : at_once ? 10 : 12);
  return sizes.heads * (number * block + copying) *
         (shape.keys > 0 && shape.blocks * shape.rows <= shape.at_once && !at_once ? 1.15 : 1);
}

static ScheduleRow row_of(const KeyBlockSizes &shape, const MicroKernel &micro_kernel) {
  return {.variant = std::string(key_blocks.name),
          .params = {{"rows", shape.rows},
                     {"keys", shape.keys},
                     {"blocks", shape.blocks},
                     {"group", shape.group},
                     {"at_once", shape.at_once}},
          .micro_kernel = std::string(micro_kernel.name)};
}

/// The same where a matrix unit multiplies: a step takes 32 rows, 32 keys or features, and a tile's terms.
static double matrix_cycles(const Problem &problem, const KeyBlockSizes &shape, llvm::ArrayRef<int64_t> given,
                            const Target &target) {
  constexpr double step = MatrixTile::step_cycles, call = MatrixTile::call_cycles;
  Sizes sizes = sizes_of(problem, given);
  double features = double(problem.features), number = std::ceil(sizes.rows / shape.rows);
  double terms = problem.matrix_kernel->group * MatrixTile::groups;
  double padded = std::ceil(sizes.keys / MatrixTile::width) * MatrixTile::width;
  double blocks = std::ceil(sizes.keys / shape.keys);
  double scores = padded / MatrixTile::width * (std::ceil(features / terms) * step + call) * problem.products;
  double values = std::ceil(features / MatrixTile::width) * (std::ceil(padded / terms) * step + blocks * call);
  double softmax = softmax_cycles(double(shape.rows) * padded, problem.gathered_by_keys, target);
  double copies = std::ceil(number / shape.blocks);
  double copying = copies * padded * features / target.lanes * 12;
  return sizes.heads * (number * (scores + values + softmax) * (1.01 + 12.0 / shape.keys) + copying);
}

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  if (problem.match.slide)
    return Error{"keys slide along with the rows"};
  if (!problem.rows || !problem.keys)
    return Error{"nothing says how many rows and keys there are"};
  if (!takes_key_blocks(problem.match, false))
    return Error{"the weights are no softmax over the keys"};
  // A task copies the keys of its head. Where other axes give tasks enough, that is done once for 4096 rows: 4096
  // causal keys 15 % faster than with 768 rows.
  int64_t others = 1, height = (target.registers - target.registers / 4) / 2;
  for (mlir::AffineExpr other : problem.others)
    if (auto constant = llvm::dyn_cast_if_present<mlir::AffineConstantExpr>(other))
      others *= constant.getValue();
  int64_t rows_of_task = others >= 4 ? 4096 : 768;
  std::vector<Candidate> out;
  auto offer = [&](int64_t keys, int64_t rows, int64_t height) {
    KeyBlockSizes shape{int(height), int(keys), int(rows / height), blocks_of_group, most_rows_at_once};
    out.push_back({row_of(shape, *problem.micro_kernel), [=](llvm::ArrayRef<int64_t> sizes) {
                     return target.seconds(cycles(problem, shape, sizes, target));
                   }});
  };
  offer(0, rows_of_task, height);
  if (problem.micro_kernel->group == 1)
    for (int64_t few : {1, 8})
      offer(0, few, few);
  if (takes_key_blocks(problem.match, true)) {
    offer(keys_at_once, most_rows_at_once, height);
    offer(keys_of_block, rows_of_task, height);
  }
  if (problem.matrix_kernel && takes_key_blocks(problem.match, true) && problem.features % MatrixTile::width == 0)
    for (int64_t rows : {most_rows_at_once, rows_of_task}) {
      KeyBlockSizes shape{MatrixTile::width, keys_at_once, int(rows / MatrixTile::width), blocks_of_group,
                          most_rows_at_once};
      out.push_back({row_of(shape, *problem.matrix_kernel), [=](llvm::ArrayRef<int64_t> sizes) {
                       return target.seconds(matrix_cycles(problem, shape, sizes, target));
                     }});
    }
  return out;
}

static Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  std::optional<Match> matched = match(kernel.function);
  if (!matched)
    return Error{"attention's schedule needs a product over keys behind its result"};
  const MicroKernel &micro_kernel = *find_micro_kernel(row.micro_kernel);
  auto parameter = [&](const char *name) { return int(row.params.at(name)); };
  KeyBlockSizes sizes{.rows = parameter("rows"),
                      .keys = parameter("keys"),
                      .blocks = parameter("blocks"),
                      .group = parameter("group"),
                      .at_once = parameter("at_once")};
  int most = micro_kernel.takes_tiles() ? MatrixTile::width : target.registers - target.registers / 4;
  if (sizes.rows > most || sizes.keys % (4 * target.lanes) != 0 || !takes_key_blocks(*matched, sizes.keys > 0))
    return Error{"blocks of " + std::to_string(sizes.keys) + " keys and " + std::to_string(sizes.rows) +
                 " rows don't suit this kernel on this target"};
  return schedule_key_blocks(kernel, *matched, micro_kernel, sizes, target);
}

const Variant key_blocks = {
    .name = "key_blocks",
    .what =
        "tiles of rows and keys, keys along the vector lanes, a block of keys at a time for a task's blocks of rows",
    .parameters = {{"rows", "rows of a block", 1, 32, {6}},
                   {"keys", "keys of a block; 0: all of them", 0, 1 << 20, {0, 64}},
                   {"blocks", "blocks of rows of a task", 1, 1 << 20, {1, 3}},
                   {"group",
                    "blocks of rows that pass over a block of keys before the next one comes",
                    1,
                    1 << 20,
                    {blocks_of_group}},
                   {"at_once",
                    "rows of a task up to which keys and values are copied block by block",
                    0,
                    1 << 20,
                    {most_rows_at_once}}},
    .candidates = candidates,
    .schedule = schedule,
    .multiplies = true,
    .version = 3};

} // namespace heddle::attention
