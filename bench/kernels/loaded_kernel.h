// A kernel from MLIR text, compiled for this machine, loaded, with buffers for given sizes. Runs on the calling thread.
#pragma once

#include "compiler/emit/kernels/emit.h"
#include "compiler/kernels/kinds.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <vector>

namespace heddle::bench {

class LoadedKernel {
public:
  LoadedKernel();
  /// Compiles the row of the kernel's schedule that these sizes select; an empty string, or what went wrong. A kernel
  /// whose text has no schedule gets one, and the layouts that come first for its kind.
  std::string load(const std::string &text, const std::vector<int64_t> &sizes, const Target &target);
  ~LoadedKernel();

  void run();
  const std::string &description() const { return description_; }
  /// What multiplies (compiler/kernels/product/micro_kernels.def).
  const std::string &micro_kernel() const { return micro_kernel_; }
  double compile_seconds() const { return compile_seconds_; }

private:
  struct Memory;
  void add_buffer(mlir::Type type, mlir::Attribute extents, mlir::Attribute layout, const std::vector<int64_t> &sizes);

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<int32_t> sizes_;
  std::vector<void *> arguments_;
  void *user_context_ = nullptr;
  void *library_ = nullptr;
  int (*function_)(void **) = nullptr;
  std::string description_, micro_kernel_;
  double compile_seconds_ = 0;
};

} // namespace heddle::bench
