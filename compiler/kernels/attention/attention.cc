// The kind `attention`: weights made from scores over all keys, and the weighted sum of values, such as
//   o[b, i, h, e] = sum[j](softmax[j](f(sum[e](q[b, i, h, e] * k[b, j, h, e]), b, h, i, j)) * v[b, j, h, e])
// for any f. What it takes and how many rows a block has; the scores of all queries never exist at once.
#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/attention/schedule.h"
#include "compiler/kernels/kinds.h"

#include "compiler/ir/dialect.h"

namespace heddle {

namespace attention {

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

static std::optional<Panels> panels(mlir::func::FuncOp, unsigned, const Target &) { return std::nullopt; }

static std::vector<ScheduleRow> choose(mlir::func::FuncOp kernel, const Target &target) {
  int axis = match(kernel)->row_axis;
  auto row = [](int64_t rows) { return ScheduleRow{"row_blocks", {{"rows", rows}}, std::nullopt}; };
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  auto extents = kernel.getResultAttrOfType<mlir::AffineMapAttr>(0, ir::names::extents);
  int64_t few = target.lanes, many = 3 * target.lanes;
  if (!type.isDynamicDim(unsigned(axis)))
    return {row(type.getDimSize(unsigned(axis)) <= 2 * few ? few : many)};
  if (!extents)
    return {row(many)};
  unsigned sizes = unsigned(llvm::count_if(kernel.getArgumentTypes(), [](mlir::Type type) { return type.isIndex(); }));
  std::vector<ScheduleRow> table = {row(many), row(few)};
  table[0].when =
      mlir::IntegerSet::get(sizes, 0, {extents.getValue().getResult(unsigned(axis)) - (2 * few + 1)}, {false});
  return table;
}

static const Variant variants[] = {
    {"row_blocks",
     "scores of a block of query rows at a time, one row per vector lane, for all keys",
     {{"rows", {16, 32, 48}}}},
};

} // namespace attention

extern const KernelKind attention_kind;
const KernelKind attention_kind = {
    "attention", attention::variants, attention::matches, attention::panels, attention::choose,
    nullptr,     attention::schedule,
};

} // namespace heddle
