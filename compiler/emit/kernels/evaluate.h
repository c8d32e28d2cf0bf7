// A function of weights (`heddle.computes`), compiled and run here and now. The code is that of the least x86-64, so
// that the bits of the result are the same whichever machine packs.
#pragma once

#include "dsl/errors/result.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <memory>

namespace heddle {

class EvaluatedFunction {
public:
  explicit EvaluatedFunction(mlir::func::FuncOp function);
  ~EvaluatedFunction();

  /// `inputs` and `result`: elements of the function's arguments and of its result, row-major, as their types have
  /// them. Code is made once.
  Status run(llvm::ArrayRef<const std::byte *> inputs, std::byte *result);

private:
  struct Code;
  mlir::func::FuncOp function_;
  std::unique_ptr<Code> code_;
};

} // namespace heddle
