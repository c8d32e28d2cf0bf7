// The kind `attention`: weights made from scores over all keys, and the weighted sum of values, such as
//   o[b, i, h, e] = sum[j](softmax[j](f(sum[e](q[b, i, h, e] * k[b, j, h, e]), b, h, i, j)) * v[b, j, h, e])
// for any f. What it takes and how many rows a block has; the scores of all queries never exist at once.
#include "compiler/kernels/attention/key_blocks.h"
#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/attention/schedule.h"
#include "compiler/kernels/kinds.h"

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <cstdlib>

namespace heddle {

namespace attention {

/// Row blocks that share a copy of keys and values. Measured with 48 rows: 24 blocks are 26 % faster at 1024 keys and 8
/// blocks 14 % at 384 than no copy; below 256 rows the copy gains nothing.
static constexpr int64_t blocks_of_task = 24;

/// Row blocks that go over a block of keys before the next block of keys comes, in a task of more than
/// `most_rows_at_once` rows.
static constexpr int64_t blocks_of_group = 8;

/// Rows that can go over a block of keys together. A task that has no more of them copies the block's keys and values
/// when it comes to them; others copy all keys first.
static constexpr int64_t most_rows_at_once = 192;

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

/// Whether keys or values may be narrower than what they are multiplied as: then the copy widens them, once for all
/// rows of a block, and not element by element.
static bool reads_narrow(mlir::func::FuncOp kernel) {
  return llvm::any_of(kernel.getArgumentTypes(), [](mlir::Type type) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
    return tensor && llvm::isa<mlir::FloatType>(tensor.getElementType()) && tensor.getElementTypeBitWidth() < 32;
  });
}

/// The micro-kernel of both products. Those over keys that slide have none for groups: a window may begin within one.
static const MicroKernel &micro_kernel_of(const Match &match, const Target &target) {
  std::vector<contraction::Product> products{match.weighted.product};
  for (auto &[op, roles] : match.roles)
    if (llvm::is_contained(roles, summed))
      products.push_back(*contraction::product_of(llvm::cast<mlir::linalg::LinalgOp>(op)));
  return match.slide ? micro_kernels().front() : micro_kernel_for(products, target);
}

/// Row blocks of a task whose keys slide: neighbouring tasks copy the keys of a window twice, so a task has the rows of
/// two windows or more.
static int64_t blocks_that_slide(const Match &match, int64_t rows) {
  mlir::linalg::LinalgOp product = match.weighted.product.op;
  int64_t window = 64;
  for (auto [extent, axis] : llvm::zip_equal(product.getStaticLoopRanges(), match.weighted.axis_of_loop))
    if (axis < 0 && !mlir::ShapedType::isDynamic(extent))
      window = extent * std::abs(match.slide->key);
  return std::clamp<int64_t>(2 * window / (rows * match.slide->row), 4, 16);
}

/// Whether keys or values are computed where they are read (those of a memory and of a segment, one behind the other):
/// not for every row block again.
static bool computes_keys(const Match &match) {
  for (auto &[op, roles] : match.roles)
    if (std::optional<contraction::Product> product = contraction::product_of(llvm::cast<mlir::linalg::LinalgOp>(op)))
      for (const contraction::Factor *factor : {&product->left, &product->right}) {
        bool of_keys = false, of_rows = false;
        for (unsigned loop : factor->loops.set_bits()) {
          of_keys |= roles[loop] == keys;
          of_rows |= roles[loop] == match.row_axis;
        }
        if (of_keys && !of_rows && !llvm::isa<mlir::BlockArgument>(unwidened(factor->value)))
          return true;
      }
  return false;
}

/// An index in the kernel's body as a formula over the kernel's sizes.
static mlir::AffineExpr formula_of(mlir::Value value) {
  if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value))
    return mlir::getAffineDimExpr(argument.getArgNumber(), value.getContext());
  auto apply = value.getDefiningOp<mlir::affine::AffineApplyOp>();
  if (!apply)
    return {};
  mlir::AffineMap map = apply.getAffineMap();
  std::vector<mlir::AffineExpr> dims, symbols;
  for (auto [i, operand] : llvm::enumerate(apply->getOperands())) {
    mlir::AffineExpr expr = formula_of(operand);
    if (!expr)
      return {};
    (i < map.getNumDims() ? dims : symbols).push_back(expr);
  }
  return map.getResult(0).replaceDimsAndSymbols(dims, symbols);
}

