// Every condition of the dialect's verifiers, each with its message.
// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{heddle.dims has "B" twice}}
module attributes {heddle.dims = [{name = "B"}, {name = "B"}]} {}

// -----
// expected-error @+1 {{heddle.dims wants dictionaries with a name}}
module attributes {heddle.dims = ["B"]} {}

// -----
// expected-error @+1 {{has no name in the weights file}}
heddle.weight @w : tensor<4xf32> names [] stored [4]

// -----
// expected-error @+1 {{is computed, but has a name in the weights file}}
heddle.weight @w : tensor<4xf32> names ["w"] stored [4] computed <@f>

// -----
// expected-error @+1 {{is computed, but taken from a tensor of the weights file}}
heddle.weight @w : tensor<4xf32> names [] stored [8] part [2, 4] at [1, -1] computed <@f>

// -----
// expected-error @+1 {{@f is no function that computes weights}}
heddle.weight @w : tensor<4xf32> names [] stored [4] computed <@f>
func.func private @f() -> tensor<4xf32>

// -----
// expected-error @+1 {{@f is '() -> tensor<5xf32>'}}
heddle.weight @w : tensor<4xf32> names [] stored [4] computed <@f>
func.func private @f() -> tensor<5xf32> attributes {heddle.computes}

// -----
heddle.weight @v : tensor<3xf32> names ["v"] stored [3]
// expected-error @+1 {{@v is 'tensor<3xf32>', which is no view of 'tensor<4xf32>'}}
heddle.weight @w : tensor<4xf32> names [] stored [4] computed <@f of @v>
func.func private @f(tensor<4xf32>) -> tensor<4xf32> attributes {heddle.computes}

// -----
// expected-error @+1 {{@v is not a heddle.weight}}
heddle.weight @w : tensor<4xf32> names [] stored [4] computed <@f of @v>
func.func private @f(tensor<4xf32>) -> tensor<4xf32> attributes {heddle.computes}

// -----
// expected-error @+1 {{has 4 elements, but 5 in the weights file}}
heddle.weight @w : tensor<4xf32> names ["w"] stored [5]

// -----
// expected-error @+1 {{has no place 3 on an axis of 3}}
heddle.weight @w : tensor<4xf32> names ["w"] stored [12] part [3, 4] at [3, -1]

// -----
// expected-error @+1 {{is part of 15 elements, but there are 12 in the weights file}}
heddle.weight @w : tensor<5xf32> names ["w"] stored [12] part [3, 5] at [1, -1]

// -----
// expected-error @+1 {{has a part of other axes than its places}}
heddle.weight @w : tensor<4xf32> names ["w"] stored [12] part [3, 4] at [1]

// -----
// expected-error @+1 {{has 12 elements, but 4 in the weights file}}
heddle.weight @w : tensor<12xf32> names ["w"] stored [12] part [3, 4] at [1, -1]

// -----
// expected-error @+1 {{layout (d0) -> (d0) is not over the 2 axes of the tensor}}
heddle.weight @w : tensor<4x3xf32> names ["w"] stored [12] layout <(n) -> (n)>

// -----
// expected-error @+1 {{layout (d0, d1) -> (d0 + d1): d0 + d1 is not a digit of one axis}}
heddle.weight @w : tensor<2x2xf32> names ["w"] stored [4] layout <(n, k) -> (n + k)>

// -----
// expected-error @+1 {{layout (d0) -> (d0 floordiv 8, d0 mod 4): the digits of axis 0 do not make up its index}}
heddle.weight @w : tensor<4xf32> names ["w"] stored [4] layout <(n) -> (n floordiv 8, n mod 4)>

