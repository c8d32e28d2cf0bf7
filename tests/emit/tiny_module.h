// A module as the pipeline leaves it, by hand: two layers of relu(x W^T + b) over one weight, whose second
// kernel's output is also viewed as [B, 2, N/2]. Small enough to know every number.
#pragma once

#include "compiler/ir/dialect.h"
#include "compiler/passes/plan_memory.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <string>

namespace heddle {

inline const char *tiny_module = R"mlir(
module @tiny attributes {heddle.dims = [{name = "B", most = 64 : i64}]} {
  heddle.weight @w : tensor<6x6xf32> names ["fc.weight"] stored [6, 6] layout <(n, k) -> (n floordiv 4, k, n mod 4)>
  heddle.weight @b : tensor<6xf32> names ["fc.bias"] stored [6]

  func.func @apply(%x: tensor<?x6xf32> {heddle.name = "x", heddle.extents = affine_map<(B) -> (B, 6)>})
      -> (tensor<?x2x3xf32> {heddle.name = "y"}, tensor<?x6xf32> {heddle.name = "same"}) attributes {heddle.entry} {
    %B = heddle.dim "B"
    %w = heddle.get @w : tensor<6x6xf32>
    %b = heddle.get @b : tensor<6xf32>
    %0 = func.call @k0(%B, %x, %w, %b) : (index, tensor<?x6xf32>, tensor<6x6xf32>, tensor<6xf32>) -> tensor<?x6xf32>
    %1 = func.call @k0(%B, %0, %w, %b) : (index, tensor<?x6xf32>, tensor<6x6xf32>, tensor<6xf32>) -> tensor<?x6xf32>
    %2 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [%B, 2, 3] : tensor<?x6xf32> into tensor<?x2x3xf32>
    return %2, %1 : tensor<?x2x3xf32>, tensor<?x6xf32>
  }

  func.func private @k0(%d0: index, %x: tensor<?x6xf32> {heddle.extents = affine_map<(d0) -> (d0, 6)>},
                        %w: tensor<6x6xf32> {heddle.layout = #heddle.layout<(n, k) -> (n floordiv 4, k, n mod 4)>}, %b: tensor<6xf32>)
      -> (tensor<?x6xf32> {heddle.extents = affine_map<(d0) -> (d0, 6)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "stages"}]} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty(%d0) : tensor<?x6xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                                          affine_map<(m, n, k) -> (m, n)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<?x6xf32>, tensor<6x6xf32>) outs(%f : tensor<?x6xf32>) {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %product = arith.mulf %u, %v : f32
      %sum = arith.addf %acc, %product : f32
      linalg.yield %sum : f32
    } -> tensor<?x6xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>,
                                          affine_map<(m, n) -> (m, n)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%p, %b : tensor<?x6xf32>, tensor<6xf32>) outs(%e : tensor<?x6xf32>) {
    ^bb0(%u: f32, %v: f32, %out: f32):
      %sum = arith.addf %u, %v : f32
      %relu = arith.maximumf %sum, %zero : f32
      linalg.yield %relu : f32
    } -> tensor<?x6xf32>
    return %y : tensor<?x6xf32>
  }
}
)mlir";

/// A context that holds a module and what it says about it.
struct ModuleFixture {
  ModuleFixture() {
    mlir::DialectRegistry registry;
    ir::register_dialects(registry);
    context.appendDialectRegistry(registry);
  }
  bool parse(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    return bool(module);
  }
  bool plan(const std::string &text) { return parse(text) && mlir::succeeded(passes::plan_memory(*module)); }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace heddle
