// The host program of a library for one of its targets: per entry the three functions of runtime/abi.h, the constant
// descriptor `heddle_model_descriptor`, and the typed C functions of the generated header. Made as a module of the LLVM
// dialect (docs/ir.md, section 4), translated to LLVM IR, compiled to one object.
#pragma once

#include "compiler/emit/device/device.h"
#include "compiler/emit/host/model_interface.h"
#include "compiler/emit/host/weights_layout.h"
#include "dsl/errors/result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <optional>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace heddle {

struct HostProgram {
  mlir::ModuleOp module;           // after plan_memory
  const ModelInterface &interface; // the same for all targets of a library
  std::string target;              // as in --target, `native` resolved
  uint32_t cpu_features;           // HEDDLE_CPU_* that the kernels use
  const WeightsLayout *weights;
  int64_t embedded_bytes = 0; // of the weights file, where it is linked into the library under `embedded_symbol`
  // The library's targets are numbered from the most demanding one on; number 0 has the typed C functions, too.
  int number = 0;
  bool is_last = true;
  const Gpu *gpu = nullptr; // where a GPU computes, and what it runs there
  const DeviceCode *device = nullptr;
};

/// The descriptor of the library's target of that number.
std::string descriptor_symbol(int number);

/// Symbol of the number-th constant that kernels of a device read; without a number, how all of them begin.
std::string device_constant_symbol(std::optional<int64_t> number);

inline constexpr const char *embedded_symbol = "heddle_embedded_weights";

/// Symbol of entry function `what` (extents, arena_bytes, run) of entry number `entry`.
std::string entry_symbol(int entry, const char *what);

/// The functions in the LLVM dialect. Null after an error reported to the module's context.
mlir::OwningOpRef<mlir::ModuleOp> build_host(const HostProgram &program);

/// The whole program as LLVM IR, optimised.
Result<std::unique_ptr<llvm::Module>> host_to_llvm(const HostProgram &program, mlir::ModuleOp host,
                                                   llvm::LLVMContext &context);

/// An object that has the bytes of the file at `path` under `embedded_symbol`.
Result<std::string> embed_file(const std::string &path);

/// An object with the note by which a model that is linked into a program tells of its thread pool (runtime/abi.h).
Result<std::string> pool_note();

/// Position-independent machine code for x86-64, as the bytes of an object file; `assembly` instead gives its text.
Result<std::string> compile_host(llvm::Module &module);
Result<std::string> host_assembly(llvm::Module &module);

} // namespace heddle
