// Layouts are recognised from the shape of their affine expressions; whatever isn't a digit is refused by `verify`, so
// that all other functions may rely on it.
#include "compiler/layout/layout.h"

#include "mlir/IR/AffineExpr.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace heddle::layout {

using namespace mlir;

std::optional<Digit> digit_of(AffineExpr result) {
  if (auto dim = dyn_cast<AffineDimExpr>(result))
    return Digit{dim.getPosition(), 1, 0};
  auto binary = dyn_cast<AffineBinaryOpExpr>(result);
  auto number = binary ? dyn_cast<AffineConstantExpr>(binary.getRHS()) : AffineConstantExpr();
  if (!number || number.getValue() < 1)
    return std::nullopt;
  std::optional<Digit> inner = digit_of(binary.getLHS());
  if (!inner)
    return std::nullopt;
  int64_t value = number.getValue();
  if (result.getKind() == AffineExprKind::FloorDiv) {
    if (inner->radix % value != 0)
      return std::nullopt;
    return Digit{inner->axis, inner->divisor * value, inner->radix / value};
  }
  if (result.getKind() != AffineExprKind::Mod || (inner->radix > 0 && inner->radix % value != 0))
    return std::nullopt;
  return Digit{inner->axis, inner->divisor, value};
}

template <class Printed> static std::string text_of(const Printed &printed) {
  std::string text;
  llvm::raw_string_ostream(text) << printed;
  return text;
}

LogicalResult verify(AffineMap layout, int64_t rank, function_ref<InFlightDiagnostic()> emit_error) {
  if (layout.getNumSymbols() > 0 || int64_t(layout.getNumDims()) != rank)
    return emit_error() << "layout " << text_of(layout) << " is not over the " << rank << " axes of the tensor";
  SmallVector<SmallVector<Digit>> of_axis(rank);
  for (AffineExpr result : layout.getResults()) {
    std::optional<Digit> digit = digit_of(result);
    if (!digit)
      return emit_error() << "layout " << text_of(layout) << ": " << text_of(result) << " is not a digit of one axis";
    of_axis[digit->axis].push_back(*digit);
  }
  for (auto [axis, digits] : llvm::enumerate(of_axis)) {
    llvm::sort(digits, [](const Digit &a, const Digit &b) { return a.divisor < b.divisor; });
    int64_t covered = 1; // places of the axis that the digits so far tell apart; 0: all
    for (const Digit &digit : digits)
      covered = covered > 0 && digit.divisor == covered ? covered * digit.radix : -1;
    if (covered != 0)
      return emit_error() << "layout " << text_of(layout) << ": the digits of axis " << axis
                          << " do not make up its index";
  }
  return success();
}

AffineMap panels(MLIRContext *context, unsigned axis, int64_t width, ArrayRef<unsigned> others, int64_t group) {
  AffineExpr along = getAffineDimExpr(axis, context);
  SmallVector<AffineExpr> results{along.floorDiv(width)};
  for (unsigned other : others)
    results.push_back(getAffineDimExpr(other, context));
  AffineExpr grouped = results.back();
  if (group > 1)
    results.back() = grouped.floorDiv(group);
  results.push_back(along % width);
  if (group > 1)
    results.push_back(grouped % group);
  return AffineMap::get(others.size() + 1, 0, results, context);
}

/// The last but `skipped` result, where it is the lower digit of its axis.
static std::optional<Digit> lower_digit(AffineMap layout, unsigned skipped) {
  if (!layout || layout.getNumResults() <= skipped)
    return std::nullopt;
  Digit digit = *digit_of(layout.getResult(layout.getNumResults() - 1 - skipped));
  return digit.radix > 0 && digit.divisor == 1 ? std::optional(digit) : std::nullopt;
}

std::optional<Panels> panels_of(AffineMap layout) {
  std::optional<Digit> last = lower_digit(layout, 0), before = lower_digit(layout, 1);
  if (last && before && before->axis != last->axis)
    return Panels{before->axis, before->radix, last->axis, last->radix};
  return last ? std::optional(Panels{last->axis, last->radix, 0, 1}) : std::nullopt;
}

SmallVector<AffineExpr> memory_extents(AffineMap layout, ArrayRef<AffineExpr> extents) {
  SmallVector<AffineExpr> out;
  for (AffineExpr result : layout.getResults()) {
    Digit digit = *digit_of(result);
    out.push_back(digit.radix > 0 ? getAffineConstantExpr(digit.radix, layout.getContext())
                                  : extents[digit.axis].ceilDiv(uint64_t(digit.divisor)));
  }
  return out;
}

SmallVector<int64_t> memory_shape(AffineMap layout, ArrayRef<int64_t> shape) {
  SmallVector<AffineExpr> extents =
      llvm::map_to_vector(shape, [&](int64_t extent) { return getAffineConstantExpr(extent, layout.getContext()); });
  return llvm::map_to_vector(memory_extents(layout, extents),
                             [](AffineExpr extent) { return cast<AffineConstantExpr>(extent).getValue(); });
}

std::string describe(AffineMap layout) {
  if (!layout || layout.isIdentity())
    return "row-major";
  std::optional<Panels> found = panels_of(layout);
  SmallVector<unsigned> others; // in the order of the layout
  for (AffineExpr result : layout.getResults())
    if (Digit digit = *digit_of(result); found && digit.axis != found->axis && !llvm::is_contained(others, digit.axis))
      others.push_back(digit.axis);
  if (!found || panels(layout.getContext(), found->axis, found->width, others, found->group) != layout)
    return text_of(layout);
  std::string text = "panels of " + std::to_string(found->width) + " along axis " + std::to_string(found->axis);
  if (found->group > 1)
    text += ", " + std::to_string(found->group) + " of axis " + std::to_string(found->grouped_axis) + " side by side";
  return text;
}

Addresses::Addresses(AffineMap layout, ArrayRef<int64_t> shape) : tables_(shape.size()) {
  for (auto [axis, extent] : llvm::enumerate(shape))
    tables_[axis].assign(size_t(extent), 0);
  SmallVector<int64_t> in_memory = memory_shape(layout, shape);
  for (size_t i = in_memory.size(); i-- > 0; elements_ *= in_memory[i]) {
    Digit digit = *digit_of(layout.getResult(unsigned(i)));
    for (auto [index, address] : llvm::enumerate(tables_[digit.axis])) {
      int64_t value = int64_t(index) / digit.divisor;
      address += (digit.radix > 0 ? value % digit.radix : value) * elements_;
    }
  }
}

std::vector<int64_t> Addresses::along(unsigned begin, unsigned end) const {
  std::vector<int64_t> out{0};
  for (unsigned axis = begin; axis < end; ++axis) {
    std::vector<int64_t> longer;
    longer.reserve(out.size() * tables_[axis].size());
    for (int64_t outer : out)
      for (int64_t own : tables_[axis])
        longer.push_back(outer + own);
    out = std::move(longer);
  }
  return out;
}

} // namespace heddle::layout
