// Products with a factor read at computed places: windows with strides, dilation and padding, groups, channels inside
// or outside, transposed windows, patches, one to three axes. Every register tile, with weights in panels and without.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/kernels/convolution/joined_loops.h"
#include "compiler/kernels/convolution/schedule.h"
#include "compiler/kernels/convolution/windows.h"
#include "compiler/targets/target.h"

using namespace heddle::test;

namespace {

struct Shape {
  int stride = 1, dilation = 1, window = 3, channels = 5, outputs = 20;
  std::string layout = ""; // of the weight
  std::string read = "%py, %px, %c";
  std::string image = "?x?x?x$C";
  std::string extents = "b, y, x, $C";
  bool narrow = false; // picture and weight are bf16
  bool turned = false; // the result has its channels outside: y[b, o, i, j]
};

/// y[b, i, j, o] = relu(sum[c, u, v](x[b, S * i + T * u - P, S * j + T * v - P, c | 0] * w[o, c, u, v]) + r[b, i, j,
/// o])
std::string convolution(const Shape &shape) {
  std::string text = R"(
    #weight = affine_map<(b, i, j, o, c, u, v) -> (o, c, u, v)>
    #result = affine_map<(b, i, j, o, c, u, v) -> (b, i, j, o)>
    #same = affine_map<(b, i, j, o) -> (b, i, j, o)>
    func.func private @k(%b: index, %y: index, %x: index,
        %image: tensor<$IMAGEx$E> {heddle.extents = affine_map<(b, y, x) -> ($EXTENTS)>},
        %w: tensor<$Ox$Cx$Rx$Rx$E> {heddle.extents = affine_map<(b, y, x) -> ($O, $C, $R, $R)>$LAYOUT},
        %r: tensor<?x?x?x$Oxf32> {heddle.extents = affine_map<(b, y, x) -> (b, (y - 1) floordiv $S + 1, (x - 1) floordiv $S + 1, $O)>})
        -> (tensor<?x?x?x$Oxf32> {heddle.extents = affine_map<(b, y, x) -> (b, (y - 1) floordiv $S + 1, (x - 1) floordiv $S + 1, $O)>}) {
      %zero = arith.constant 0.0 : f32
      %outside = arith.constant 0.0 : $E
      %c0 = arith.constant 0 : index
      %rows = affine.apply affine_map<()[s] -> ((s - 1) floordiv $S + 1)>()[%y]
      %columns = affine.apply affine_map<()[s] -> ((s - 1) floordiv $S + 1)>()[%x]
      %last_y = affine.apply affine_map<()[s] -> (s - 1)>()[%y]
      %last_x = affine.apply affine_map<()[s] -> (s - 1)>()[%x]
      %e = tensor.empty(%b, %rows, %columns) : tensor<?x?x?x$Oxf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x?x$Oxf32>) -> tensor<?x?x?x$Oxf32>
      %p = linalg.generic {indexing_maps = [#weight, #result],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
          ins(%w : tensor<$Ox$Cx$Rx$Rx$E>) outs(%f : tensor<?x?x?x$Oxf32>) {
      ^bb0(%weight: $E, %sum: f32):
        %n = linalg.index 0 : index
        %i = linalg.index 1 : index
        %j = linalg.index 2 : index
        %c = linalg.index 4 : index
        %u = linalg.index 5 : index
        %v = linalg.index 6 : index
        %y0 = affine.apply affine_map<(i, u) -> (i * $S + u * $T - $P)>(%i, %u)
        %x0 = affine.apply affine_map<(i, u) -> (i * $S + u * $T - $P)>(%j, %v)
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
        %value = tensor.extract %image[%n, $READ] : tensor<$IMAGEx$E>
        %padded = arith.select %inside, %value, %outside : $E
$PRODUCT
        %next = arith.addf %sum, %product : f32
        linalg.yield %next : f32
      } -> tensor<?x?x?x$Oxf32>
      %q = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%p, %r : tensor<?x?x?x$Oxf32>, tensor<?x?x?x$Oxf32>) outs(%e : tensor<?x?x?x$Oxf32>) {
      ^bb0(%a: f32, %d: f32, %out: f32):
        %0 = arith.addf %a, %d : f32
        %1 = arith.maximumf %0, %zero : f32
        linalg.yield %1 : f32
      } -> tensor<?x?x?x$Oxf32>
      return %q : tensor<?x?x?x$Oxf32>
    })";
  if (shape.turned) {
    text = with(text, "?x?x?x$O", "?x$Ox?x?");
    text = with(text, "-> (b, i, j, o)>", "-> (b, o, i, j)>");
    text = with(text, "(b, (y - 1) floordiv $S + 1, (x - 1) floordiv $S + 1, $O)",
                "(b, $O, (y - 1) floordiv $S + 1, (x - 1) floordiv $S + 1)");
  }
  text = with(text, "$IMAGE", shape.image);
  text = with(text, "$PRODUCT",
              shape.narrow ? R"(
        %padded_f32 = arith.extf %padded : bf16 to f32
        %weight_f32 = arith.extf %weight : bf16 to f32
        %product = arith.mulf %padded_f32, %weight_f32 : f32)"
                           : "        %product = arith.mulf %padded, %weight : f32");
  text = with(text, "$EXTENTS", shape.extents);
  text = with(text, "$E", shape.narrow ? "bf16" : "f32");
  text = with(text, "$READ", shape.read);
  text = with(text, "$LAYOUT",
              shape.layout.empty() ? "" : ", heddle.layout = #heddle.layout<(o, c, u, v) -> " + shape.layout + ">");
  text = with(text, "$S", std::to_string(shape.stride));
  text = with(text, "$T", std::to_string(shape.dilation));
  text = with(text, "$P", std::to_string(shape.dilation * (shape.window / 2)));
  text = with(text, "$R", std::to_string(shape.window));
  text = with(text, "$C", std::to_string(shape.channels));
  return with(text, "$O", std::to_string(shape.outputs));
}

