// Each launch is an LLVM function of a module of its own, in arith, scf and the LLVM dialect; index values have 32 bits
// there, as no tensor has more elements. The address of what is kept is a sum over what is kept before it, which every
// thread computes: a few operations on what is the same for all.
#include "compiler/gpu/program.h"

#include "compiler/ir/shapes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::gpu {

using namespace mlir;

static constexpr unsigned global_memory = 1, shared_memory = 3; // NVVM's address spaces

static FailureOr<SmallVector<AffineExpr>> extents_of(Value tensor) {
  auto extents = ir::extent_formulas(tensor);
  if (failed(extents))
    emitError(tensor.getLoc(), "a tensor of a kernel has an extent that is no formula of its sizes");
  return extents;
}

/// What a kernel returns that no op of loops computes for it alone, an argument, a constant or the same value again, is
/// returned as a copy, which launches write like anything else.
static void copy_what_is_not_computed(func::FuncOp kernel) {
  Operation *end = kernel.front().getTerminator();
  OpBuilder b(end);
  SmallVector<Value> sizes;
  llvm::copy_if(kernel.getArguments(), std::back_inserter(sizes), [](Value v) { return v.getType().isIndex(); });
  DenseSet<Value> seen;
  for (OpOperand &operand : end->getOpOperands()) {
    auto op = operand.get().getDefiningOp<linalg::LinalgOp>();
    if (op && !isa<linalg::FillOp>(op.getOperation()) && seen.insert(operand.get()).second)
      continue;
    auto type = cast<RankedTensorType>(operand.get().getType());
    auto extents = ir::extent_formulas(operand.get());
    if (failed(extents))
      continue; // which `define_tensors` reports
    SmallVector<Value> dynamic;
    for (auto [axis, extent] : llvm::enumerate(*extents))
      if (type.isDynamicDim(axis))
        dynamic.push_back(
            affine::AffineApplyOp::create(b, end->getLoc(), AffineMap::get(sizes.size(), 0, extent), sizes));
    Value room = tensor::EmptyOp::create(b, end->getLoc(), type.getShape(), type.getElementType(), dynamic);
    AffineMap same = b.getMultiDimIdentityMap(type.getRank());
    SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
    auto copy = linalg::GenericOp::create(
        b, end->getLoc(), TypeRange{type}, ValueRange{operand.get()}, ValueRange{room}, {same, same}, loops,
        [](OpBuilder &b, Location loc, ValueRange values) { linalg::YieldOp::create(b, loc, values.front()); });
    operand.set(copy.getResult(0));
  }
}

Program::Program(func::FuncOp kernel, std::string symbol)
    : kernel_(kernel), symbol_(std::move(symbol)), module_(ModuleOp::create(kernel.getLoc(), symbol_)) {
  MLIRContext *context = kernel.getContext();
  context->getOrLoadDialect<LLVM::LLVMDialect>();
  context->getOrLoadDialect<NVVM::NVVMDialect>();
  copy_what_is_not_computed(kernel);
  for (BlockArgument argument : kernel.getArguments())
    if (isa<RankedTensorType>(argument.getType()))
      places_[argument] = {argument.getArgNumber()};
  auto returned = kernel.front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(returned))
    places_.try_emplace(value, Place{unsigned(kernel.getNumArguments() + i)});
}

LogicalResult Program::keep(Value tensor) {
  if (is_kept(tensor))
    return success();
  auto extents = extents_of(tensor);
  if (failed(extents))
    return failure();
  places_[tensor] = {0, int64_t(kept_.size())};
  kept_.push_back({*extents, ir::element_bytes(cast<RankedTensorType>(tensor.getType()).getElementType())});
  kept_tensors_.push_back(tensor);
  return success();
}

