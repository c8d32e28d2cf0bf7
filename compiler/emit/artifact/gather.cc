#include "compiler/emit/artifact/gather.h"

#include "llvm/Support/MathExtras.h"

namespace heddle {

using namespace mlir;

Gather::Gather(ir::GatheredAttr gathered)
    : shape_(gathered.getShape()), from_(gathered.getFrom()), places_(gathered.getPlaces()) {}

static int64_t value_of(AffineExpr e, const std::vector<int64_t> &index) {
  if (auto constant = dyn_cast<AffineConstantExpr>(e))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(e))
    return index[dim.getPosition()];
  auto both = cast<AffineBinaryOpExpr>(e);
  int64_t a = value_of(both.getLHS(), index), b = value_of(both.getRHS(), index);
  switch (e.getKind()) {
  case AffineExprKind::Add:
    return a + b;
  case AffineExprKind::Mul:
    return a * b;
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(a, b);
  case AffineExprKind::CeilDiv:
    return llvm::divideCeilSigned(a, b);
  default:
    return llvm::mod(a, b);
  }
}

void Gather::for_each(int64_t begin, int64_t count, const std::function<void(size_t, int64_t)> &take) const {
  std::vector<int64_t> index(shape_.size());
  int64_t rest = begin;
  for (size_t axis = shape_.size(); axis-- > 0; rest /= shape_[axis])
    index[axis] = rest % shape_[axis];
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = 0;
    for (auto [axis, place] : llvm::enumerate(places_.getResults())) {
      int64_t at = value_of(place, index);
      from = from < 0 || at < 0 || at >= from_[axis] ? -1 : from * from_[axis] + at;
    }
    take(size_t(i), from);
    for (size_t axis = shape_.size(); axis-- > 0; index[axis] = 0)
      if (++index[axis] < shape_[axis])
        break;
  }
}

} // namespace heddle
