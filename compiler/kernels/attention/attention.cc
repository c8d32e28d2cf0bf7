// The kind `attention`: weights made from scores over all keys, and the weighted sum of values, such as
//   o[b, i, h, e] = sum[j](softmax[j](f(sum[e](q[b, i, h, e] * k[b, j, h, e]), b, h, i, j)) * v[b, j, h, e])
// for any f. What it takes and how many rows a block has; the scores of all queries never exist at once.
#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/attention/schedule.h"
#include "compiler/kernels/kinds.h"

#include "compiler/ir/dialect.h"

#include <algorithm>
#include <cstdlib>

namespace heddle {

namespace attention {

/// Row blocks that share a copy of keys and values. Measured with 48 rows: 24 blocks are 26 % faster at 1024 keys and 8
/// blocks 14 % at 384 than no copy; below 256 rows the copy gains nothing.
static constexpr int64_t blocks_of_task = 24;

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

/// Whether keys or values may be narrower than what they are multiplied as: then the copy widens them, once for all
/// rows of a block, and not element by element.
static bool reads_narrow(mlir::func::FuncOp kernel) {
  return llvm::any_of(kernel.getArgumentTypes(), [](mlir::Type type) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
    return tensor && llvm::isa<mlir::FloatType>(tensor.getElementType()) && tensor.getElementTypeBitWidth() < 32;
  });
}

static std::optional<Panels> panels(mlir::func::FuncOp, unsigned, const Target &) { return std::nullopt; }

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
        if (of_keys && !of_rows && !llvm::isa<mlir::BlockArgument>(factor->value))
          return true;
      }
  return false;
}

static std::vector<ScheduleRow> choose(mlir::func::FuncOp kernel, const Target &target) {
  std::optional<Match> matched = match(kernel);
  int axis = matched->row_axis;
  bool narrow = reads_narrow(kernel), computed = computes_keys(*matched);
  auto row = [&](int64_t rows) {
    if (matched->slide)
      return ScheduleRow{"copied_keys", {{"rows", rows}, {"blocks", blocks_that_slide(*matched, rows)}}, std::nullopt};
    return rows < 3 * target.lanes && !narrow && !computed
               ? ScheduleRow{"row_blocks", {{"rows", rows}}, std::nullopt}
               : ScheduleRow{"copied_keys", {{"rows", rows}, {"blocks", blocks_of_task}}, std::nullopt};
  };
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  auto extents = kernel.getResultAttrOfType<mlir::AffineMapAttr>(0, ir::names::extents);
  // Taller blocks read keys and values less often, but leave more of the last block empty. Measured: 3 vectors win from
  // some 256 rows on, 2 vectors by 3 to 5 % at 128 and 197.
  struct Height {
    int64_t rows, least;
  };
  const Height heights[] = {
      {3 * target.lanes, 16 * target.lanes}, {2 * target.lanes, 2 * target.lanes + 1}, {target.lanes, 0}};
  if (!type.isDynamicDim(unsigned(axis))) {
    for (const Height &height : heights)
      if (type.getDimSize(unsigned(axis)) >= height.least)
        return {row(height.rows)};
  }
  if (!extents)
    return {row(heights[0].rows)};
  unsigned sizes = unsigned(llvm::count_if(kernel.getArgumentTypes(), [](mlir::Type type) { return type.isIndex(); }));
  std::vector<ScheduleRow> table;
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
     {{"rows", {16, 32, 48}}}},
    {"copied_keys",
     "row blocks that share a task, in which the keys and values of a head follow each other",
     {{"rows", {16, 48}}, {"blocks", {2}}}},
};

} // namespace attention

extern const KernelKind attention_kind;
const KernelKind attention_kind = {
    "attention", attention::variants, attention::matches, attention::panels, attention::choose,
    nullptr,     attention::schedule,
};

} // namespace heddle
