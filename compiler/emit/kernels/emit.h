// Rows of kernels' schedules → an object file. The kernel's kind and the row come from its attributes
// `heddle.kernel` and `heddle.schedule` (docs/ir.md section 2); the functions made have the form of section 3.
// May be called from several threads at once, for different functions or for the same one.
#pragma once

#include "compiler/targets/target.h"
#include "dsl/errors/result.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <string_view>

namespace heddle {

enum class KernelForm { object, statement, llvm, assembly };

struct EmitOptions {
  KernelForm form = KernelForm::object;  // the others are text, for people
  bool with_asserts = false;             // check every promise about buffers at run time (tests)
  bool with_argv = false;                // also `<symbol>_argv`, which takes an array of pointers (tests, benches)
  std::string_view without_rewrite = {}; // a row of compiler/halide/rewrites left out: what is it needed for? (tests)
  bool nameless = false;                 // functions are named for their row's place: nameless_symbol(0), …
};

/// A row of the schedule of a kernel.
struct KernelRow {
  mlir::func::FuncOp kernel;
  int row = 0;
};

struct KernelObject {
  std::string symbol;       // of the first function
  std::string bytes;        // the object file, or the text asked for
  double lower_seconds = 0; // from linalg to the scheduled pipeline
  double compile_seconds = 0;
};

/// These rows, at least one, as one object file: Halide begins every module with code of its own, which takes as long
/// to compile as a small kernel.
Result<KernelObject> emit_kernels(llvm::ArrayRef<KernelRow> rows, const Target &target,
                                  const EmitOptions &options = {});

/// Row `schedule_row` of the kernel's schedule as an object file that defines kernel_symbol(kernel, schedule_row).
Result<KernelObject> emit_kernel(mlir::func::FuncOp kernel, int schedule_row, const Target &target,
                                 const EmitOptions &options = {});

/// Every row of every kernel of the module in a textual form, each under a line `// SYMBOL`.
Result<std::string> kernel_texts(mlir::ModuleOp module, const Target &target, KernelForm form);

/// The CPU features that the code of any kernel of the module is compiled with.
uint32_t cpu_features(mlir::ModuleOp module, const Target &target);

/// The rows of a kernel's schedule that code is made for: of those that have the same, the first.
std::vector<int> rows_with_code(mlir::func::FuncOp kernel);

/// `<kernel>_<row>`; rows of the same code have one function, which has the name of the first of them.
std::string kernel_symbol(mlir::func::FuncOp kernel, int schedule_row);

/// What the function of a row is named instead where the object is to be the same for kernels of any name.
std::string nameless_symbol(size_t place);

} // namespace heddle