const std::vector<std::vector<int64_t>> pictures = {{1, 1, 1}, {2, 5, 7}, {1, 9, 14}};

/// One row, with Halide's asserts and without. `depth`: terms of a chunk; 0: the sum in one go.
void check_row(const std::string &text, int64_t rows, int64_t width, const std::vector<std::vector<int64_t>> &sizes,
               int64_t depth = 0, const std::string &micro_kernel = "fma") {
  KernelText kernel(text);
  heddle::Parameters parameters = {{"rows", rows}, {"width", width}};
  if (depth > 0)
    parameters["depth"] = depth;
  heddle::ScheduleRow row = row_of("convolution", depth > 0 ? "chunks" : "tiles", parameters);
  row.micro_kernel = micro_kernel;
  kernel.set_row(row);
  EXPECT_EQ(heddle::kind_of(kernel.function()).name, "convolution");
  const heddle::Target &target = host_target();
  CompiledKernel checked(kernel.function(), 0, target, true), fast(kernel.function(), 0, target, false);
  for (const std::vector<int64_t> &size : sizes) {
    std::vector<Values> inputs = random_inputs(kernel.function(), size, 5);
    std::vector<Values> expected = evaluate(kernel.function(), size, inputs);
    if (size[0] > 0) // of no pictures Halide's checks think that the first one is read
      EXPECT_TRUE(close(checked.run(size, inputs), expected, 1e-5)) << "with asserts";
    EXPECT_TRUE(close(fast.run(size, inputs), expected, 1e-5));
  }
}

TEST(ConvolutionKernels, slide_windows_over_padded_pictures_with_every_tile) {
  check_all_rows(convolution({.layout = ""}), "convolution", pictures);
}

TEST(ConvolutionKernels, read_weights_in_panels) {
  check_row(convolution({.layout = "(o floordiv 32, u, v, c, o mod 32)"}), 12, 32, pictures);
  check_row(convolution({.layout = "(o floordiv 16, c, u, v, o mod 16)"}), 6, 16, pictures);
  check_row(convolution({.layout = "(o floordiv 16, c, v, u, o mod 16)"}), 6, 32, pictures); // another kernel's
}

