// Kernels that go by rows: element-wise chains, norms, softmax, lookups, at sizes around the vector width.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/targets/target.h"

#include <cmath>

using namespace heddle::test;

namespace {

const std::vector<std::vector<int64_t>> rows_only = {{0}, {1}, {7}, {8}, {9}, {59}, {211}};

TEST(PointwiseKernels, add_a_bias_and_apply_gelu_to_rows_of_any_length) {
  for (int width : {1, 5, 15, 16, 17, 60, 128, 211}) {
    std::string n = std::to_string(width);
    check_all_rows(R"(
      func.func private @k(%m: index, %x: tensor<?x)" +
                       n + R"(xf32> {heddle.extents = affine_map<(m) -> (m, )" + n + R"()>},
                           %b: tensor<)" +
                       n + R"(xf32>)
          -> (tensor<?x)" +
                       n + R"(xf32> {heddle.extents = affine_map<(m) -> (m, )" + n + R"()>}) {
        %e = tensor.empty(%m) : tensor<?x)" +
                       n + R"(xf32>
        %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
                             iterator_types = ["parallel", "parallel"]}
             ins(%x, %b : tensor<?x)" +
                       n + R"(xf32>, tensor<)" + n + R"(xf32>) outs(%e : tensor<?x)" + n + R"(xf32>) {
        ^bb0(%xv: f32, %bv: f32, %o: f32):
          %half = arith.constant 0.5 : f32
          %one = arith.constant 1.0 : f32
          %r = arith.constant 0.70710678 : f32
          %s = arith.addf %xv, %bv : f32
          %z = arith.mulf %s, %r : f32
          %f = math.erf %z : f32
          %g = arith.addf %f, %one : f32
          %h = arith.mulf %s, %half : f32
          %y = arith.mulf %h, %g : f32
          linalg.yield %y : f32
        } -> tensor<?x)" +
                       n + R"(xf32>
        return %y : tensor<?x)" +
                       n + R"(xf32>
      })",
                   "pointwise", rows_only, 5e-6);
  }
}

TEST(PointwiseKernels, read_at_places_that_bounds_hold_back) {
  check_all_rows(R"(
    #mn = affine_map<(m, n) -> (m, n)>
    func.func private @k(%m: index, %x: tensor<?x100xf32> {heddle.extents = affine_map<(m) -> (m, 100)>})
        -> (tensor<?x170xf32> {heddle.extents = affine_map<(m) -> (m, 170)>}) {
      %least = arith.constant 9 : index
      %most = arith.constant 70 : index
      %e = tensor.empty(%m) : tensor<?x170xf32>
      %y = linalg.generic {indexing_maps = [#mn], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x170xf32>) {
      ^bb0(%o: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %back = affine.apply affine_map<(i, j) -> (i + 110 - j)>(%i, %j)
        %back_most = arith.minsi %back, %most : index
        %back_at = arith.maxsi %back_most, %least : index
        %on = affine.apply affine_map<(i, j) -> (j - i - 30)>(%i, %j)
        %on_least = arith.maxsi %on, %least : index
        %on_at = arith.minsi %on_least, %most : index
        %p = tensor.extract %x[%i, %back_at] : tensor<?x100xf32>
        %q = tensor.extract %x[%i, %on_at] : tensor<?x100xf32>
        %v = arith.subf %p, %q : f32
        linalg.yield %v : f32
      } -> tensor<?x170xf32>
      return %y : tensor<?x170xf32>
    })",
                 "pointwise", {{0}, {1}, {40}});
}

TEST(PointwiseKernels, compute_one_long_axis_in_tasks) {
  check_all_rows(R"(
    func.func private @k(%n: index, %x: tensor<?xf32> {heddle.extents = affine_map<(n) -> (n)>})
        -> (tensor<?xf32> {heddle.extents = affine_map<(n) -> (n)>}) {
      %e = tensor.empty(%n) : tensor<?xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
           ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%xv: f32, %o: f32):
        %t = math.tanh %xv : f32
        linalg.yield %t : f32
      } -> tensor<?xf32>
      return %y : tensor<?xf32>
    })",
                 "pointwise", {{0}, {1}, {15}, {16}, {17}, {2047}, {2048}, {5003}, {70001}}, 1e-6);
}

