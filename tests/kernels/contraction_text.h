// A dense layer with an epilogue, of any size and layout, which several tests of contractions compile.
#pragma once

#include "harness.h"

#include <string>

namespace heddle::test {

/// y[m, o] = gelu-like(sum[i](x[m, i] * w[o, i]) + b[o]) + r[m, o], of N columns and K terms, in panels of WIDTH.
inline constexpr const char *dense = R"(
func.func private @k(%M: index, %x: tensor<?x{K}xf32> {heddle.extents = affine_map<(M) -> (M, {K})>},
    %w: tensor<{N}x{K}xf32> {{layout}},
    %b: tensor<{N}xf32>, %r: tensor<?x{N}xf32> {heddle.extents = affine_map<(M) -> (M, {N})>})
    -> (tensor<?x{N}xf32> {heddle.extents = affine_map<(M) -> (M, {N})>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x{N}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x{N}xf32>) -> tensor<?x{N}xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x{K}xf32>, tensor<{N}x{K}xf32>) outs(%f : tensor<?x{N}xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x{N}xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, o) -> (m, o)>, affine_map<(m, o) -> (o)>, affine_map<(m, o) -> (m, o)>, affine_map<(m, o) -> (m, o)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%p, %b, %r : tensor<?x{N}xf32>, tensor<{N}xf32>, tensor<?x{N}xf32>) outs(%e : tensor<?x{N}xf32>) {
  ^bb0(%pv: f32, %bv: f32, %rv: f32, %out: f32):
    %0 = arith.addf %pv, %bv : f32
    %1 = math.erf %0 : f32
    %2 = arith.mulf %1, %0 : f32
    %3 = arith.addf %2, %rv : f32
    linalg.yield %3 : f32
  } -> tensor<?x{N}xf32>
  return %y : tensor<?x{N}xf32>
})";

inline std::string sized(const char *text, int64_t columns, int64_t depth, const std::string &layout) {
  return with(with(with(text, "{N}", std::to_string(columns)), "{K}", std::to_string(depth)), "{layout}",
              layout.empty() ? "" : "heddle.layout = #heddle.layout<" + layout + ">");
}

inline std::string dense_text(int64_t columns, int64_t depth, int64_t width) {
  std::string w = std::to_string(width);
  return sized(dense, columns, depth, width ? "(n, k) -> (n floordiv " + w + ", k, n mod " + w + ")" : "");
}

/// y[b, n, k] = 2 * sum[m](g[b, m, n] * x[b, m, k]), of two b, with N rows and K columns.
inline constexpr const char *gradient = R"(
func.func private @k(%M: index, %g: tensor<2x?x{N}xf32> {heddle.extents = affine_map<(M) -> (2, M, {N})>},
    %x: tensor<2x?x{K}xf32> {heddle.extents = affine_map<(M) -> (2, M, {K})>})
    -> (tensor<2x{N}x{K}xf32> {heddle.extents = affine_map<(M) -> (2, {N}, {K})>}) {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<2x{N}x{K}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x{N}x{K}xf32>) -> tensor<2x{N}x{K}xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, n, k, m) -> (b, m, n)>, affine_map<(b, n, k, m) -> (b, m, k)>,
                                        affine_map<(b, n, k, m) -> (b, n, k)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%g, %x : tensor<2x?x{N}xf32>, tensor<2x?x{K}xf32>) outs(%f : tensor<2x{N}x{K}xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x{N}x{K}xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, n, k) -> (b, n, k)>, affine_map<(b, n, k) -> (b, n, k)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x{N}x{K}xf32>) outs(%e : tensor<2x{N}x{K}xf32>) {
  ^bb0(%pv: f32, %out: f32):
    %0 = arith.mulf %pv, %two : f32
    linalg.yield %0 : f32
  } -> tensor<2x{N}x{K}xf32>
  return %y : tensor<2x{N}x{K}xf32>
})";

/// The same without b.
inline std::string plain_gradient(int64_t rows, int64_t columns) {
  std::string text = sized(gradient, rows, columns, "");
  for (auto [with_b, without] : {std::pair("tensor<2x", "tensor<"),
                                 {"(b, n, k, m)", "(n, k, m)"},
                                 {"(b, n, k)", "(n, k)"},
                                 {"(b, m, n)", "(m, n)"},
                                 {"(b, m, k)", "(m, k)"},
                                 {"-> (2, ", "-> ("},
                                 {"[\"parallel\", ", "["}})
    text = with(text, with_b, without);
  return text;
}

} // namespace heddle::test