LogicalResult Program::define_tensors(Thread &thread, Block &parameters) {
  OpBuilder &b = thread.b;
  Location loc = thread.loc;
  auto number = [&](int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 64).getResult(); };
  Value scratch = parameters.getArguments().back(), offset = number(0);
  SmallVector<Value> addresses;
  for (const Kept &kept : kept_) {
    addresses.push_back(
        LLVM::GEPOp::create(b, loc, scratch.getType(), b.getI8Type(), scratch, ArrayRef<LLVM::GEPArg>{offset}));
    Value bytes = number(kept.element_bytes);
    for (AffineExpr extent : kept.extents) {
      Value size = arith::IndexCastOp::create(b, loc, b.getI64Type(), thread.elements.size(extent, kernel_));
      bytes = arith::MulIOp::create(b, loc, bytes, size);
    }
    bytes = arith::AddIOp::create(b, loc, bytes, number(kept_alignment - 1));
    bytes = arith::AndIOp::create(b, loc, bytes, number(-kept_alignment));
    offset = arith::AddIOp::create(b, loc, offset, bytes);
  }
  SmallVector<Value> tensors;
  llvm::copy_if(kernel_.getArguments(), std::back_inserter(tensors),
                [](Value argument) { return isa<RankedTensorType>(argument.getType()); });
  llvm::append_range(tensors, kernel_.front().getTerminator()->getOperands());
  llvm::append_range(tensors, kept_tensors_);
  for (Value tensor : tensors) {
    const Place &place = places_.at(tensor);
    auto extents = extents_of(tensor);
    if (failed(extents))
      return failure();
    Stored stored{place.kept >= 0 ? addresses[place.kept] : Value(parameters.getArgument(place.parameter)),
                  {},
                  cast<RankedTensorType>(tensor.getType()).getElementType()};
    for (AffineExpr extent : *extents)
      stored.extents.push_back(thread.elements.size(extent, kernel_));
    thread.elements.define(tensor, std::move(stored));
  }
  return success();
}

LogicalResult Program::launch(ArrayRef<Dealt> items, int64_t threads,
                              llvm::function_ref<LogicalResult(Thread &)> write) {
  OpBuilder b = OpBuilder::atBlockEnd(module_->getBody());
  Location loc = kernel_.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), global_memory), index = b.getIndexType();
  SmallVector<Type> types;
  for (Type type : kernel_.getArgumentTypes())
    types.push_back(isa<RankedTensorType>(type) ? pointer
                    : isa<IndexType>(type)      ? b.getI32Type()
                    : type.isInteger(1)         ? b.getI8Type()
                                                : type);
  types.append(kernel_.getNumResults() + 1, pointer);
  std::string symbol = symbol_ + "_" + std::to_string(launches_.size());
  auto function = LLVM::LLVMFuncOp::create(b, loc, symbol,
                                           LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(), b.getDenseI32ArrayAttr({int32_t(threads)}));
  Block *block = function.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  Elements elements(b, loc);
  auto register_value = [&](Value value) { return arith::IndexCastOp::create(b, loc, index, value).getResult(); };
  Thread thread{b, loc, elements, register_value(NVVM::BlockIdXOp::create(b, loc, b.getI32Type())),
                register_value(NVVM::ThreadIdXOp::create(b, loc, b.getI32Type()))};
  for (BlockArgument argument : kernel_.getArguments()) {
    Value parameter = block->getArgument(argument.getArgNumber());
    if (isa<IndexType>(argument.getType()))
      elements.define(argument, register_value(parameter));
    else if (argument.getType().isInteger(1))
      elements.define(argument, arith::TruncIOp::create(b, loc, argument.getType(), parameter));
    else if (!isa<RankedTensorType>(argument.getType()))
      elements.define(argument, parameter);
  }
  for (Operation &op : kernel_.front().without_terminator())
    if (op.getNumRegions() == 0 && op.getNumResults() == 1 && !isa<RankedTensorType>(op.getResult(0).getType()))
      elements.repeat(&op);
  if (failed(define_tensors(thread, *block)) || failed(write(thread)))
    return failure();
  b.setInsertionPointToEnd(block);
  LLVM::ReturnOp::create(b, loc, ValueRange());
  launches_.push_back({symbol, SmallVector<Dealt>(items), threads});
  return success();
}