TEST(PointwiseKernels, compute_long_rows_in_pieces) {
  check_all_rows(R"(
    #mn = affine_map<(m, n) -> (m, n)>
    func.func private @k(%m: index, %n: index, %x: tensor<?x?xf32> {heddle.extents = affine_map<(m, n) -> (m, n)>},
                         %s: tensor<?xf32> {heddle.extents = affine_map<(m, n) -> (m)>})
        -> (tensor<?x?xf32> {heddle.extents = affine_map<(m, n) -> (m, n)>}) {
      %e = tensor.empty(%m, %n) : tensor<?x?xf32>
      %y = linalg.generic {indexing_maps = [#mn, affine_map<(m, n) -> (m)>, #mn], iterator_types = ["parallel", "parallel"]}
           ins(%x, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
      ^bb0(%xv: f32, %sv: f32, %o: f32):
        %t = arith.mulf %xv, %sv : f32
        linalg.yield %t : f32
      } -> tensor<?x?xf32>
      return %y : tensor<?x?xf32>
    })",
                 "pointwise",
                 {{0, 5}, {5, 0}, {1, 1}, {3, 17}, {70, 9}, {1, 2047}, {1, 2049}, {2, 5003}, {3, 70001}, {1, 200003}});
}

TEST(RowReductionKernels, write_a_number_per_row_beside_the_row) {
  for (int width : {3, 16, 61, 256}) {
    std::string n = std::to_string(width), t = "tensor<?x" + n + "xf32>";
    std::string row = t + " {heddle.extents = affine_map<(m) -> (m, " + n + ")>}";
    check_all_rows(R"(
      #mn = affine_map<(m, n) -> (m, n)>
      #m = affine_map<(m, n) -> (m)>
      func.func private @k(%m: index, %x: )" +
                       t + R"( {heddle.extents = affine_map<(m) -> (m, )" + n + R"()>})
          -> ()" + row +
                       R"(, tensor<?xf32> {heddle.extents = affine_map<(m) -> (m)>}, )" + row + R"() {
        %least = arith.constant 1.0e-30 : f32
        %em = tensor.empty(%m) : tensor<?xf32>
        %e = tensor.empty(%m) : )" +
                       t + R"(
        %f = linalg.fill ins(%least : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
        %x2 = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
             ins(%x : )" +
                       t + R"() outs(%e : )" + t + R"() {
        ^bb0(%xv: f32, %o: f32):
          %d = arith.mulf %xv, %xv : f32
          linalg.yield %d : f32
        } -> )" + t + R"(
        %largest = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}
             ins(%x2 : )" +
                       t + R"() outs(%f : tensor<?xf32>) {
        ^bb0(%xv: f32, %o: f32):
          %a = math.absf %xv : f32
          %most = arith.maximumf %o, %a : f32
          linalg.yield %most : f32
        } -> tensor<?xf32>
        %y = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]}
             ins(%x2, %largest : )" +
                       t + R"(, tensor<?xf32>) outs(%e : )" + t + R"() {
        ^bb0(%xv: f32, %a: f32, %o: f32):
          %r = arith.divf %xv, %a : f32
          linalg.yield %r : f32
        } -> )" + t + R"(
        return %x2, %largest, %y : )" +
                       t + R"(, tensor<?xf32>, )" + t + R"(
      })",
                   "row_reduction", rows_only, 1e-6);
  }
}