TEST(ConvolutionKernels, multiply_pairs_of_bf16) {
  std::string pairs = "(o floordiv 32, u, v, c floordiv 2, o mod 32, c mod 2)";
  for (int channels : {4, 5})
    for (int stride : {1, 2})
      check_row(convolution({.stride = stride, .channels = channels, .layout = pairs, .narrow = true}), 12, 32,
                pictures, 0, "dot_bf16");
  check_row(convolution({.channels = 6, .layout = "", .narrow = true}), 6, 16, pictures, 0, "dot_bf16");
  check_row(convolution({.channels = 7, .layout = pairs, .narrow = true}), 6, 32, pictures, 21,
            "dot_bf16"); // in chunks
  check_row(convolution({.window = 1, .channels = 6, .layout = pairs, .narrow = true}), 6, 32, pictures, 0, "dot_bf16");
}

// Panels that the unit doesn't take, as a product with the same weight wants them.
const std::string of_another_kernel = "(o floordiv 16, u, v, c floordiv 2, o mod 16, c mod 2)";

TEST(ConvolutionKernels, multiply_tiles_of_a_matrix_unit) {
  const std::string pairs = "(o floordiv 32, u, v, c floordiv 2, o mod 32, c mod 2)";
  const std::vector<std::vector<int64_t>> some = {{0, 3, 3}, {1, 1, 1}, {2, 5, 7}, {1, 9, 14}, {1, 3, 530}};
  for (int channels : {4, 7, 32}) // of nine places: terms left over, and whole tiles
    for (int stride : {1, 2})
      check_row(convolution({.stride = stride, .channels = channels, .layout = pairs, .narrow = true}), 32, 32, some, 0,
                "tile_bf16");
  check_row(convolution({.channels = 6, .layout = "", .narrow = true}), 32, 32, some, 0, "tile_bf16");
  check_row(convolution({.window = 1, .channels = 34, .layout = pairs, .narrow = true}), 32, 32, some, 0, "tile_bf16");
  check_row(convolution({.channels = 32, .layout = of_another_kernel, .narrow = true}), 32, 32, some, 0, "tile_bf16");
  check_row(convolution({.channels = 8, .outputs = 50, .layout = pairs, .narrow = true, .turned = true}), 32, 32, some,
            0, "tile_bf16");
}

TEST(ConvolutionKernels, are_offered_to_a_matrix_unit_where_groups_of_terms_lie_together) {
  heddle::Target target = *heddle::find_target("x86-64-v4+amx");
  auto chosen = [&](const Shape &shape) {
    KernelText kernel(convolution(shape));
    return heddle::choose(kernel.function(), target).rows.front().micro_kernel;
  };
  EXPECT_EQ(chosen({.channels = 32, .outputs = 64, .layout = "", .narrow = true}), "tile_bf16");
  EXPECT_EQ(chosen({.channels = 32, .outputs = 64, .layout = of_another_kernel, .narrow = true}), "tile_bf16");
  EXPECT_EQ(chosen({.channels = 3, .outputs = 64, .layout = "", .narrow = true}), "fma");
  EXPECT_EQ(chosen({.channels = 33, .outputs = 64, .layout = "", .narrow = true}), "tile_bf16"); // zeros behind them
  EXPECT_EQ(chosen({.channels = 32, .outputs = 16, .layout = "", .narrow = true}), "fma");
}

TEST(ConvolutionKernels, find_the_rows_of_large_pictures) {
  Halide::Var x("x"), end("end");
  Halide::Param<int> length("length"), first("first");
  Halide::Func row("row");
  Halide::Expr place = (first + x) * length + end * (length - 1);
  row(x, end) = heddle::convolution::row_of_place(place, length);
  row.vectorize(x, 16);
  struct Picture {
    int rows, length;
  };
  for (auto [rows, columns] : {Picture{2160, 3840}, {3000, 4000}, {4096, 4096}, {46340, 46341}, {1 << 20, 2047}}) {
    const int some = std::min(rows, 4096);
    length.set(columns);
    first.set(rows - some);
    Halide::Buffer<int> found = row.realize({some, 2});
    for (int i = 0; i < some; ++i)
      for (int side : {0, 1})
        ASSERT_EQ(found(i, side), rows - some + i) << rows << " x " << columns << ", place " << side << " of row " << i;
  }
}