/// How many keys a row has, or nothing where the body doesn't say.
static mlir::AffineExpr number_of_keys(const Match &match) {
  for (auto &[made, roles] : match.roles) {
    auto op = llvm::cast<mlir::linalg::LinalgOp>(made);
    mlir::OpOperand *init = op.getDpsInitOperand(0);
    for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(init).getResults())) {
      auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
      if (!dim || roles[dim.getPosition()] != keys)
        continue;
      auto type = llvm::cast<mlir::RankedTensorType>(init->get().getType());
      if (!type.isDynamicDim(unsigned(axis)))
        return mlir::getAffineConstantExpr(type.getDimSize(unsigned(axis)), made->getContext());
      mlir::Value from = init->get();
      if (auto fill = from.getDefiningOp<mlir::linalg::FillOp>())
        from = fill.getOutputs()[0];
      if (auto empty = from.getDefiningOp<mlir::tensor::EmptyOp>())
        return formula_of(empty.getDynamicSizes()[type.getDynamicDimIndex(unsigned(axis))]);
    }
  }
  return {};
}

/// Rows for many rows with many keys. Measured, 64 features: below 96 rows, or 320 keys, blocks of rows with lanes
/// along the rows are as fast or faster; from some 1300 keys on, blocks of 384 keys pay (512: 2 % slower, 256: 6 %).
static std::vector<ScheduleRow> of_many_keys(mlir::func::FuncOp kernel, const Match &match, mlir::AffineExpr rows,
                                             const MicroKernel &micro_kernel, const Target &target) {
  constexpr int64_t least_rows = 96, least_keys = 320, least_for_blocks = 1280, keys_of_block = 384;
  // Where a block's keys and values come ahead of it, they should leave room in the second cache: 192 to 384 are alike.
  constexpr int64_t keys_at_once = 256;
  // A task copies the keys of its head. Where other axes give tasks enough, that is done once for 4096 rows: 4096
  // causal keys 15 % faster than with 768 rows.
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  int64_t others = 1;
  for (int axis = 0; axis < int(type.getRank()); ++axis)
    if (axis != match.row_axis && axis != match.lane_axis && !type.isDynamicDim(unsigned(axis)))
      others *= type.getDimSize(unsigned(axis));
  int64_t rows_of_task = others >= 4 ? 4096 : 768;
  mlir::AffineExpr keys_of_row = number_of_keys(match);
  if (!rows || !keys_of_row || !takes_key_blocks(match, false))
    return {};
  int64_t height = (target.registers - target.registers / 4) / 2;
  unsigned sizes = unsigned(llvm::count_if(kernel.getArgumentTypes(), [](mlir::Type type) { return type.isIndex(); }));
  std::vector<ScheduleRow> table;
  auto add = [&](int64_t at_a_time, int64_t rows_of_task, int64_t least, bool at_once) {
    int64_t blocks = rows_of_task / height;
    ScheduleRow row{"key_blocks",
                    {{"rows", height},
                     {"keys", at_a_time},
                     {"blocks", blocks},
                     {"group", blocks_of_group},
                     {"at_once", most_rows_at_once}},
                    std::nullopt,
                    std::string(micro_kernel.name)};
    std::vector<mlir::AffineExpr> conditions, wanted{rows - least_rows, keys_of_row - least};
    if (at_once)
      wanted.push_back(blocks * height - rows);
    for (mlir::AffineExpr enough : wanted) {
      auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(enough);
      if (constant && constant.getValue() < 0)
        return false;
      if (!constant)
        conditions.push_back(enough);
    }
    if (!conditions.empty())
      row.when = mlir::IntegerSet::get(sizes, 0, conditions, llvm::SmallVector<bool>(conditions.size(), false));
    table.push_back(row);
    return conditions.empty();
  };
  if (takes_key_blocks(match, true) && (add(keys_at_once, most_rows_at_once, least_for_blocks, true) ||
                                        add(keys_of_block, rows_of_task, least_for_blocks, false)))
    return table;
  add(0, rows_of_task, least_keys, false);
  return table;
}

