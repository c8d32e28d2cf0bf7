// Readers of a permuted or broadcast copy read what was copied; a weight that nothing reads goes.
// RUN: heddle-opt %s -split-input-file --simplify --canonicalize --cse | FileCheck %s

// CHECK-NOT: @unused
// CHECK: func.func @run(%[[X:.*]]: tensor<3x4xf32> {{.*}}, %[[V:.*]]: tensor<4xf32>
// CHECK: linalg.generic {indexing_maps = [#[[T:.*]], #[[C:.*]], #{{.*}}], iterator_types = ["parallel", "parallel"]} ins(%[[X]], %[[V]]
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: tensor.extract %[[X]][%[[I]], %c0]
// CHECK: return
module {
  heddle.weight @unused : tensor<4xf32> names ["unused"] stored [4]
  func.func @run(%x: tensor<3x4xf32> {heddle.name = "x"}, %v: tensor<4xf32> {heddle.name = "v"})
      -> (tensor<4x3xf32> {heddle.name = "y"}, tensor<3xf32> {heddle.name = "first"}) attributes {heddle.entry} {
    %c0 = arith.constant 0 : index
    %e = tensor.empty() : tensor<4x3xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x3xf32>
    %columns = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%v : tensor<4xf32>) outs(%e : tensor<4x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x3xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%t, %columns : tensor<4x3xf32>, tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
    ^bb0(%l: f32, %r: f32, %out: f32):
      %0 = arith.addf %l, %r : f32
      linalg.yield %0 : f32
    } -> tensor<4x3xf32>
    %e1 = tensor.empty() : tensor<3xf32>
    %first = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e1 : tensor<3xf32>) {
    ^bb0(%out: f32):
      %i = linalg.index 0 : index
      %0 = tensor.extract %t[%c0, %i] : tensor<4x3xf32>
      linalg.yield %0 : f32
    } -> tensor<3xf32>
    return %y, %first : tensor<4x3xf32>, tensor<3xf32>
  }
}

// -----

// What a body reads at its own indices is an operand.
// CHECK-LABEL: module @plain
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<3x4xf32>, tensor<5x4xf32>)
// CHECK-NOT: tensor.extract
module @plain {
  func.func @run(%x: tensor<3x4xf32> {heddle.name = "x"}, %w: tensor<5x4xf32> {heddle.name = "w"}) -> (tensor<3x5xf32> {heddle.name = "y"}) attributes {heddle.entry} {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<3x5xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(p, o, c) -> (p, c)>, affine_map<(p, o, c) -> (p, o)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x : tensor<3x4xf32>) outs(%f : tensor<3x5xf32>) {
    ^bb0(%in: f32, %sum: f32):
      %o = linalg.index 1 : index
      %c = linalg.index 2 : index
      %0 = tensor.extract %w[%o, %c] : tensor<5x4xf32>
      %1 = arith.mulf %in, %0 : f32
      %2 = arith.addf %sum, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<3x5xf32>
    return %y : tensor<3x5xf32>
  }
}

// -----

// A reduction whose iterations change nothing is what it starts with; what only says how far a loop goes is not computed.
// CHECK-LABEL: module @idle
// CHECK-NOT: math.exp
// CHECK-NOT: "reduction"
// CHECK: %[[INF:.*]] = arith.constant 0x7F800000
// CHECK: linalg.yield %[[INF]]
module @idle {
  func.func @run(%x: tensor<3x4xf32> {heddle.name = "x"}) -> (tensor<3xf32> {heddle.name = "y"}) attributes {heddle.entry} {
    %inf = arith.constant 0x7F800000 : f32
    %wide = tensor.empty() : tensor<3x4xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<3x4xf32>) outs(%wide : tensor<3x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = math.exp %in : f32
      linalg.yield %0 : f32
    } -> tensor<3x4xf32>
    %rows = tensor.empty() : tensor<3xf32>
    %f = linalg.fill ins(%inf : f32) outs(%rows : tensor<3xf32>) -> tensor<3xf32>
    %least = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]}
        ins(%e : tensor<3x4xf32>) outs(%f : tensor<3xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %out : f32
    } -> tensor<3xf32>
    return %least : tensor<3xf32>
  }
}

// -----

// CHECK-LABEL: module @extent
// CHECK-NOT: math.exp
// CHECK: linalg.generic {{.*}}["parallel", "reduction"]} ins(%{{.*}} : tensor<3x4xf32>)
module @extent {
  func.func @run(%x: tensor<3x4xf32> {heddle.name = "x"}) -> (tensor<3xf32> {heddle.name = "y"}) attributes {heddle.entry} {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %wide = tensor.empty() : tensor<3x4xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<3x4xf32>) outs(%wide : tensor<3x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = math.exp %in : f32
      linalg.yield %0 : f32
    } -> tensor<3x4xf32>
    %rows = tensor.empty() : tensor<3xf32>
    %f = linalg.fill ins(%zero : f32) outs(%rows : tensor<3xf32>) -> tensor<3xf32>
    %count = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]}
        ins(%e : tensor<3x4xf32>) outs(%f : tensor<3xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.addf %out, %one : f32
      linalg.yield %0 : f32
    } -> tensor<3xf32>
    return %count : tensor<3xf32>
  }
}

// -----

// An element of a stage of one constant is the constant, wherever it is read.
// CHECK-LABEL: module @element
// CHECK-NOT: tensor.extract
// CHECK: arith.addf %{{.*}}, %[[HALF:.*]] : f32
module @element {
  func.func @run(%x: tensor<3x4xf32> {heddle.name = "x"}) -> (tensor<3x4xf32> {heddle.name = "y"}) attributes {heddle.entry} {
    %half = arith.constant 0.5 : f32
    %first = arith.constant 0 : index
    %wide = tensor.empty() : tensor<3x4xf32>
    %row = tensor.empty() : tensor<1x4xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} outs(%row : tensor<1x4xf32>) {
    ^bb0(%out: f32):
      linalg.yield %half : f32
    } -> tensor<1x4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<3x4xf32>) outs(%wide : tensor<3x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %c = linalg.index 1 : index
      %0 = tensor.extract %m[%first, %c] : tensor<1x4xf32>
      %1 = arith.addf %in, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<3x4xf32>
    return %y : tensor<3x4xf32>
  }
}
