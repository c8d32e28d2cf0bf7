// A kernel's schedule as the page shows it.
#include "compiler/driver/page_facts.h"

#include "compiler/choose/choice.h"

namespace heddle {

/// A sum of sizes with factors, without its constant: "B · S + 2 · T".
static std::string sum_text(mlir::AffineExpr expr, const std::vector<std::string> &sizes, int64_t &constant) {
  using namespace mlir;
  if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
    constant += number.getValue();
    return "";
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    std::string name = dim.getPosition() < sizes.size() ? sizes[dim.getPosition()] : "?";
    return name.find(" or ") == std::string::npos ? name : "(" + name + ")";
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return "?";
  if (expr.getKind() == AffineExprKind::Add) {
    std::string left = sum_text(binary.getLHS(), sizes, constant), right = sum_text(binary.getRHS(), sizes, constant);
    return left.empty() ? right : right.empty() ? left : left + (right[0] == '-' ? " " : " + ") + right;
  }
  int64_t left_constant = 0, right_constant = 0;
  std::string left = sum_text(binary.getLHS(), sizes, left_constant),
              right = sum_text(binary.getRHS(), sizes, right_constant);
  if (right.empty())
    right = std::to_string(right_constant);
  else if (right_constant != 0)
    right = "(" + right + " + " + std::to_string(right_constant) + ")";
  if (left_constant != 0)
    left = "(" + left + " + " + std::to_string(left_constant) + ")";
  if (expr.getKind() == AffineExprKind::Mul)
    return right == "-1" ? "-" + left : right == "1" ? left : right + " · " + left;
  return left + (expr.getKind() == AffineExprKind::Mod ? " % " : " // ") + right;
}

/// "B · S ≥ 5" of `d0 - 5 >= 0`.
static std::string condition_text(mlir::AffineExpr expr, bool equal, const std::vector<std::string> &sizes) {
  int64_t constant = 0;
  std::string sum = sum_text(expr, sizes, constant);
  bool negative = sum.starts_with("-");
  if (negative) { // -x + 4 >= 0: x ≤ 4
    constant = 0;
    sum = sum_text(-expr, sizes, constant);
  }
  return sum + (equal ? " = " : negative ? " ≤ " : " ≥ ") + std::to_string(-constant);
}

std::vector<PageKernel::Row> page_rows(mlir::func::FuncOp kernel, const std::vector<std::string> &sizes) {
  std::vector<PageKernel::Row> out;
  const KernelKind *kind = named_kind(kernel);
  auto rows = schedule_rows(kernel);
  if (!rows)
    return out;
  for (const ScheduleRow &row : *rows) {
    PageKernel::Row one{row.variant, "", "", ""};
    if (const Variant *variant = kind ? kind->find_variant(row.variant) : nullptr)
      one.what = variant->what;
    for (auto &[name, value] : row.params)
      one.params += (one.params.empty() ? "" : ", ") + name + " = " + std::to_string(value);
    if (row.when)
      for (auto [number, constraint] : llvm::enumerate(row.when->getConstraints()))
        one.when += (number ? ", " : "") + condition_text(constraint, row.when->isEq(number), sizes);
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
    SizeClass sizes;
    for (unsigned d = 0; d < row.when->getNumDims(); ++d) {
      auto value = size(d);
      if (!value)
        return -1;
      sizes.push_back(*value);
    }
    if (holds(*row.when, sizes))
      return i;
  }
  return -1;
}

} // namespace heddle