std::string layer_norm(int width, bool residual) {
  std::string n = std::to_string(width), t = "tensor<?x" + n + "xf32>", inverse = std::to_string(1.0 / width);
  return R"(
    #mn = affine_map<(m, n) -> (m, n)>
    #m = affine_map<(m, n) -> (m)>
    #n = affine_map<(m, n) -> (n)>
    #id = affine_map<(m) -> (m)>
    func.func private @k(%m: index, %x: )" +
         t + R"( {heddle.extents = affine_map<(m) -> (m, )" + n + R"()>},
                         %r: )" +
         t + R"( {heddle.extents = affine_map<(m) -> (m, )" + n + R"()>},
                         %g: tensor<)" +
         n + R"(xf32>, %b: tensor<)" + n + R"(xf32>)
        -> ()" +
         (residual ? t + " {heddle.extents = affine_map<(m) -> (m, " + n + ")>}, " : "") + t +
         R"( {heddle.extents = affine_map<(m) -> (m, )" + n + R"()>}) {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty(%m) : )" +
         t + R"(
      %em = tensor.empty(%m) : tensor<?xf32>
      %fm = linalg.fill ins(%zero : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
      %a = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
           ins(%x, %r : )" +
         t + ", " + t + ") outs(%e : " + t + R"() {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %s = arith.addf %p, %q : f32
        linalg.yield %s : f32
      } -> )" +
         t + R"(
      %sum = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}
           ins(%a : )" +
         t + R"() outs(%fm : tensor<?xf32>) {
      ^bb0(%p: f32, %o: f32):
        %s = arith.addf %o, %p : f32
        linalg.yield %s : f32
      } -> tensor<?xf32>
      %mean = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
           ins(%sum : tensor<?xf32>) outs(%em : tensor<?xf32>) {
      ^bb0(%p: f32, %o: f32):
        %c = arith.constant )" +
         inverse + R"( : f32
        %s = arith.mulf %p, %c : f32
        linalg.yield %s : f32
      } -> tensor<?xf32>
      %squares = linalg.generic {indexing_maps = [#mn, #m, #m], iterator_types = ["parallel", "reduction"]}
           ins(%a, %mean : )" +
         t + R"(, tensor<?xf32>) outs(%fm : tensor<?xf32>) {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %d = arith.subf %p, %q : f32
        %dd = arith.mulf %d, %d : f32
        %s = arith.addf %o, %dd : f32
        linalg.yield %s : f32
      } -> tensor<?xf32>
      %y = linalg.generic {indexing_maps = [#mn, #m, #m, #n, #n, #mn], iterator_types = ["parallel", "parallel"]}
           ins(%a, %mean, %squares, %g, %b : )" +
         t + ", tensor<?xf32>, tensor<?xf32>, tensor<" + n + "xf32>, tensor<" + n + "xf32>) outs(%e : " + t + R"() {
      ^bb0(%p: f32, %mu: f32, %v: f32, %gv: f32, %bv: f32, %o: f32):
        %c = arith.constant )" +
         inverse + R"( : f32
        %eps = arith.constant 1.0e-5 : f32
        %var = arith.mulf %v, %c : f32
        %ve = arith.addf %var, %eps : f32
        %rs = math.rsqrt %ve : f32
        %d = arith.subf %p, %mu : f32
        %dr = arith.mulf %d, %rs : f32
        %dg = arith.mulf %dr, %gv : f32
        %z = arith.addf %dg, %bv : f32
        linalg.yield %z : f32
      } -> )" +
         t + R"(
      return )" +
         (residual ? "%a, %y : " + t + ", " + t : "%y : " + t) + R"(
    })";
}

TEST(RowReductionKernels, normalise_rows_of_any_length) {
  for (int width : {1, 3, 15, 16, 17, 60, 64, 211, 768})
    check_all_rows(layer_norm(width, false), "row_reduction", {{0}, {1}, {9}, {211}});
}

TEST(RowReductionKernels, return_the_sum_that_they_normalise_as_a_second_result) {
  for (int width : {16, 60, 768})
    check_all_rows(layer_norm(width, true), "row_reduction", {{0}, {1}, {9}, {211}});
}

