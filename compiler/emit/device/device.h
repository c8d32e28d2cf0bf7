// Rows of kernels' schedules → PTX, for a target that is a GPU. May be called from several threads at once.
#pragma once

#include "compiler/emit/kernels/emit.h"
#include "compiler/gpu/program.h"

#include <map>
#include <string>
#include <vector>

namespace heddle {

/// What the host program must know of a row, and its functions as PTX without the lines at its head.
struct DeviceRow {
  std::vector<gpu::Launch> launches;
  std::vector<gpu::Kept> kept;
  std::string ptx;
};

/// All rows of all kernels of a target's module, by symbol (kernel_symbol).
struct DeviceCode {
  std::map<std::string, DeviceRow> rows;
  std::string cubin; // the same as machine code, for the GPU's own capability; "": none

  /// One text for the driver.
  std::string ptx(const Gpu &gpu) const;
  /// The symbols of all launches; `number_of` is a symbol's place among them.
  std::vector<std::string> launches() const;
  int number_of(const std::string &launch) const;
};

/// How many blocks a launch has at these run-time sizes of its kernel; of none nothing is launched.
int64_t blocks_of(const gpu::Launch &launch, llvm::ArrayRef<int64_t> sizes);
/// Bytes that a row keeps between its launches at these sizes.
int64_t kept_bytes(const DeviceRow &row, llvm::ArrayRef<int64_t> sizes);

Result<DeviceRow> emit_device_row(const KernelRow &row, const Target &target);

/// Every row of every kernel of the module.
Result<DeviceCode> emit_device_code(mlir::ModuleOp module, const Target &target);

} // namespace heddle
