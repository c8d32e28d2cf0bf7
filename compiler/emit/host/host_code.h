// What the functions of a host program are written with: constants, addresses, sizes of tensors.
#pragma once

#include "compiler/emit/host/size_builder.h"
#include "compiler/ir/shapes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <limits>

namespace heddle {

inline constexpr int64_t most_elements = std::numeric_limits<int32_t>::max(); // Halide indexes with 32 bits

class HostCode {
public:
  HostCode(mlir::OpBuilder &builder, mlir::Location loc)
      : b(builder), loc(loc), pointer(mlir::LLVM::LLVMPointerType::get(builder.getContext())) {}

  mlir::Type i64() { return b.getI64Type(); }
  mlir::Type i32() { return b.getI32Type(); }
  mlir::Value number64(int64_t value) { return mlir::arith::ConstantIntOp::create(b, loc, value, 64); }
  mlir::Value number32(int64_t value) { return mlir::arith::ConstantIntOp::create(b, loc, value, 32); }
  mlir::Value element(mlir::Value base, mlir::Type type, int64_t at) {
    return mlir::LLVM::GEPOp::create(b, loc, pointer, type, base, mlir::ArrayRef<mlir::LLVM::GEPArg>{int32_t(at)});
  }
  mlir::Value plus_bytes(mlir::Value base, mlir::Value bytes) {
    return mlir::LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base, mlir::ArrayRef<mlir::LLVM::GEPArg>{bytes});
  }
  mlir::Value load_pointer(mlir::Value array, int64_t at) {
    return mlir::LLVM::LoadOp::create(b, loc, pointer, element(array, pointer, at));
  }
  /// An array on the stack; belongs into the function's first block.
  mlir::Value stack_array(mlir::Type type, int64_t count) {
    auto array = mlir::LLVM::LLVMArrayType::get(type, std::max<int64_t>(1, count));
    return mlir::LLVM::AllocaOp::create(b, loc, pointer, array, number32(1));
  }

  /// A text that the library has under this symbol, ending in 0.
  mlir::Value text_address(mlir::Block *module, const std::string &symbol, const std::string &text) {
    auto type = mlir::LLVM::LLVMArrayType::get(b.getI8Type(), text.size() + 1);
    auto from = b.saveInsertionPoint();
    b.setInsertionPointToStart(module);
    mlir::LLVM::GlobalOp::create(b, loc, type, true, mlir::LLVM::Linkage::Private, symbol,
                                 b.getStringAttr(mlir::StringRef(text.c_str(), text.size() + 1)));
    b.restoreInsertionPoint(from);
    return mlir::LLVM::AddressOfOp::create(b, loc, pointer, symbol);
  }

  /// Number of elements of a tensor, or 0 with `too_large` set. No product here can overflow.
  mlir::FailureOr<mlir::Value> elements(SizeBuilder &sizes, mlir::Value tensor, mlir::Value &too_large) {
    auto extents = sizes.extents(tensor);
    if (failed(extents))
      return mlir::failure();
    mlir::Value product = number64(1), zero = number64(0), most = number64(most_elements);
    // Unsigned, so that a negative extent is too large as well.
    auto limit = [&](mlir::Value value) {
      mlir::Value over = mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::ugt, value, most);
      too_large = mlir::arith::OrIOp::create(b, loc, too_large, over);
      return mlir::arith::SelectOp::create(b, loc, over, zero, value);
    };
    for (mlir::Value extent : *extents) {
      mlir::Value bounded = limit(sizes.as_i64(extent));
      mlir::Value next = mlir::arith::MulIOp::create(b, loc, product, bounded);
      product = limit(next);
    }
    return product;
  }
  /// Bytes of a tensor that layout has found not to be too large.
  mlir::FailureOr<mlir::Value> bytes(SizeBuilder &sizes, mlir::Value tensor) {
    mlir::Value ignored = mlir::arith::ConstantIntOp::create(b, loc, 0, 1);
    auto count = elements(sizes, tensor, ignored);
    if (failed(count))
      return mlir::failure();
    auto type = mlir::cast<mlir::RankedTensorType>(tensor.getType());
    mlir::Value each = number64(ir::element_bytes(type.getElementType()));
    return mlir::Value(mlir::arith::MulIOp::create(b, loc, *count, each));
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type pointer;
};

} // namespace heddle