TEST(ConvolutionKernels, compute_nothing_of_no_pictures) { check_row(convolution({.layout = ""}), 6, 16, {{0, 3, 3}}); }

const std::string outside = "%c, %py, %px", image_outside = "?x$Cx?x?", extents_outside = "b, $C, y, x";

/// Three channels, each of which has its rows by itself.
Shape few_channels(int window, int stride, int outputs, const std::string &layout = "") {
  return {.stride = stride,
          .window = window,
          .channels = 3,
          .outputs = outputs,
          .layout = layout,
          .read = outside,
          .image = image_outside,
          .extents = extents_outside,
          .narrow = true};
}

TEST(ConvolutionKernels, write_out_rows_of_a_filter_where_channels_are_few) {
  const std::vector<std::vector<int64_t>> some = {{0, 3, 3}, {1, 1, 1}, {2, 5, 7}, {1, 3, 70}};
  const std::string pairs = "(o floordiv 32, c, u, v floordiv 2, o mod 32, v mod 2)";
  for (auto [micro_kernel, rows] : {std::pair("tile_bf16", 32), {"dot_bf16", 12}})
    for (auto [window, stride, layout] : {std::tuple(7, 1, pairs), {7, 2, pairs}, {8, 2, std::string()}})
      check_row(convolution(few_channels(window, stride, 34, layout)), rows, 32, some, 0, micro_kernel);
  check_row(convolution(few_channels(3, 2, 34, pairs)), 6, 32, some, 0, "dot_bf16");
  check_row(convolution(few_channels(5, 1, 34, pairs)), 6, 32, some, 54, "dot_bf16"); // in chunks
}

TEST(ConvolutionKernels, take_rows_of_a_filter_in_groups_that_are_worth_what_of_them_is_empty) {
  for (auto [target, window, expected] : {std::tuple("x86-64-v4+amx", 7, "tile_bf16"),
                                          {"x86-64-v4+amx", 5, "fma"},
                                          {"x86-64-v4+bf16", 7, "dot_bf16"},
                                          {"x86-64-v4+bf16", 4, "dot_bf16"},
                                          {"x86-64-v4+bf16", 3, "dot_bf16"},
                                          {"x86-64-v4+bf16", 1, "fma"},
                                          {"x86-64-v4", 7, "fma"}}) {
    KernelText kernel(convolution(few_channels(window, 1, 64)));
    EXPECT_EQ(heddle::choose(kernel.function(), *heddle::find_target(target)).rows.front().micro_kernel, expected)
        << window << " " << target;
  }
}

TEST(ConvolutionKernels, put_sums_down_across_the_lanes) {
  Shape shape{.outputs = 24, .read = outside, .image = image_outside, .extents = extents_outside, .turned = true};
  check_all_rows(convolution(shape), "convolution", pictures);
  const int three_vectors = 3 * heddle::find_target("native")->lanes;
  for (auto [rows, width] : {std::pair(3, three_vectors), std::pair(6, 16), std::pair(12, 32)}) // channels inside
    check_row(convolution({.outputs = 24, .layout = "", .turned = true}), rows, width, {{2, 5, 7}});
  for (int channels : {3, 9})
    check_row(convolution({.stride = 2,
                           .channels = channels,
                           .outputs = 50,
                           .layout = "(o floordiv 32, u, v, c, o mod 32)",
                           .read = outside,
                           .image = image_outside,
                           .extents = extents_outside,
                           .turned = true}),
              12, 32, {{1, 1, 1}, {1, 70, 9}, {1, 3, 530}, {0, 3, 3}}, channels == 9 ? 27 : 0);
}

