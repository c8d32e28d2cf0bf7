// How updates reach their states.
// RUN: heddle-opt %s -split-input-file --plan_memory | FileCheck %s

// A whole new value is written by its kernel; a place is copied when nobody reads the old one any more.
// CHECK-LABEL: func.func @whole_and_place
// CHECK-SAME: heddle.uses = [{in_place = false, reads = false, starts_as_old = false, state = 0 : i64, updates = true},
// CHECK-SAME: {in_place = true, reads = true, starts_as_old = false, state = 1 : i64, updates = true}]
// CHECK: %[[NEW:.*]] = call @k(%{{.*}}, %arg0) {heddle.places = [#heddle.place<next 0>]}
// CHECK: heddle.update @s0, %[[NEW]] {{.*}}{heddle.copy = #heddle.copy<never>}
// CHECK: %[[ROWS:.*]] = call @k(%{{.*}}, %[[NEW]]) {heddle.places = [#heddle.place<slot 0>]}
// CHECK: heddle.update @s1, %[[ROWS]] at{{.*}} {heddle.copy = #heddle.copy<at_end>}
// CHECK: call @read(%{{.*}}) {heddle.places = [#heddle.place<result 0>]}
module attributes {heddle.dims = [{name = "T"}, {name = "P"}]} {
  heddle.state @s0 : tensor<?x4xf32> named "last" extents affine_map<(T, P) -> (T, 4)> initial 0.0
  heddle.state @s1 : tensor<?x4xf32> named "rows" extents affine_map<(T, P) -> (P, 4)> initial 0.0
  func.func @whole_and_place(%x: tensor<?x4xf32> {heddle.extents = affine_map<(T, P) -> (T, 4)>})
      -> (tensor<?x4xf32> {heddle.extents = affine_map<(T, P) -> (P, 4)>}) attributes {heddle.entry} {
    %T = heddle.dim "T"
    %P = heddle.dim "P"
    %zero = arith.constant 0 : index
    %0 = call @k(%T, %x) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    heddle.update @s0, %0 : tensor<?x4xf32>
    %1 = call @k(%T, %0) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    heddle.update @s1, %1 at [%zero, %zero] axes [0, 1] : tensor<?x4xf32>
    %old = heddle.read @s1 : tensor<?x4xf32>
    %2 = call @read(%P, %old) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
  func.func private @k(index, tensor<?x4xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @read(index, tensor<?x4xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}

// -----

// Slices that make up all of a state are written by their kernels, each to its place.
// CHECK-LABEL: func.func @layers
// CHECK-SAME: {in_place = false, reads = true, starts_as_old = false, state = 0 : i64, updates = true}
// CHECK: call @k(%{{.*}}) {heddle.places = [#heddle.place<next 0 at 0, 0, 0>]}
// CHECK: call @k(%{{.*}}) {heddle.places = [#heddle.place<next 0 at 1, 0, 0>]}
module attributes {heddle.dims = [{name = "T"}]} {
  heddle.state @s0 : tensor<2x?x4xf32> named "mem" extents affine_map<(T) -> (2, T, 4)> initial 0.0
  func.func @layers() attributes {heddle.entry} {
    %T = heddle.dim "T"
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %old = heddle.read @s0 : tensor<2x?x4xf32>
    %0 = call @k(%T, %old) : (index, tensor<2x?x4xf32>) -> tensor<?x4xf32>
    heddle.update @s0, %0 at [%zero, %zero, %zero] axes [1, 2] : tensor<?x4xf32>
    %1 = call @k(%T, %old) : (index, tensor<2x?x4xf32>) -> tensor<?x4xf32>
    heddle.update @s0, %1 at [%one, %zero, %zero] axes [1, 2] : tensor<?x4xf32>
    return
  }
  func.func private @k(index, tensor<2x?x4xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}

// -----

// Updates in a loop of a state that kernels read start from a copy; of one that nobody reads they are made at once.
// CHECK-LABEL: func.func @iterations
// CHECK-SAME: {in_place = false, reads = true, starts_as_old = true, state = 0 : i64, updates = true}
// CHECK-SAME: {in_place = true, reads = true, starts_as_old = false, state = 1 : i64, updates = true}
// CHECK: heddle.update @s0, {{.*}} {heddle.copy = #heddle.copy<at_once>}
// CHECK: heddle.update @s1, {{.*}} {heddle.copy = #heddle.copy<at_once>}
module attributes {heddle.dims = [{name = "T"}]} {
  heddle.state @s0 : tensor<?x4xf32> named "read" extents affine_map<(T) -> (T, 4)> initial 0.0
  heddle.state @s1 : tensor<?x4xf32> named "log" extents affine_map<(T) -> (T, 4)> initial 0.0
  func.func @iterations() attributes {heddle.entry} {
    %T = heddle.dim "T"
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %old = heddle.read @s0 : tensor<?x4xf32>
    scf.for %t = %zero to %T step %one {
      %0 = func.call @k(%T, %old) : (index, tensor<?x4xf32>) -> tensor<4xf32>
      heddle.update @s0, %0 at [%t, %zero] axes [1] : tensor<4xf32>
      heddle.update @s1, %0 at [%t, %zero] axes [1] : tensor<4xf32>
    }
    return
  }
  func.func private @k(index, tensor<?x4xf32>) -> tensor<4xf32>
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}

// -----

// A step of an optimiser is written over what it starts from, once nobody reads that any more, and as soon as what it
// needs is there.
// CHECK-LABEL: func.func @step
// CHECK-SAME: {in_place = true, reads = true, starts_as_old = false, state = 0 : i64, updates = true}
// CHECK-SAME: {in_place = true, reads = true, starts_as_old = false, state = 1 : i64, updates = true}
// CHECK: %[[G:.*]] = call @make
// CHECK-NEXT: %[[Y:.*]] = call @use
// CHECK: call @momentum(%[[G]], {{.*}}) {heddle.places = [#heddle.place<next 0>, #heddle.place<next 1>]}
// CHECK-NEXT: call @make
module {
  heddle.state @s0 : tensor<8xf32> named "w" extents affine_map<() -> (8)> initial 0.0
  heddle.state @s1 : tensor<8xf32> named "m" extents affine_map<() -> (8)> initial 0.0
  func.func @step(%x: tensor<8xf32> {heddle.extents = affine_map<() -> (8)>}) -> (tensor<8xf32> {heddle.extents = affine_map<() -> (8)>})
      attributes {heddle.entry} {
    %w = heddle.read @s0 : tensor<8xf32>
    %g = call @make(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %y = call @use(%w, %g) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %z = call @make(%y) : (tensor<8xf32>) -> tensor<8xf32>
    %m = heddle.read @s1 : tensor<8xf32>
    %0:2 = call @momentum(%g, %w, %m) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    heddle.update @s0, %0#0 : tensor<8xf32>
    heddle.update @s1, %0#1 : tensor<8xf32>
    return %z : tensor<8xf32>
  }
  func.func private @make(tensor<8xf32>) -> (tensor<8xf32> {heddle.extents = affine_map<() -> (8)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @use(tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32> {heddle.extents = affine_map<() -> (8)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @momentum(%g: tensor<8xf32>, %w: tensor<8xf32>, %m: tensor<8xf32>)
      -> (tensor<8xf32> {heddle.extents = affine_map<() -> (8)>}, tensor<8xf32> {heddle.extents = affine_map<() -> (8)>})
      attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %e = tensor.empty() : tensor<8xf32>
    %0:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%g, %w, %m : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e, %e : tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %o: f32, %p: f32):
      %s = arith.addf %a, %c : f32
      %t = arith.subf %b, %s : f32
      linalg.yield %t, %s : f32, f32
    } -> (tensor<8xf32>, tensor<8xf32>)
    return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// Not one whose elements are read at other places than their own, and not before a requirement.
// CHECK-LABEL: func.func @turned
// CHECK-SAME: {in_place = false, reads = true, starts_as_old = false, state = 0 : i64, updates = true}
module {
  heddle.state @s0 : tensor<8xf32> named "w" extents affine_map<() -> (8)> initial 0.0
  func.func @turned() attributes {heddle.entry} {
    %w = heddle.read @s0 : tensor<8xf32>
    %0 = call @turn(%w) : (tensor<8xf32>) -> tensor<8xf32>
    heddle.update @s0, %0 : tensor<8xf32>
    return
  }
  func.func private @turn(%w: tensor<8xf32>) -> (tensor<8xf32> {heddle.extents = affine_map<() -> (8)>})
      attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %e = tensor.empty() : tensor<8xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (7 - i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%w : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// Nor one that reads nothing of the old value, which may have another shape or not be there.
// CHECK-LABEL: func.func @encode
// CHECK-SAME: {in_place = false, reads = false, starts_as_old = false, state = 0 : i64, updates = true}
module {
  heddle.state @s0 : tensor<8xf32> named "keys" extents affine_map<() -> (8)>
  func.func @encode(%x: tensor<8xf32> {heddle.extents = affine_map<() -> (8)>}) attributes {heddle.entry} {
    %0 = call @twice(%x) : (tensor<8xf32>) -> tensor<8xf32>
    heddle.update @s0, %0 : tensor<8xf32>
    return
  }
  func.func private @twice(%x: tensor<8xf32>) -> (tensor<8xf32> {heddle.extents = affine_map<() -> (8)>})
      attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %e = tensor.empty() : tensor<8xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %t = arith.addf %a, %a : f32
      linalg.yield %t : f32
    } -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