TEST(RowReductionKernels, normalise_batches_of_rows_with_their_sum_as_a_second_result) {
  std::string text = layer_norm(60, true);
  for (auto [from, to] : {std::pair<std::string, std::string>{"(m, n) -> ", "(b, m, n) -> (b, "},
                          {"affine_map<(m) -> ", "affine_map<(b, m) -> (b, "},
                          {"(b, (", "(b, "},
                          {"(b, m, n) -> (b, n)", "(b, m, n) -> (n)"},
                          {"%m: index", "%batch: index, %m: index"},
                          {"tensor.empty(%m)", "tensor.empty(%batch, %m)"},
                          {"tensor<?x", "tensor<?x?x"},
                          {"iterator_types = [", "iterator_types = [\"parallel\", "}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  check_all_rows(text, "row_reduction", {{1, 1}, {2, 9}, {3, 37}});
}

const char *softmax = R"(
  #ab = affine_map<(a, b) -> (a, b)>
  #a = affine_map<(a, b) -> (a)>
  func.func private @k(%m: index, %n: index,
                       %x: tensor<?x?xf32> {heddle.extents = affine_map<(m, n) -> (m, n)>},
                       %admitted: tensor<?x?xi1> {heddle.extents = affine_map<(m, n) -> (m, n)>})
      -> (tensor<?x?xf32> {heddle.extents = affine_map<(m, n) -> (m, n)>}) {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %e = tensor.empty(%m, %n) : tensor<?x?xf32>
    %em = tensor.empty(%m) : tensor<?xf32>
    %f0 = linalg.fill ins(%zero : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
    %fm = linalg.fill ins(%lowest : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
    %s = linalg.generic {indexing_maps = [#ab, #ab, #ab], iterator_types = ["parallel", "parallel"]}
         ins(%x, %admitted : tensor<?x?xf32>, tensor<?x?xi1>) outs(%e : tensor<?x?xf32>) {
    ^bb0(%p: f32, %q: i1, %o: f32):
      %inf = arith.constant 0xFF800000 : f32
      %v = arith.select %q, %p, %inf : f32
      linalg.yield %v : f32
    } -> tensor<?x?xf32>
    %max = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
         ins(%s : tensor<?x?xf32>) outs(%fm : tensor<?xf32>) {
    ^bb0(%p: f32, %o: f32):
      %v = arith.maximumf %o, %p : f32
      linalg.yield %v : f32
    } -> tensor<?xf32>
    %exp = linalg.generic {indexing_maps = [#ab, #a, #ab], iterator_types = ["parallel", "parallel"]}
         ins(%s, %max : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %inf = arith.constant 0xFF800000 : f32
      %nothing = arith.constant 0.0 : f32
      %d = arith.subf %p, %q : f32
      %v = math.exp %d : f32
      %none = arith.cmpf oeq, %q, %inf : f32
      %w = arith.select %none, %nothing, %v : f32
      linalg.yield %w : f32
    } -> tensor<?x?xf32>
    %sum = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
         ins(%exp : tensor<?x?xf32>) outs(%f0 : tensor<?xf32>) {
    ^bb0(%p: f32, %o: f32):
      %v = arith.addf %o, %p : f32
      linalg.yield %v : f32
    } -> tensor<?xf32>
    %y = linalg.generic {indexing_maps = [#ab, #a, #ab], iterator_types = ["parallel", "parallel"]}
         ins(%exp, %sum : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %nothing = arith.constant 0.0 : f32
      %none = arith.cmpf oeq, %q, %nothing : f32
      %d = arith.divf %p, %q : f32
      %v = arith.select %none, %nothing, %d : f32
      linalg.yield %v : f32
    } -> tensor<?x?xf32>
    return %y : tensor<?x?xf32>
  })";

TEST(RowReductionKernels, softmax_over_run_time_lengths_is_zero_where_nothing_is_admitted) {
  // Of rows of one element about half are fully masked.
  check_all_rows(softmax, "row_reduction",
                 {{0, 5},
                  {3, 0},
                  {1, 1},
                  {40, 1},
                  {40, 2},
                  {9, 15},
                  {9, 16},
                  {9, 17},
                  {9, 31},
                  {9, 32},
                  {9, 33},
                  {59, 211},
                  {3, 5003}});
}

/// s[b, n] = sum[d](x[b, n, d] * w[d]);  y[b, d] = sum[n](s[b, n] * x[b, n, d])
TEST(RowReductionKernels, sum_several_times_per_row_without_storing_the_lanes_of_each_sum) {
  std::string text = with_width(R"(
    #bnd = affine_map<(b, n, d) -> (b, n, d)>
    func.func private @k(%b: index, %n: index, %x: tensor<?x?xWxf32> {heddle.extents = affine_map<(b, n) -> (b, n, W)>}, %w: tensor<Wxf32>)
        -> (tensor<?xWxf32> {heddle.extents = affine_map<(b, n) -> (b, W)>}) {
      %zero = arith.constant 0.0 : f32
      %es = tensor.empty(%b, %n) : tensor<?x?xf32>
      %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x?xf32>) -> tensor<?x?xf32>
      %s = linalg.generic {indexing_maps = [#bnd, affine_map<(b, n, d) -> (d)>, affine_map<(b, n, d) -> (b, n)>],
                           iterator_types = ["parallel", "parallel", "reduction"]}
           ins(%x, %w : tensor<?x?xWxf32>, tensor<Wxf32>) outs(%fs : tensor<?x?xf32>) {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %v = arith.mulf %p, %q : f32
        %r = arith.addf %o, %v : f32
        linalg.yield %r : f32
      } -> tensor<?x?xf32>
      %ey = tensor.empty(%b) : tensor<?xWxf32>
      %fy = linalg.fill ins(%zero : f32) outs(%ey : tensor<?xWxf32>) -> tensor<?xWxf32>
      %y = linalg.generic {indexing_maps = [affine_map<(b, d, n) -> (b, n)>, affine_map<(b, d, n) -> (b, n, d)>, affine_map<(b, d, n) -> (b, d)>],
                           iterator_types = ["parallel", "parallel", "reduction"]}
           ins(%s, %x : tensor<?x?xf32>, tensor<?x?xWxf32>) outs(%fy : tensor<?xWxf32>) {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %v = arith.mulf %p, %q : f32
        %r = arith.addf %o, %v : f32
        linalg.yield %r : f32
      } -> tensor<?xWxf32>
      return %y : tensor<?xWxf32>
    })",
                                "256");
  check_all_rows(text, "row_reduction", {{0, 5}, {3, 0}, {1, 1}, {9, 17}, {2, 64}});
  KernelText kernel(text);
  mlir::MLIRContext *context = kernel.function().getContext();
  heddle::Result<heddle::Target> target = heddle::find_target("x86-64-v3");
  ASSERT_TRUE(target);
  kernel.function()->setAttr("heddle.kernel", mlir::StringAttr::get(context, "row_reduction"));
  kernel.function()->setAttr("heddle.schedule",
                             heddle::schedule_attribute(context, std::vector{row_of("row_reduction", "rows", {})}));
  EXPECT_LT(CompiledKernel(kernel.function(), 0, *target, false).scratch_lines({1, 1024}), 1024) << "of 16 numbers";
}

/// y[b, i, j, c] = max[u, v](x[b, 2 * i + u - 1, 2 * j + v - 1, c | -inf])
TEST(RowReductionKernels, take_the_largest_of_a_window_with_lanes_along_the_channels) {
  for (const char *channels : {"3", "16", "40"})
    check_all_rows(with_width(R"(
      func.func private @k(%b: index, %y: index, %x: index,
          %image: tensor<?x?x?xWxf32> {heddle.extents = affine_map<(b, y, x) -> (b, y, x, W)>})
          -> (tensor<?x?x?xWxf32> {heddle.extents = affine_map<(b, y, x) -> (b, (y - 1) floordiv 2 + 1, (x - 1) floordiv 2 + 1, W)>}) {
        %least = arith.constant 0xFF800000 : f32
        %c0 = arith.constant 0 : index
        %rows = affine.apply affine_map<()[s] -> ((s - 1) floordiv 2 + 1)>()[%y]
        %columns = affine.apply affine_map<()[s] -> ((s - 1) floordiv 2 + 1)>()[%x]
        %last_y = affine.apply affine_map<()[s] -> (s - 1)>()[%y]
        %last_x = affine.apply affine_map<()[s] -> (s - 1)>()[%x]
        %e = tensor.empty(%b, %rows, %columns) : tensor<?x?x?xWxf32>
        %f = linalg.fill ins(%least : f32) outs(%e : tensor<?x?x?xWxf32>) -> tensor<?x?x?xWxf32>
        %window = tensor.empty() : tensor<3x3xf32>
        %p = linalg.generic {indexing_maps = [affine_map<(b, i, j, c, u, v) -> (u, v)>, affine_map<(b, i, j, c, u, v) -> (b, i, j, c)>],
            iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
            ins(%window : tensor<3x3xf32>) outs(%f : tensor<?x?x?xWxf32>) {
        ^bb0(%none: f32, %most: f32):
          %n = linalg.index 0 : index
          %i = linalg.index 1 : index
          %j = linalg.index 2 : index
          %c = linalg.index 3 : index
          %u = linalg.index 4 : index
          %v = linalg.index 5 : index
          %y0 = affine.apply affine_map<(i, u) -> (i * 2 + u - 1)>(%i, %u)
          %x0 = affine.apply affine_map<(i, u) -> (i * 2 + u - 1)>(%j, %v)
          %a0 = arith.cmpi sge, %y0, %c0 : index
          %a1 = arith.cmpi slt, %y0, %y : index
          %a2 = arith.cmpi sge, %x0, %c0 : index
          %a3 = arith.cmpi slt, %x0, %x : index
          %b0 = arith.andi %a0, %a1 : i1
          %b1 = arith.andi %a2, %a3 : i1
          %inside = arith.andi %b0, %b1 : i1
          %y1 = arith.minsi %y0, %last_y : index
          %py = arith.maxsi %y1, %c0 : index
          %x1 = arith.minsi %x0, %last_x : index
          %px = arith.maxsi %x1, %c0 : index
          %value = tensor.extract %image[%n, %py, %px, %c] : tensor<?x?x?xWxf32>
          %padded = arith.select %inside, %value, %least : f32
          %next = arith.maximumf %most, %padded : f32
          linalg.yield %next : f32
        } -> tensor<?x?x?xWxf32>
        return %p : tensor<?x?x?xWxf32>
      })",
                              channels),
                   "row_reduction", {{1, 1, 1}, {2, 5, 8}, {0, 2, 2}});
}

} // namespace
