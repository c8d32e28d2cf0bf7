// The heddle dialect: what the upstream dialects lack. Weights and how they lie in memory, the run-time
// sizes that several tensors share, and the kernel as a region. docs/ir.md shows every op in its place.
#ifndef HEDDLE_TD
#define HEDDLE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def HeddleDialect : Dialect {
  let name = "heddle";
  let cppNamespace = "::heddle::ir";
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

class HeddleOp<string mnemonic, list<Trait> traits = []> : Op<HeddleDialect, mnemonic, traits>;

def PanelsAttr : AttrDef<HeddleDialect, "Panels"> {
  let mnemonic = "panels";
  let summary = "A tensor cut into panels along one axis";
  let description = [{
    Axis `axis` (extent N) is cut into ceil(N / width) panels. In memory the panel number is outermost, then
    the other axes in their order, then the `width` elements of the panel, zero-filled past N. Axis `last`, if given,
    comes after the other ones, right outside of those elements: the channels of a convolution's window.
  }];
  let parameters = (ins "int64_t":$axis, "int64_t":$width, DefaultValuedParameter<"int64_t", "-1">:$last);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The axes of a tensor of that rank other than `axis`, in the order in which they lie in memory.
    llvm::SmallVector<int64_t> other_axes(int64_t rank) const;
  }];
}

def WeightOp : HeddleOp<"weight", [Symbol]> {
  let summary = "A tensor of the weights file";
  let description = [{
    `type` is the shape in which the program and its kernels see the weight; `stored` is the shape in the file, of which
    `type` is a row-major view. `names` are its paths in the file, in the order in which they are tried.
    `layout` says how the compiler lays it out in the packed file; its axis is one of `type`. Absent: row-major.
    With `part` the weight is less than the tensor in the file: of that one, seen as the row-major `part`, it has the
    elements whose place on each axis is the number in `at`, -1 being all places.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyStaticShapeTensor>:$type, StrArrayAttr:$names,
                   DenseI64ArrayAttr:$stored, OptionalAttr<DenseI64ArrayAttr>:$part, OptionalAttr<DenseI64ArrayAttr>:$at,
                   OptionalAttr<PanelsAttr>:$layout);
  let assemblyFormat = "$sym_name `:` $type `names` $names `stored` $stored (`part` $part^ `at` $at)? (`layout` $layout^)? attr-dict";
  let hasVerifier = 1;
}

def GetOp : HeddleOp<"get", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a weight";
  let description = [{
    Its type is the weight's, or, where the weight has no `layout`, any row-major view of it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$weight);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$weight `:` type($result) attr-dict";
}

def DimOp : HeddleOp<"dim", [Pure]> {
  let summary = "The run-time size of that name, one of the module's heddle.dims";
  let arguments = (ins StrAttr:$name);
  let results = (outs Index:$result);
  let assemblyFormat = "$name attr-dict";
  let hasVerifier = 1;
}

def StateOp : HeddleOp<"state", [Symbol]> {
  let summary = "A tensor that lives in a session, from call to call";
  let description = [{
    `extents` are over the dims of the module. Without `initial` it must be updated before it is read. Where it `slides`
    along an axis, every entry that updates it appends rows there and drops as many.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, StrAttr:$label,
                   AffineMapAttr:$extents, OptionalAttr<F64Attr>:$initial, OptionalAttr<I64Attr>:$slides);
  let assemblyFormat = "$sym_name `:` $type `named` $label `extents` $extents (`initial` $initial^)? (`slides` $slides^)? attr-dict";
  let hasVerifier = 1;
}

def ReadOp : HeddleOp<"read", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value that a state had when the entry was called, wherever this stands";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$state `:` type($result) attr-dict";
}

def UpdateOp : HeddleOp<"update", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "What a state holds when the entry has ended";
  let description = [{
    Without `offsets` the value is the whole state. With them it takes the places from `offsets`, one per axis of the
    state; `axes` are those that are axes of the value, too, in order, and along the others it has extent 1. No two
    updates of an entry, and no two turns of one, overlap, so their order means nothing. `sliding`: the value is appended along
    the axis along which the state slides, and as many rows go at the front.
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, AnyRankedTensor:$value, Variadic<Index>:$offsets,
                   OptionalAttr<DenseI64ArrayAttr>:$axes, UnitAttr:$sliding);
  let assemblyFormat = "$state `,` $value (`at` `[` $offsets^ `]` `axes` $axes)? (`sliding` $sliding^)? `:` type($value) attr-dict";
}

def RequireOp : HeddleOp<"require"> {
  let summary = "Ends the call with a message where the condition doesn't hold";
  let arguments = (ins I1:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict";
}

def KernelOp : HeddleOp<"kernel", [IsolatedFromAbove, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "A cluster of ops that becomes one compiled function";
  let description = [{
    The block's arguments are the operands: run-time sizes (`index`) first, then scalars, then tensors.
    `heddle.yield` ends the block with the results, one or more tensors.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`(` $inputs^ `)`)? `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def YieldOp : HeddleOp<"yield", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel with its results";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "$values `:` type($values) attr-dict";
}

#endif // HEDDLE_TD
