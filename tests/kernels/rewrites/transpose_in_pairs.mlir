// A factor whose terms lie side by side comes into panels in squares, each transposed in registers.
// sizes: 20 33
// statement: pair
#x = affine_map<(m, n, k) -> (m, k)>
#t = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
module {
  func.func @k0(%m: index, %n: index, %x: tensor<?x32xf32> {heddle.extents = affine_map<(m, n) -> (m, 32)>}, %t: tensor<?x32xf32> {heddle.extents = affine_map<(m, n) -> (n, 32)>}) -> (tensor<?x?xf32> {heddle.extents = affine_map<(m, n) -> (m, n)>}) attributes {heddle.kernel = "contraction", heddle.schedule = [{micro_kernel = "fma", params = {abreast = 1 : i64, ahead = 0 : i64, block = 96 : i64, rows = 4 : i64, tasks = 16 : i64, widened = 0 : i64, width = 32 : i64}, variant = "tiles"}]} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty(%m, %n) : tensor<?x?xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
    %y = linalg.generic {indexing_maps = [#x, #t, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %t : tensor<?x32xf32>, tensor<?x32xf32>) outs(%f : tensor<?x?xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %p = arith.mulf %a, %b : f32
      %q = arith.addf %s, %p : f32
      linalg.yield %q : f32
    } -> tensor<?x?xf32>
    return %y : tensor<?x?xf32>
  }
}