TEST(ConvolutionKernels, put_sums_of_pairs_down_across_the_lanes) {
  for (int channels : {8, 9})
    check_row(convolution({.channels = channels,
                           .outputs = 32,
                           .layout = "(o floordiv 32, u, v, c floordiv 2, o mod 32, c mod 2)",
                           .read = outside,
                           .image = image_outside,
                           .extents = extents_outside,
                           .narrow = true,
                           .turned = true}),
              12, 32, pictures, 0, "dot_bf16");
}

TEST(ConvolutionKernels, leave_few_channels_to_contractions) {
  KernelText few(convolution({.outputs = 8, .turned = true})), wide(convolution({.outputs = 12}));
  EXPECT_EQ(heddle::kind_of(few.function()).name, "contraction");
  EXPECT_EQ(heddle::kind_of(wide.function()).name, "convolution");
}

TEST(ConvolutionKernels, cut_large_pictures_into_blocks_of_rows) {
  check_row(convolution({.channels = 2, .outputs = 16, .layout = "(o floordiv 16, c, u, v, o mod 16)"}), 6, 16,
            {{1, 70, 9}, {1, 3, 530}});
}

/// Three panels in twos, of so many or so large pictures that there are such tasks.
TEST(ConvolutionKernels, share_a_window_among_panels) {
  for (const char *layout : {"", "(o floordiv 16, u, v, c, o mod 16)"})
    check_row(convolution({.stride = 2, .channels = 3, .outputs = 40, .layout = layout}), 4, 16, {{16, 5, 7}});
  check_row(convolution({.channels = 1, .outputs = 48, .layout = ""}), 6, 16, {{1, 36, 32}, {16, 1, 5}});
  check_row(convolution({.channels = 2, .outputs = 48, .layout = "", .turned = true}), 6, 16, {{16, 3, 5}});
}

TEST(ConvolutionKernels, slide_in_strides_and_with_gaps) {
  check_row(convolution({.stride = 2, .layout = "(o floordiv 64, u, v, c, o mod 64)"}), 6, 64, pictures);
  check_row(convolution({.dilation = 2, .channels = 17, .outputs = 33, .layout = ""}), 12, 32, pictures);
  check_row(convolution({.stride = 2, .dilation = 3, .window = 5, .channels = 3, .layout = ""}), 6, 16, {{1, 11, 13}});
}

TEST(ConvolutionKernels, add_up_sums_chunk_by_chunk) {
  std::string panels = convolution({.channels = 7, .layout = "(o floordiv 32, u, v, c, o mod 32)"});
  for (int64_t depth : {1, 21}) // a pixel, even where it is more than asked for, and a row of pixels
    check_row(panels, 12, 32, pictures, depth);
  check_row(convolution({.stride = 2, .channels = 7, .outputs = 33, .layout = ""}), 6, 16, pictures, 9);
}

TEST(ConvolutionKernels, read_pictures_with_channels_outside) {
  check_row(convolution({.stride = 2,
                         .window = 7,
                         .channels = 3,
                         .layout = "(o floordiv 16, c, u, v, o mod 16)",
                         .read = "%c, %py, %px",
                         .image = "?x$Cx?x?",
                         .extents = "b, $C, y, x"}),
            12, 16, pictures);
}

TEST(ConvolutionKernels, step_over_pixels_without_a_window) {
  check_row(convolution({.stride = 2, .window = 1, .channels = 17, .outputs = 32, .layout = ""}), 12, 32, pictures);
}

