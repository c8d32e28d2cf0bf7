// A row's variant writes its launches; each row is a module of its own for LLVM, so that rows compile side by side, and
// their texts are put together behind one head.
#include "compiler/emit/device/device.h"

#include "compiler/emit/device/ptx.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/sizes.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <algorithm>
#include <mutex>
#include <optional>

namespace heddle {

std::string DeviceCode::ptx(const Gpu &gpu) const {
  std::string out = ptx_head(gpu);
  for (const auto &[symbol, row] : rows)
    out += row.ptx;
  return out;
}

std::vector<std::string> DeviceCode::launches() const {
  std::vector<std::string> out;
  for (const auto &[symbol, row] : rows)
    for (const gpu::Launch &launch : row.launches)
      out.push_back(launch.symbol);
  return out;
}

int DeviceCode::number_of(const std::string &launch) const {
  std::vector<std::string> all = launches();
  return int(std::find(all.begin(), all.end(), launch) - all.begin());
}

/// The product of formulas over a kernel's sizes.
static int64_t product(llvm::ArrayRef<mlir::AffineExpr> extents, llvm::ArrayRef<int64_t> sizes) {
  int64_t out = 1;
  for (mlir::AffineExpr extent : extents)
    out *= sizes::evaluate(extent, sizes);
  return out;
}

int64_t blocks_of(const gpu::Launch &launch, llvm::ArrayRef<int64_t> sizes) {
  int64_t out = 1;
  for (const gpu::Dealt &dealt : launch.items)
    out *= (product(dealt.extents, sizes) + dealt.each - 1) / dealt.each;
  return out;
}

int64_t kept_bytes(const DeviceRow &row, llvm::ArrayRef<int64_t> sizes) {
  int64_t out = 0;
  for (const gpu::Kept &kept : row.kept)
    out += (product(kept.extents, sizes) * kept.element_bytes + gpu::kept_alignment - 1) & -gpu::kept_alignment;
  return out;
}

/// What stands behind the lines that every text of LLVM's begins with.
static std::string without_head(const std::string &ptx) {
  size_t head = ptx.find(".address_size");
  size_t end = head == std::string::npos ? 0 : ptx.find('\n', head) + 1;
  return ptx.substr(end);
}

static Status write_row(gpu::Program &program, const KernelRow &wanted, const Target &target) {
  mlir::func::FuncOp kernel = wanted.kernel;
  Result<VariantRow> checked = checked_row(kernel, wanted.row);
  if (!checked)
    return checked.error();
  const auto &[variant, row] = *checked;
  std::string where = "kernel @" + kernel.getName().str() + ": ";
  if (!variant->runs_on(target))
    return Error{where + "the variant `" + row.variant + "` is none for " + target.name};
  if (failed(variant->write(program, row, target)))
    return Error{where + "the variant `" + row.variant + "` did not write it; this is a bug of Heddle"};
  return Done{};
}

Result<DeviceRow> emit_device_row(const KernelRow &row, const Target &target) {
  DeviceRow out;
  std::optional<LlvmCode> code;
  {
    static std::mutex one_at_a_time; // the kernels of a module share their context, and LLVM's part takes longer
    std::lock_guard lock(one_at_a_time);
    gpu::Program program(row.kernel, kernel_symbol(row.kernel, row.row));
    if (Status written = write_row(program, row, target); !written)
      return written.error();
    auto translated = to_llvm(program.code());
    if (!translated)
      return translated.error();
    code.emplace(std::move(*translated));
    out.launches = program.launches();
    out.kept = program.kept();
  }
  auto ptx = to_ptx(*code, *target.gpu);
  if (!ptx)
    return ptx.error();
  out.ptx = without_head(*ptx);
  return out;
}

Result<DeviceCode> emit_device_code(mlir::ModuleOp module, const Target &target) {
  DeviceCode out;
  for (auto kernel : module.getOps<mlir::func::FuncOp>())
    for (int row : rows_with_code(kernel)) {
      Result<DeviceRow> made = emit_device_row({kernel, row}, target);
      if (!made)
        return made.error();
      out.rows.emplace(kernel_symbol(kernel, row), std::move(*made));
    }
  return out;
}

} // namespace heddle
