// The kind `convolution`: a product with a factor that is read at computed places, with what follows it element by
// element (a norm with fixed statistics, a residual, an activation), such as
//   y[b, i, j, o] = relu(sum[c, u, v](x[b, S * i + u - P, S * j + v - P, c | 0] * w[o, c, u, v]) + shift[o])
// What it takes, the layouts that it may want of its weight, and its variants.
#include "compiler/kernels/convolution/problem.h"
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/product/staged_tiles.h"

namespace heddle {

namespace convolution {

static bool matches(mlir::func::FuncOp kernel) { return is_convolution(kernel); }

static std::vector<mlir::AffineMap> layouts(mlir::func::FuncOp kernel, unsigned argument, const Target &target) {
  std::vector<mlir::AffineMap> out;
  if (panels_of_weight(kernel, argument, target.lanes, target))
    for (int64_t width : panel_widths(*problem_of(kernel, target), target))
      out.push_back(panels_of_weight(kernel, argument, width, target));
  return out;
}

static const Variant *const variants[] = {&tiles, &chunks, &contraction::staged_tiles, &contraction::tensor_tiles,
                                          &each_element};

} // namespace convolution

extern const KernelKind convolution_kind;
const KernelKind convolution_kind = {.name = "convolution",
                                     .variants = convolution::variants,
                                     .matches = convolution::matches,
                                     .layouts = convolution::layouts,
                                     .writes_over = true};

} // namespace heddle