Value Program::shared(Thread &thread, int64_t count, Type element) {
  OpBuilder module = OpBuilder::atBlockBegin(module_->getBody());
  std::string symbol = symbol_ + "_shared" + std::to_string(shared_++);
  Type type = LLVM::LLVMArrayType::get(element, count);
  auto global = LLVM::GlobalOp::create(module, thread.loc, type, /*isConstant=*/false, LLVM::Linkage::Internal, symbol,
                                       Attribute(), /*alignment=*/16, shared_memory);
  return LLVM::AddressOfOp::create(thread.b, thread.loc, global);
}

Value Program::shared_address(Thread &thread, Value shared, Value number, Type element) {
  OpBuilder &b = thread.b;
  Value at = arith::IndexCastOp::create(b, thread.loc, b.getI32Type(), number);
  return LLVM::GEPOp::create(b, thread.loc, shared.getType(), element, shared, ArrayRef<LLVM::GEPArg>{at});
}

Value Program::load_shared(Thread &thread, Value shared, Value number, Type element) {
  return LLVM::LoadOp::create(thread.b, thread.loc, element, shared_address(thread, shared, number, element));
}

void Program::store_shared(Thread &thread, Value shared, Value number, Value element) {
  LLVM::StoreOp::create(thread.b, thread.loc, element, shared_address(thread, shared, number, element.getType()));
}

void Program::barrier(Thread &thread) { NVVM::Barrier0Op::create(thread.b, thread.loc); }

static Value whole_warp(Program::Thread &thread) { return arith::ConstantIntOp::create(thread.b, thread.loc, -1, 32); }

void Program::barrier_of_warp(Thread &thread) { NVVM::SyncWarpOp::create(thread.b, thread.loc, whole_warp(thread)); }

Value Program::exchanged(Thread &thread, Value value, int32_t bits) {
  auto number = [&](int32_t n) { return arith::ConstantIntOp::create(thread.b, thread.loc, n, 32).getResult(); };
  return NVVM::ShflOp::create(thread.b, thread.loc, value.getType(), whole_warp(thread), value, number(bits),
                              number(31), NVVM::ShflKind::bfly, UnitAttr());
}

SmallVector<Value> Program::transposed(Thread &thread, ValueRange values, ArrayRef<int32_t> bits) {
  OpBuilder &b = thread.b;
  SmallVector<Value> out(values);
  for (auto [number, bit] : llvm::enumerate(bits)) {
    Value zero = arith::ConstantIndexOp::create(b, thread.loc, 0);
    Value own = arith::AndIOp::create(b, thread.loc, thread.number, arith::ConstantIndexOp::create(b, thread.loc, bit));
    Value is_low = arith::CmpIOp::create(b, thread.loc, arith::CmpIPredicate::eq, own, zero);
    auto choose = [&](Value p, Value q) { return arith::SelectOp::create(b, thread.loc, is_low, p, q).getResult(); };
    for (size_t slot = 0; slot < out.size(); ++slot) {
      if (slot >> number & 1)
        continue;
      Value p = out[slot], q = out[slot + (size_t(1) << number)];
      Value received = exchanged(thread, choose(q, p), bit);
      out[slot] = choose(p, received), out[slot + (size_t(1) << number)] = choose(received, q);
    }
  }
  return out;
}

SmallVector<Value> digits(Program::Thread &thread, Value item, ValueRange extents) {
  OpBuilder &b = thread.b;
  SmallVector<Value> out(extents.size());
  for (size_t i = extents.size(); i-- > 1;) {
    out[i] = arith::RemUIOp::create(b, thread.loc, item, extents[i]);
    item = arith::DivUIOp::create(b, thread.loc, item, extents[i]);
  }
  if (!out.empty())
    out[0] = item;
  return out;
}

} // namespace heddle::gpu