/// y[b, g, t, o] = sum[c, u](x[b, g, (t + u - 1) / 2, c, where t + u - 1 is even and inside] * w[g, o, c, u]): in
/// groups, along one axis, transposed.
TEST(ConvolutionKernels, spread_what_they_read_in_groups_along_one_axis) {
  check_row(R"(
    func.func private @k(%b: index, %t: index,
        %x: tensor<?x3x?x6xf32> {heddle.extents = affine_map<(b, t) -> (b, 3, t, 6)>},
        %w: tensor<3x18x6x4xf32> {heddle.extents = affine_map<(b, t) -> (3, 18, 6, 4)>})
        -> (tensor<?x3x?x18xf32> {heddle.extents = affine_map<(b, t) -> (b, 3, t * 2, 18)>}) {
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %twice = affine.apply affine_map<()[s] -> (s * 2)>()[%t]
      %last = affine.apply affine_map<()[s] -> (s - 1)>()[%t]
      %e = tensor.empty(%b, %twice) : tensor<?x3x?x18xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3x?x18xf32>) -> tensor<?x3x?x18xf32>
      %p = linalg.generic {indexing_maps = [affine_map<(b, g, t, o, c, u) -> (g, o, c, u)>, affine_map<(b, g, t, o, c, u) -> (b, g, t, o)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
          ins(%w : tensor<3x18x6x4xf32>) outs(%f : tensor<?x3x?x18xf32>) {
      ^bb0(%weight: f32, %sum: f32):
        %n = linalg.index 0 : index
        %g = linalg.index 1 : index
        %i = linalg.index 2 : index
        %c = linalg.index 4 : index
        %u = linalg.index 5 : index
        %at = affine.apply affine_map<(i, u) -> (i + u - 1)>(%i, %u)
        %half = affine.apply affine_map<(i, u) -> ((i + u - 1) floordiv 2)>(%i, %u)
        %odd = affine.apply affine_map<(i, u) -> ((i + u - 1) mod 2)>(%i, %u)
        %a0 = arith.cmpi sge, %at, %c0 : index
        %a1 = arith.cmpi slt, %at, %twice : index
        %a2 = arith.cmpi eq, %odd, %c0 : index
        %b0 = arith.andi %a0, %a1 : i1
        %inside = arith.andi %b0, %a2 : i1
        %i1 = arith.minsi %half, %last : index
        %pi = arith.maxsi %i1, %c0 : index
        %value = tensor.extract %x[%n, %g, %pi, %c] : tensor<?x3x?x6xf32>
        %padded = arith.select %inside, %value, %zero : f32
        %product = arith.mulf %padded, %weight : f32
        %next = arith.addf %sum, %product : f32
        linalg.yield %next : f32
      } -> tensor<?x3x?x18xf32>
      return %p : tensor<?x3x?x18xf32>
    })",
            6, 16, {{1, 1}, {2, 9}, {0, 4}, {1, 300}});
}

/// Patches of EDGE x EDGE pixels, 9 of a picture.
std::string patches(int edge) {
  const std::string e = std::to_string(edge), picture = std::to_string(3 * edge);
  return lit_kernel("patch_embedding", {{"768", "50"},
                                        {"196", "9"},
                                        {"224", picture},
                                        {"x16x16", "x" + e + "x" + e},
                                        {"16, 16", e + ", " + e},
                                        {"floordiv 14 * 16", "floordiv 3 * " + e},
                                        {"mod 14 * 16", "mod 3 * " + e}});
}

TEST(ConvolutionKernels, cut_pictures_into_patches) { check_row(patches(4), 6, 32, {{1}, {2}}); }

