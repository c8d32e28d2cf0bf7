// Kernels that no particular kind takes: attention written out, reductions that meet at other axes, several results.
#include "harness.h"

#include "compiler/kernels/rows.h"

using namespace heddle::test;

namespace {

/// Runs a kernel under the fallback kind whatever kind would take it.
void check_general(const std::string &text, const std::vector<std::vector<int64_t>> &sizes, double relative) {
  KernelText kernel(text);
  const heddle::KernelKind &kind = *heddle::find_kind("general");
  mlir::Builder builder(kernel.function().getContext());
  std::vector<heddle::ScheduleRow> rows = all_rows(kind);
  kernel.function()->setAttr("heddle.kernel", builder.getStringAttr("general"));
  kernel.function()->setAttr("heddle.schedule", heddle::schedule_attribute(builder.getContext(), rows));
  for (bool with_asserts : {true, false}) {
    CompiledKernel compiled(kernel.function(), 0, *heddle::find_target("native"), with_asserts);
    for (const std::vector<int64_t> &size : sizes) {
      std::vector<Values> inputs = random_inputs(kernel.function(), size, 3);
      EXPECT_TRUE(close(compiled.run(size, inputs), evaluate(kernel.function(), size, inputs), relative));
    }
  }
}

TEST(GeneralKernels, compute_masked_attention) {
  check_general(lit_kernel("attention_mask", {{"x12x", "x3x"}, {"64", "20"}, {" 12,", " 3,"}}),
                {{0, 4}, {1, 1}, {2, 5}, {2, 37}}, 1e-5);
}

TEST(GeneralKernels, compute_products_with_packed_weights) {
  check_general(lit_kernel("contraction_bias_gelu", {{"3072", "100"}, {"768", "60"}}), {{1}, {3}}, 1e-5);
}

TEST(GeneralKernels, compute_patch_embeddings) {
  check_general(lit_kernel("patch_embedding", {{"768", "50"},
                                               {"196", "9"},
                                               {"224", "12"},
                                               {"x16x16", "x4x4"},
                                               {"16, 16", "4, 4"},
                                               {"floordiv 14 * 16", "floordiv 3 * 4"},
                                               {"mod 14 * 16", "mod 3 * 4"}}),
                {{1}, {2}}, 1e-5);
}

TEST(GeneralKernels, compute_the_norm_of_a_whole_tensor) {
  check_all_rows(R"(
    func.func private @k(%m: index, %x: tensor<?x20xf32> {heddle.extents = affine_map<(m) -> (m, 20)>})
        -> (tensor<?x20xf32> {heddle.extents = affine_map<(m) -> (m, 20)>}, tensor<f32>) {
      %zero = arith.constant 0.0 : f32
      %e0 = tensor.empty() : tensor<f32>
      %e = tensor.empty(%m) : tensor<?x20xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
      %s = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> ()>],
                           iterator_types = ["reduction", "reduction"]}
           ins(%x : tensor<?x20xf32>) outs(%f : tensor<f32>) {
      ^bb0(%p: f32, %o: f32):
        %q = arith.mulf %p, %p : f32
        %v = arith.addf %o, %q : f32
        linalg.yield %v : f32
      } -> tensor<f32>
      %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> ()>, affine_map<(m, n) -> (m, n)>],
                           iterator_types = ["parallel", "parallel"]}
           ins(%x, %s : tensor<?x20xf32>, tensor<f32>) outs(%e : tensor<?x20xf32>) {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %r = math.sqrt %q : f32
        %v = arith.divf %p, %r : f32
        linalg.yield %v : f32
      } -> tensor<?x20xf32>
      return %y, %s : tensor<?x20xf32>, tensor<f32>
    })",
                 "general", {{0}, {1}, {7}, {59}});
}

/// As the gradient of a bias is: fewer columns than a tile has, several tiles and a part of one, more tiles than tasks.
TEST(GeneralKernels, compute_sums_over_rows) {
  for (const char *width : {"5", "301", "1024"})
    check_all_rows(with(R"(
    func.func private @k(%b: index, %m: index, %x: tensor<?x?xWxf32> {heddle.extents = affine_map<(b, m) -> (b, m, W)>})
        -> (tensor<Wxf32>) {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<Wxf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<Wxf32>) -> tensor<Wxf32>
      %s = linalg.generic {indexing_maps = [affine_map<(n, b, m) -> (b, m, n)>, affine_map<(n, b, m) -> (n)>],
                           iterator_types = ["parallel", "reduction", "reduction"]}
           ins(%x : tensor<?x?xWxf32>) outs(%f : tensor<Wxf32>) {
      ^bb0(%p: f32, %o: f32):
        %v = arith.addf %o, %p : f32
        linalg.yield %v : f32
      } -> tensor<Wxf32>
      return %s : tensor<Wxf32>
    })",
                        "W", width),
                   "general", {{1, 1}, {2, 3}, {3, 90}});
}

TEST(RowReductionKernels, average_over_an_outer_axis_with_lanes_along_the_inner_one) {
  for (const char *width : {"5", "16", "60", "211"})
    check_all_rows(with_width(R"(
      #bsd = affine_map<(b, d, s) -> (b, s, d)>
      #bd = affine_map<(b, d, s) -> (b, d)>
      func.func private @k(%b: index, %s: index, %x: tensor<?x?xWxf32> {heddle.extents = affine_map<(b, s) -> (b, s, W)>},
                           %m: tensor<?x?xi1> {heddle.extents = affine_map<(b, s) -> (b, s)>})
          -> (tensor<?xWxf32> {heddle.extents = affine_map<(b, s) -> (b, W)>}) {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty(%b) : tensor<?xWxf32>
        %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xWxf32>) -> tensor<?xWxf32>
        %y = linalg.generic {indexing_maps = [#bsd, affine_map<(b, d, s) -> (b, s)>, #bd], iterator_types = ["parallel", "parallel", "reduction"]}
             ins(%x, %m : tensor<?x?xWxf32>, tensor<?x?xi1>) outs(%f : tensor<?xWxf32>) {
        ^bb0(%p: f32, %q: i1, %o: f32):
          %z = arith.constant 0.0 : f32
          %t = arith.select %q, %p, %z : f32
          %v = arith.addf %o, %t : f32
          linalg.yield %v : f32
        } -> tensor<?xWxf32>
        return %y : tensor<?xWxf32>
      })",
                              width),
                   "row_reduction", {{0, 2}, {2, 0}, {1, 1}, {3, 37}});
}

} // namespace
