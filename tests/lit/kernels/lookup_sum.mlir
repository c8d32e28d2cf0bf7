// x[b, s, d] = word[ids[b, s], d] + type[types[b, s], d] + position[s, d]
// `position` has 512 rows and S of them are read, so it is no operand of a loop over S: it is read in the body.
// The word embeddings are shared with a decoder, whose product wants them in panels.
// RUN: heddle-opt %s | FileCheck %s
// CHECK: @k_lookup

#bsd = affine_map<(b, s, d) -> (b, s, d)>
#bs = affine_map<(b, s, d) -> (b, s)>
func.func private @k_lookup(
    %B: index, %S: index, %ids: tensor<?x?xi32> {heddle.extents = affine_map<(B, S) -> (B, S)>},
    %types: tensor<?x?xi32> {heddle.extents = affine_map<(B, S) -> (B, S)>},
    %word: tensor<30522x768xf32> {heddle.extents = affine_map<(B, S) -> (30522, 768)>, heddle.layout = #heddle.panels<axis = 0, width = 48>},
    %position: tensor<512x768xf32> {heddle.extents = affine_map<(B, S) -> (512, 768)>},
    %type: tensor<2x768xf32> {heddle.extents = affine_map<(B, S) -> (2, 768)>})
    -> (tensor<?x?x768xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 768)>}) attributes {heddle.kernel = "lookup"} {
  %e = tensor.empty(%B, %S) : tensor<?x?x768xf32>
  %x = linalg.generic {indexing_maps = [#bs, #bs, #bsd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids, %types : tensor<?x?xi32>, tensor<?x?xi32>) outs(%e : tensor<?x?x768xf32>) {
  ^bb0(%id: i32, %ty: i32, %out: f32):
    %s = linalg.index 1 : index
    %d = linalg.index 2 : index
    %0 = arith.index_cast %id : i32 to index
    %1 = tensor.extract %word[%0, %d] : tensor<30522x768xf32>
    %2 = arith.index_cast %ty : i32 to index
    %3 = tensor.extract %type[%2, %d] : tensor<2x768xf32>
    %4 = arith.addf %1, %3 : f32
    %5 = tensor.extract %position[%s, %d] : tensor<512x768xf32>
    %6 = arith.addf %4, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<?x?x768xf32>
  return %x : tensor<?x?x768xf32>
}