static std::vector<ScheduleRow> choose(mlir::func::FuncOp kernel, const Target &target) {
  std::optional<Match> matched = match(kernel);
  int axis = matched->row_axis;
  const MicroKernel &micro_kernel = micro_kernel_of(*matched, target);
  bool grouped = micro_kernel.group > 1, copies = grouped || reads_narrow(kernel) || computes_keys(*matched);
  std::string multiplied(micro_kernel.name);
  auto row = [&](int64_t rows) {
    if (matched->slide)
      return ScheduleRow{
          "copied_keys", {{"rows", rows}, {"blocks", blocks_that_slide(*matched, rows)}}, std::nullopt, multiplied};
    return rows < 3 * target.lanes && !copies
               ? ScheduleRow{"row_blocks", {{"rows", rows}}, std::nullopt, multiplied}
               : ScheduleRow{"copied_keys", {{"rows", rows}, {"blocks", blocks_of_task}}, std::nullopt, multiplied};
  };
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  auto extents = kernel.getResultAttrOfType<mlir::AffineMapAttr>(0, ir::names::extents);
  // Taller blocks read keys and values less often, but leave more of the last block empty. Measured: 3 vectors win from
  // some 256 rows on, 2 vectors by 3 to 5 % at 128 and 197. In groups of bf16 2 vectors win at 64 to 1024 rows.
  struct Height {
    int64_t rows, least;
  };
  std::vector<Height> heights = {
      {3 * target.lanes, 16 * target.lanes}, {2 * target.lanes, 2 * target.lanes + 1}, {target.lanes, 0}};
  if (grouped)
    heights.erase(heights.begin());
  mlir::AffineExpr number;
  if (!type.isDynamicDim(unsigned(axis)))
    number = mlir::getAffineConstantExpr(type.getDimSize(unsigned(axis)), kernel.getContext());
  else if (extents)
    number = extents.getValue().getResult(unsigned(axis));
  std::vector<ScheduleRow> table = of_many_keys(kernel, *matched, number, micro_kernel, target);
  if (!table.empty() && !table.back().when)
    return table;
  if (!type.isDynamicDim(unsigned(axis))) {
    for (const Height &height : heights)
      if (type.getDimSize(unsigned(axis)) >= height.least) {
        table.push_back(row(height.rows));
        return table;
      }
  }
  if (!extents) {
    table.push_back(row(heights[0].rows));
    return table;
  }
  unsigned sizes = unsigned(llvm::count_if(kernel.getArgumentTypes(), [](mlir::Type type) { return type.isIndex(); }));
  for (const Height &height : heights) {
    table.push_back(row(height.rows));
    if (height.least > 0)
      table.back().when =
          mlir::IntegerSet::get(sizes, 0, {extents.getValue().getResult(unsigned(axis)) - height.least}, {false});
  }
  return table;
}

static const Variant variants[] = {
    {"row_blocks",
     "scores of a block of query rows at a time, one row per vector lane, for all keys",
     {{"rows", "rows of a block", 8, 128, {16, 32, 48}}},
     true},
    {"copied_keys",
     "row blocks that share a task, in which the keys and values of a head follow each other",
     {{"rows", "rows of a block", 8, 128, {16, 48}}, {"blocks", "blocks of rows of a task", 1, 1 << 20, {2}}},
     true},
    {"key_blocks",
     "tiles of rows and keys, keys along the vector lanes, a block of keys at a time for a task's blocks of rows",
     {{"rows", "rows of a block", 1, 32, {6}},
      {"keys", "keys of a block; 0: all of them", 0, 1 << 20, {0, 64}},
      {"blocks", "blocks of rows of a task", 1, 1 << 20, {3}},
      {"group", "blocks of rows that pass over a block of keys before the next one comes", 1, 1 << 20, {8}},
      {"at_once", "rows of a task up to which keys and values are copied block by block", 0, 1 << 20, {192}}},
     true},
};

} // namespace attention

extern const KernelKind attention_kind;
const KernelKind attention_kind = {
    "attention", attention::variants, attention::matches, nullptr, attention::choose, nullptr, attention::schedule,
};

} // namespace heddle
