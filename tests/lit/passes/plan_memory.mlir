// Values that are never alive together share a slot; what the entry returns is written where the caller wants it.
// RUN: heddle-opt %s -split-input-file --plan_memory | FileCheck %s

// CHECK-LABEL: func.func @chain
// CHECK-SAME: heddle.slots = 2 : i64
// CHECK: call @k(%{{.*}}, %arg0) {heddle.places = [#heddle.place<slot [[A:[01]]]>]}
// CHECK: call @k(%{{.*}}, %{{.*}}) {heddle.places = [#heddle.place<slot [[B:[01]]]>]}
// CHECK: call @k(%{{.*}}, %{{.*}}) {heddle.places = [#heddle.place<slot [[A]]>]}
// A view is the same bytes: the kernel behind it writes the result.
// CHECK: call @k(%{{.*}}, %{{.*}}) {heddle.places = [#heddle.place<result 0>]}
module attributes {heddle.dims = [{name = "S"}]} {
  func.func @chain(%x: tensor<?x4xf32> {heddle.extents = affine_map<(S) -> (S, 4)>})
      -> (tensor<?x2x2xf32> {heddle.extents = affine_map<(S) -> (S, 2, 2)>}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %0 = call @k(%S, %x) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    %1 = call @k(%S, %0) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    %2 = call @k(%S, %1) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    %3 = call @k(%S, %2) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    %4 = tensor.expand_shape %3 [[0], [1, 2]] output_shape [%S, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32>
    return %4 : tensor<?x2x2xf32>
  }
  func.func private @k(index, tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}

// -----

// The large value opens the first slot; a residual that lives across both keeps a slot of its own.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: heddle.slots = 3 : i64
// CHECK: call @narrow(%{{.*}}, %arg0) {heddle.places = [#heddle.place<slot [[KEPT:[12]]]>]}
// CHECK: call @wide(%{{.*}}, %{{.*}}) {heddle.places = [#heddle.place<slot 0>]}
// CHECK: call @back(%{{.*}}, %{{.*}}) {heddle.places = [#heddle.place<slot {{[12]}}>]}
// CHECK: call @add(%{{.*}}) {heddle.places = [#heddle.place<result 0>]}
module attributes {heddle.dims = [{name = "S"}]} {
  func.func @residual(%x: tensor<?x4xf32> {heddle.extents = affine_map<(S) -> (S, 4)>})
      -> (tensor<?x4xf32> {heddle.extents = affine_map<(S) -> (S, 4)>}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %0 = call @narrow(%S, %x) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
    %1 = call @wide(%S, %0) : (index, tensor<?x4xf32>) -> tensor<?x64xf32>
    %2 = call @back(%S, %1) : (index, tensor<?x64xf32>) -> tensor<?x4xf32>
    %3 = call @add(%S, %0, %2) : (index, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %3 : tensor<?x4xf32>
  }
  func.func private @narrow(index, tensor<?x4xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @wide(index, tensor<?x4xf32>) -> (tensor<?x64xf32> {heddle.extents = affine_map<(d0) -> (d0, 64)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @back(index, tensor<?x64xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @add(index, tensor<?x4xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}

// -----

// What has one size goes where a value of that size was, and not where one was that is smaller for a small S.
// CHECK-LABEL: func.func @gradients
// CHECK: call @wide(%{{.*}}, %arg0) {heddle.places = [#heddle.place<slot [[WIDE:[01]]]>]}
// CHECK: call @sum(%{{.*}}) {heddle.places = [#heddle.place<slot [[SUM:[01]]]>]}
// CHECK: call @thin(%{{.*}}, %{{.*}}) {heddle.places = [#heddle.place<slot [[WIDE]]>]}
// CHECK: call @sum_of_thin(%{{.*}}) {heddle.places = [#heddle.place<slot [[SUM]]>]}
module attributes {heddle.dims = [{name = "S"}]} {
  func.func @gradients(%x: tensor<?x4xf32> {heddle.extents = affine_map<(S) -> (S, 4)>})
      -> (tensor<?x4xf32> {heddle.extents = affine_map<(S) -> (S, 4)>}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %0 = call @wide(%S, %x) : (index, tensor<?x4xf32>) -> tensor<?x64xf32>
    %1 = call @sum(%0) : (tensor<?x64xf32>) -> tensor<32x32xf32>
    %2 = call @thin(%S, %1) : (index, tensor<32x32xf32>) -> tensor<?x4xf32>
    %3 = call @sum_of_thin(%2) : (tensor<?x4xf32>) -> tensor<32x32xf32>
    %4 = call @thin(%S, %3) : (index, tensor<32x32xf32>) -> tensor<?x4xf32>
    return %4 : tensor<?x4xf32>
  }
  func.func private @wide(index, tensor<?x4xf32>) -> (tensor<?x64xf32> {heddle.extents = affine_map<(d0) -> (d0, 64)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @sum(tensor<?x64xf32>) -> tensor<32x32xf32>
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @thin(index, tensor<32x32xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
  func.func private @sum_of_thin(tensor<?x4xf32>) -> tensor<32x32xf32>
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}
