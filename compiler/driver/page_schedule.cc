// A kernel's schedule as the page shows it.
#include "compiler/driver/page_facts.h"

#include "compiler/ir/dialect.h"
#include "compiler/kernels/kinds.h"

namespace heddle {

std::vector<PageKernel::Row> page_rows(mlir::func::FuncOp kernel) {
  std::vector<PageKernel::Row> out;
  const KernelKind *kind = find_kind(kernel->getAttrOfType<mlir::StringAttr>(ir::names::kernel).strref());
  auto rows = schedule_rows(kernel);
  if (!rows)
    return out;
  for (const ScheduleRow &row : *rows) {
    PageKernel::Row one{row.variant, "", "", ""};
    if (kind)
      for (const Variant &variant : kind->variants)
        if (variant.name == row.variant)
          one.what = variant.what;
    for (auto &[name, value] : row.params)
      one.params += (one.params.empty() ? "" : ", ") + name + " = " + std::to_string(value);
    if (row.when) {
      llvm::raw_string_ostream stream(one.when);
      row.when->print(stream);
      one.when = one.when.substr(one.when.find(" : ") == std::string::npos ? 0 : one.when.find(" : ") + 3);
    }
    out.push_back(std::move(one));
  }
  return out;
}

int page_row_for(mlir::func::FuncOp kernel, const std::function<std::optional<int64_t>(unsigned)> &size) {
  auto rows = schedule_rows(kernel);
  if (!rows)
    return -1;
  for (auto [i, row] : llvm::enumerate(*rows)) {
    if (!row.when)
      return i;
    llvm::SmallVector<mlir::AffineExpr> values;
    for (unsigned d = 0; d < row.when->getNumDims(); ++d) {
      auto value = size(d);
      if (!value)
        return -1;
      values.push_back(mlir::getAffineConstantExpr(*value, kernel.getContext()));
    }
    bool holds = true;
    for (auto [c, constraint] : llvm::enumerate(row.when->getConstraints())) {
      auto value = llvm::dyn_cast<mlir::AffineConstantExpr>(constraint.replaceDims(values));
      holds &= value && (row.when->isEq(c) ? value.getValue() == 0 : value.getValue() >= 0);
    }
    if (holds)
      return i;
  }
  return -1;
}

} // namespace heddle
