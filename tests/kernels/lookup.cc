// Embedding kernels: rows fetched by number, from row-major and from packed tables, alone and with what follows them.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/ir/dialect.h"

using namespace heddle::test;

namespace {

TEST(LookupKernels, add_three_embeddings_one_of_them_packed_for_a_product) {
  for (const char *width : {"1", "17", "60", "768"})
    check_all_rows(lit_kernel("lookup_sum", {{"30522", "211"}, {"768", width}}), "lookup",
                   {{0, 3}, {1, 1}, {1, 37}, {3, 16}, {5, 59}}, 1e-6);
}

const char *table = R"(
  func.func private @k(%m: index, %ids: tensor<?xi32> {heddle.extents = affine_map<(m) -> (m)>}, %w: tensor<7x40xf32>)
      -> (tensor<?x40xf32> {heddle.extents = affine_map<(m) -> (m, 40)>}) {
    %e = tensor.empty(%m) : tensor<?x40xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>],
                         iterator_types = ["parallel", "parallel"]}
         ins(%ids : tensor<?xi32>) outs(%e : tensor<?x40xf32>) {
    ^bb0(%id: i32, %o: f32):
      %n = linalg.index 1 : index
      %i = arith.index_cast %id : i32 to index
      %v = tensor.extract %w[%i, %n] : tensor<7x40xf32>
      linalg.yield %v : f32
    } -> tensor<?x40xf32>
    return %y : tensor<?x40xf32>
  })";

TEST(LookupKernels, stay_inside_of_the_table_whatever_the_numbers_are) {
  KernelText kernel(table);
  EXPECT_EQ(heddle::kind_of(kernel.function()).name, "lookup");
  heddle::set_schedule(kernel.function(), heddle::choose(kernel.function(), *heddle::find_target("native")));
  CompiledKernel compiled(kernel.function(), 0, *heddle::find_target("native"), false);
  std::vector<Values> inputs = random_inputs(kernel.function(), {6}, 1);
  inputs[0].data = {-1, 7, 2147483647, -2147483648.0, 3, 6};
  std::vector<Values> actual = compiled.run({6}, inputs);
  inputs[0].data = {0, 6, 6, 0, 3, 6};
  EXPECT_TRUE(close(actual, evaluate(kernel.function(), {6}, inputs), 0));
}

} // namespace