/// Columns of a patch lie side by side in the picture and, where they are an even number, no pair crosses its edge;
/// else, or where they are few, they are written out.
TEST(ConvolutionKernels, take_the_columns_of_patches_in_pairs) {
  auto narrow = [](int edge, const std::string &layout) {
    const std::string e = std::to_string(edge), picture = std::to_string(3 * edge);
    std::string text = patches(edge);
    text = with(text, "tensor<?x3x" + picture + "x" + picture + "xf32>",
                "tensor<?x3x" + picture + "x" + picture + "xbf16>");
    text = with(text, "tensor<50x3x" + e + "x" + e + "xf32>", "tensor<50x3x" + e + "x" + e + "xbf16>");
    text = with(text, "(n floordiv 48, k, u, v, n mod 48)", layout);
    text = with(text, "%wv: f32", "%wn: bf16");
    text = with(text, "%0 = tensor.extract", "%p0 = tensor.extract");
    return with(
        text, "%1 = arith.mulf %0, %wv : f32",
        "%p1 = arith.extf %p0 : bf16 to f32\n%w1 = arith.extf %wn : bf16 to f32\n%1 = arith.mulf %p1, %w1 : f32");
  };
  const std::string pairs = "(n floordiv 32, k, u, v floordiv 2, n mod 32, v mod 2)";
  for (int edge : {2, 4, 7, 8})
    check_row(narrow(edge, pairs), 6, 32, {{1}, {2}}, 0, "dot_bf16");
  heddle::Target target = *heddle::find_target("x86-64-v4+bf16");
  for (auto [edge, expected] : {std::pair(8, "dot_bf16"), {7, "dot_bf16"}, {4, "dot_bf16"}, {1, "fma"}}) {
    KernelText kernel(narrow(edge, "(n floordiv 32, k, u, v, n mod 32)"));
    EXPECT_EQ(heddle::choose(kernel.function(), target).rows.front().micro_kernel, expected) << edge;
  }
}

TEST(Windows, hold_one_variable_for_each_sliding_sum) {
  using namespace heddle::convolution;
  Halide::Var x("x"), u("u"), c("c"), w("w");
  Halide::Func f("f");
  f(c, w) = Halide::cast<float>(c + w);
  Halide::Expr at = 2 * x + 3 * u - 4;
  Windows sliding(select(at >= 0, f(c, max(at, 0)), 0.f), {x}, {c, u}, {});
  EXPECT_EQ(sliding.variables().size(), 2u); // the channel and one place
  EXPECT_TRUE(sliding.slides(u));
  EXPECT_FALSE(sliding.slides(c));
  // Where the loops meet in two different sums, both stay.
  Windows not_sliding(f(x + u, x - u), {x}, {u}, {});
  EXPECT_EQ(not_sliding.variables().size(), 2u);
  EXPECT_FALSE(not_sliding.slides(u));
}

/// for y in 0..3 { let t = y * 64;  for x in 0..64 { sum[0] += picture[y * pitch + x] * filter[x + t] } }
Halide::Internal::Stmt two_loops(int pitch) {
  using namespace Halide::Internal;
  using Halide::Expr;
  const Halide::Type real = Halide::Float(32);
  auto read = [&](const char *name, const Expr &index) {
    return Load::make(real, name, index, {}, {}, const_true(), {});
  };
  Expr x = Variable::make(Halide::Int(32), "sum.s1.r$x"), y = Variable::make(Halide::Int(32), "sum.s1.r$y");
  Expr t = Variable::make(Halide::Int(32), "t");
  Stmt add = Store::make("sum", read("sum", 0) + read("picture", y * pitch + x) * read("filter", x + t), 0, {},
                         const_true(), {});
  auto loop = [](const char *name, int extent, const Stmt &body) {
    return For::make(name, 0, extent, ForType::Serial, Halide::Partition::Auto, Halide::DeviceAPI::None, body);
  };
  return loop("sum.s1.r$y", 3, LetStmt::make("t", y * 64, loop("sum.s1.r$x", 64, add)));
}

TEST(JoinedLoops, are_those_whose_factors_go_on_from_one_to_the_other) {
  using namespace Halide::Internal;
  Stmt joined = simplify(heddle::convolution::join_loops("sum")->mutate(two_loops(64)));
  const For *loop = joined.as<For>();
  ASSERT_TRUE(loop);
  EXPECT_TRUE(equal(loop->extent, 192)) << joined;
  EXPECT_FALSE(stmt_uses_var(joined, "sum.s1.r$y")) << joined;
  for (int pitch : {63, 65, 0})
    EXPECT_TRUE(equal(heddle::convolution::join_loops("sum")->mutate(two_loops(pitch)), two_loops(pitch))) << pitch;
  EXPECT_TRUE(equal(heddle::convolution::join_loops("other")->mutate(two_loops(64)), two_loops(64)));
}

} // namespace
