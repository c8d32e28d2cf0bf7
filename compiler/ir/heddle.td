// The heddle dialect: what the upstream dialects lack. Weights and how they lie in memory, the run-time
// sizes that several tensors share, and the kernel as a region. docs/ir.md shows every op in its place.
#ifndef HEDDLE_TD
#define HEDDLE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
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

def LayoutAttr : AttrDef<HeddleDialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "How a tensor lies in memory";
  let description = [{
    The map from an element's logical index to its index in memory; compiler/layout/layout.h says which maps are layouts
    and what extents they give. An axis whose extent is no multiple of its digits is padded with zeros.
  }];
  let parameters = (ins "::mlir::AffineMap":$map);
  let assemblyFormat = "`<` $map `>`";
}

def PlaceKind : I32Enum<"PlaceKind", "What memory a place is in", [
  I32EnumCase<"slot", 0>, I32EnumCase<"result", 1>, I32EnumCase<"next_state", 2, "next">, I32EnumCase<"iteration", 3>,
  I32EnumCase<"once", 4>]> {
  let cppNamespace = "::heddle::ir";
}

def PlaceAttr : AttrDef<HeddleDialect, "Place"> {
  let mnemonic = "place";
  let summary = "Where a value between kernels is written";
  let description = [{
    `slot`: a slot of the arena. `result`: the caller's buffer. `next`: the next buffer of a state, or the part of it that
    begins at `offsets`, one per axis. `iteration`: where the next iteration of the loop around it looks for what it carries
    under that number. `once`: memory in which a session keeps what it has computed once.
  }];
  let parameters = (ins EnumParameter<PlaceKind>:$kind, "int64_t":$number, OptionalArrayRefParameter<"int64_t">:$offsets);
  let assemblyFormat = "`<` $kind $number (`at` $offsets^)? `>`";
}

def CopyTime : I32Enum<"CopyTime", "When the value of an update is copied to its state", [
  I32EnumCase<"never", 0>, I32EnumCase<"at_once", 1>, I32EnumCase<"at_end", 2>]> {
  let cppNamespace = "::heddle::ir";
}

def CopyTimeAttr : EnumAttr<HeddleDialect, CopyTime, "copy"> {
  let assemblyFormat = "`<` $value `>`";
}

def Derivation : I32Enum<"Derivation", "What packing computes from the floats of a tensor", [
  I32EnumCase<"quantized", 0>, I32EnumCase<"scales", 1>, I32EnumCase<"sums", 2>]> {
  let cppNamespace = "::heddle::ir";
}

def DerivedAttr : AttrDef<HeddleDialect, "Derived"> {
  let mnemonic = "derived";
  let summary = "A weight that is computed from a tensor of the file when it is packed";
  let description = [{
    The floats, seen as the row-major `shape`, have one scale per place on the axes `channels`: the largest magnitude there,
    divided by 127 (1 where all are 0). With `pair_sum` it is at least the largest magnitude of the sum of a pair,
    divided by `pair_sum` - 1, so that the numbers of a pair add up to no more than `pair_sum` in magnitude: places 0 and 1,
    2 and 3, … along an axis other than `channels`, or along several such axes that follow one another, taken as one.
    `quantized`: the floats divided by their scale, to the nearest whole number.
    `scales`: the scales. `sums`: for each channel, the sum of its quantized numbers.
  }];
  let parameters = (ins EnumParameter<Derivation>:$what, ArrayRefParameter<"int64_t">:$shape,
                    ArrayRefParameter<"int64_t">:$channels, OptionalParameter<"int64_t">:$pair_sum);
  let assemblyFormat = "`<` $what `of` `[` $shape `]` `along` `[` $channels `]` (`pair_sum` $pair_sum^)? `>`";
}