// -----
func.func @f() -> tensor<4xf32> {
  // expected-error @+1 {{@w is not a heddle.weight}}
  %0 = heddle.get @w : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
heddle.weight @w : tensor<2x2xf32> names ["w"] stored [4]
func.func @f() -> tensor<5xf32> {
  // expected-error @+1 {{sees @w as 'tensor<5xf32>', which is no view of 'tensor<2x2xf32>'}}
  %0 = heddle.get @w : tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----
heddle.weight @w : tensor<2x2xf32> names ["w"] stored [4] layout <(n, k) -> (n floordiv 8, k, n mod 8)>
func.func @f() -> tensor<4xf32> {
  // expected-error @+1 {{sees @w as 'tensor<4xf32>', but its layout is that of 'tensor<2x2xf32>'}}
  %0 = heddle.get @w : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
module attributes {heddle.dims = [{name = "B"}]} {
  func.func @f() -> index {
    // expected-error @+1 {{"S" is not one of the module's heddle.dims}}
    %0 = heddle.dim "S"
    return %0 : index
  }
}

// -----
func.func @f(%n: index, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has operands of other types than its block's arguments}}
  %0 = heddle.kernel(%n) : (index) -> tensor<4xf32> {
  ^bb0(%y: tensor<4xf32>):
    heddle.yield %y : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----
func.func @f(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{yields values of other types than its results}}
  %0 = heddle.kernel(%x) : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%y: tensor<4xf32>):
    heddle.yield %y : tensor<4xf32>
  }
  return %0 : tensor<5xf32>
}

// -----
func.func @f(%n: index, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{takes sizes first, then scalars, then tensors}}
  %0 = heddle.kernel(%x, %n) : (tensor<4xf32>, index) -> tensor<4xf32> {
  ^bb0(%y: tensor<4xf32>, %m: index):
    heddle.yield %y : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----
// expected-error @+1 {{argument 1: heddle.extents has 1 results for 'tensor<?x4xf32>'}}
func.func private @k(%n: index, %x: tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0)>})

// -----
// expected-error @+1 {{argument 1: heddle.extents ranges over 2 sizes, the function has 1}}
func.func private @k(%n: index, %x: tensor<?x4xf32> {heddle.extents = affine_map<(d0, d1) -> (d0, 4)>})

// -----
// expected-error @+1 {{argument 1: heddle.extents says 5 where 'tensor<?x4xf32>' has 4}}
func.func private @k(%n: index, %x: tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 5)>})

// -----
// expected-error @+1 {{result 0: heddle.extents has 1 results for 'tensor<?x4xf32>'}}
func.func private @k(%n: index) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0)>})

// -----
// expected-error @+1 {{argument 0: a layout needs a tensor of constant shape, not 'tensor<?xf32>'}}
func.func private @k(%x: tensor<?xf32> {heddle.layout = #heddle.layout<(n) -> (n floordiv 8, n mod 8)>})

// -----
// expected-error @+1 {{heddle.schedule: row 0 has no variant}}
func.func private @k() attributes {heddle.schedule = [{params = {}}]}

// -----
// expected-error @+1 {{heddle.schedule wants at least one row}}
func.func private @k() attributes {heddle.schedule = []}

// -----
// expected-error @+1 {{heddle.schedule: the last row must hold always}}
func.func private @k() attributes {heddle.schedule = [{variant = "rows", when = affine_set<(d0) : (d0 >= 0)>}]}

// -----
module attributes {heddle.dims = [{name = "S"}]} {
  // expected-error @+1 {{has extents affine_map<(d0) -> (d0)> for 'tensor<?x4xf32>' over 1 dims}}
  heddle.state @s0 : tensor<?x4xf32> named "k" extents affine_map<(S) -> (S)>
}

// -----
module attributes {heddle.dims = [{name = "S"}]} {
  heddle.state @s0 : tensor<?x4xf32> named "k" extents affine_map<(S) -> (S, 4)>
  func.func @e() attributes {heddle.entry} {
    // expected-error @+1 {{sees @s0 as 'tensor<4x4xf32>', but it is 'tensor<?x4xf32>'}}
    %0 = heddle.read @s0 : tensor<4x4xf32>
    return
  }
}

// -----
module attributes {heddle.dims = [{name = "S"}]} {
  heddle.state @s0 : tensor<?x4xf32> named "k" extents affine_map<(S) -> (S, 4)>
  func.func @e(%x: tensor<4xf32>, %at: index) attributes {heddle.entry} {
    // expected-error @+1 {{needs, for each axis of 'tensor<4xf32>', an axis of 'tensor<?x4xf32>', ascending}}
    heddle.update @s0, %x at [%at, %at] axes [2] : tensor<4xf32>
    return
  }
}

// -----
module attributes {heddle.dims = [{name = "S"}]} {
  heddle.state @s0 : tensor<?x4xf32> named "k" extents affine_map<(S) -> (S, 4)>
  func.func @e(%x: tensor<4xf32>, %at: index) attributes {heddle.entry} {
    // expected-error @+1 {{has 1 offsets for 'tensor<?x4xf32>'}}
    heddle.update @s0, %x at [%at] axes [0] : tensor<4xf32>
    return
  }
}

// -----
func.func @e(%x: tensor<4xf32>) {
  // expected-error @+1 {{@s9 is not a heddle.state}}
  heddle.update @s9, %x : tensor<4xf32>
  return
}
