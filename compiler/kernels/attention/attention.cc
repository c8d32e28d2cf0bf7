// The kind `attention`: weights made from scores over all keys, and the weighted sum of values, such as
//   o[b, i, h, e] = sum[j](softmax[j](f(sum[e](q[b, i, h, e] * k[b, j, h, e]), b, h, i, j)) * v[b, j, h, e])
// for any f. The scores of all queries never exist at once.
#include "compiler/kernels/attention/problem.h"
#include "compiler/kernels/each_element.h"

namespace heddle {

namespace attention {

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

static std::vector<mlir::AffineExpr> ranges(mlir::func::FuncOp kernel) {
  std::optional<Match> matched = match(kernel);
  std::vector<mlir::AffineExpr> out;
  for (mlir::AffineExpr extent : {rows_of(kernel, *matched), keys_of(*matched)})
    if (extent && !llvm::is_contained(out, extent))
      out.push_back(extent);
  return out;
}

static const Variant *const variants[] = {&row_blocks,  &copied_keys, &key_blocks,
                                          &staged_keys, &tensor_keys, &each_element};

} // namespace attention

extern const KernelKind attention_kind;
const KernelKind attention_kind = {.name = "attention",
                                   .variants = attention::variants,
                                   .matches = attention::matches,
                                   .ranges = attention::ranges,
                                   .most_rows = 7}; // one row, few and many, each over few keys and over many

} // namespace heddle