def GatheredAttr : AttrDef<HeddleDialect, "Gathered"> {
  let mnemonic = "gathered";
  let summary = "A weight whose elements are those of a tensor of the file at other places";
  let description = [{
    The element at an index of the row-major `shape` is that of the tensor, seen as the row-major `from`, at the place that
    `places` gives, and 0 where that lies outside of it.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::AffineMap":$places,
                    ArrayRefParameter<"int64_t">:$from);
  let assemblyFormat = "`<` `[` $shape `]` `at` $places `from` `[` $from `]` `>`";
}

def ComputedAttr : AttrDef<HeddleDialect, "Computed"> {
  let mnemonic = "computed";
  let summary = "A weight that packing computes from other weights";
  let description = [{
    It is the result of `function`, a function of the module with the attribute `heddle.computes`, for these weights.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$function,
                    OptionalArrayRefParameter<"::mlir::FlatSymbolRefAttr">:$of);
  let assemblyFormat = "`<` $function (`of` $of^)? `>`";
}

def WeightOp : HeddleOp<"weight", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor of the weights file";
  let description = [{
    `type` is the shape in which the program and its kernels see the weight; `stored` is the shape in the file, of which
    `type` is a row-major view. `names` are its paths in the file, in the order in which they are tried.
    `layout` says how the compiler lays it out in the packed file. Absent: row-major.
    With `part` the weight is less than the tensor in the file: of that one, seen as the row-major `part`, it has the
    elements whose place on each axis is the number in `at`, -1 being all places. With `gathered` its
    elements are gathered from other places. With `computed` it is in no file, has no names, and `stored` is the
    shape of what is computed. With `derived` it is derived from these elements.
    A weight that only computed ones are made of is not in the packed file: no `heddle.get` reads it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyStaticShapeTensor>:$type, StrArrayAttr:$names,
                   DenseI64ArrayAttr:$stored, OptionalAttr<DenseI64ArrayAttr>:$part, OptionalAttr<DenseI64ArrayAttr>:$at,
                   OptionalAttr<LayoutAttr>:$layout, OptionalAttr<DerivedAttr>:$derived,
                   OptionalAttr<GatheredAttr>:$gathered, OptionalAttr<ComputedAttr>:$computed);
  let assemblyFormat = [{
    $sym_name `:` $type `names` $names `stored` $stored (`part` $part^ `at` $at)? (`gathered` $gathered^)?
    (`computed` $computed^)? (`derived` $derived^)? (`layout` $layout^)?
    attr-dict
  }];
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
    along an axis, every entry that updates it appends rows there and drops as many. Its elements are less than `below`, and
    not negative.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, StrAttr:$label,
                   AffineMapAttr:$extents, OptionalAttr<F64Attr>:$initial, OptionalAttr<I64Attr>:$slides,
                   OptionalAttr<I64Attr>:$below);
  let assemblyFormat = "$sym_name `:` $type `named` $label `extents` $extents (`initial` $initial^)? (`slides` $slides^)? (`below` $below^)? attr-dict";
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
    updates of an entry, and no two iterations of one, overlap, so their order means nothing. `sliding`: the value is appended along
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

def GroupOp : HeddleOp<"group", [Pure]> {
  let summary = "Rows sorted by a number that each has, in tiles of one number";
  let description = [{
    Each element of `numbers` is a row's number, 0 .. `below` - 1, rows being counted as the elements lie. Rows lie in
    tiles of as many as `rows` has columns, those of a number one behind the other, in their order, from the beginning of a
    tile. `rows` is the row at each place, and where there is none any row that exists; `of_tiles` the number of the rows
    of a tile, -1 where it has none: tiles with rows come first; `places` the place of each row, tile by tile. There are
    `tiles` of them, enough for whatever numbers.
  }];
  let arguments = (ins AnyRankedTensor:$numbers, Index:$tiles, I64Attr:$below);
  let results = (outs AnyRankedTensor:$rows, AnyRankedTensor:$of_tiles, AnyRankedTensor:$places);
  let assemblyFormat = "$numbers `in` $tiles `tiles` `below` $below `:` type($numbers) `->` type($rows) `,` type($of_tiles) `,` type($places) attr-dict";
  let hasVerifier = 1;
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
