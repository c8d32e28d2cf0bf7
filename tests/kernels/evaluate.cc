// The slow, obvious meaning of a kernel: every linalg op over every point of its loops, in double precision. A body is
// translated once into a list of closures over numbered slots; indices outside of a tensor are clamped, as kernels do.
#include "harness.h"

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <functional>
#include <limits>

namespace heddle::test {

namespace {

namespace arith = mlir::arith;

class Evaluation {
public:
  std::vector<Values> run(mlir::func::FuncOp kernel, const std::vector<int64_t> &sizes,
                          const std::vector<Values> &inputs) {
    size_t next_size = 0, next_input = 0;
    for (mlir::BlockArgument argument : kernel.getArguments())
      if (argument.getType().isIndex())
        scalars_[argument] = double(sizes[next_size++]);
      else
        tensors_[argument] = inputs[next_input++];
    std::vector<Values> results;
    for (mlir::Operation &op : kernel.getBody().front())
      if (auto linalg = llvm::dyn_cast<mlir::linalg::LinalgOp>(op))
        loop_over(linalg);
      else if (auto empty = llvm::dyn_cast<mlir::tensor::EmptyOp>(op))
        tensors_[empty] = nothing(empty);
      else if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op))
        scalars_[constant] = number(constant);
      else if (llvm::isa<mlir::func::ReturnOp>(op))
        for (mlir::Value value : op.getOperands())
          results.push_back(tensors_.at(value));
      else
        compute_size(op);
    return results;
  }

private:
  using Slots = std::vector<double>;
  using Step = std::function<void(Slots &)>;

  static double number(arith::ConstantOp constant) {
    if (auto real = llvm::dyn_cast<mlir::FloatAttr>(constant.getValue()))
      return real.getValueAsDouble();
    auto integer = llvm::cast<mlir::IntegerAttr>(constant.getValue());
    return integer.getType().isInteger(1) ? double(!integer.getValue().isZero()) : double(integer.getInt());
  }

  Values nothing(mlir::tensor::EmptyOp empty) {
    Values values{empty.getType().getElementType(), {}, {}};
    auto dynamic = empty.getDynamicSizes().begin();
    for (int64_t size : empty.getType().getShape())
      values.shape.push_back(mlir::ShapedType::isDynamic(size) ? int64_t(scalars_.at(*dynamic++)) : size);
    values.data.assign(values.count(), std::numeric_limits<double>::quiet_NaN());
    return values;
  }

  /// Index arithmetic between the ops.
  void compute_size(mlir::Operation &op) {
    Slots slots;
    llvm::DenseMap<mlir::Value, size_t> slot;
    for (mlir::Value operand : op.getOperands()) {
      slot[operand] = slots.size();
      slots.push_back(scalars_.at(operand));
    }
    slot[op.getResult(0)] = slots.size();
    slots.push_back(0);
    step_of(op, slot, nullptr)(slots);
    scalars_[op.getResult(0)] = slots.back();
  }

  void loop_over(mlir::linalg::LinalgOp op) {
    std::vector<int64_t> extents(op.getNumLoops(), -1);
    for (mlir::OpOperand &operand : op->getOpOperands())
      if (llvm::isa<mlir::RankedTensorType>(operand.get().getType()))
        for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
          if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr))
            extents[dim.getPosition()] = tensors_.at(operand.get()).shape[axis];
    mlir::Block &body = *op.getBlock();
    llvm::DenseMap<mlir::Value, size_t> slot;
    Slots slots;
    auto slot_of = [&](mlir::Value value) {
      auto [found, fresh] = slot.try_emplace(value, slots.size());
      if (fresh)
        slots.push_back(scalars_.count(value) ? scalars_.at(value) : 0);
      return found->second;
    };
    std::vector<int64_t> point(extents.size(), 0);
    for (mlir::BlockArgument argument : body.getArguments())
      slot_of(argument);
    for (mlir::Operation &nested : body) {
      for (mlir::Value operand : nested.getOperands())
        slot_of(operand);
      for (mlir::Value result : nested.getResults())
        slot_of(result);
    }
    std::vector<Step> steps;
    for (mlir::Operation &nested : body.without_terminator())
      steps.push_back(step_of(nested, slot, &point));
    std::vector<Values> results;
    for (mlir::OpOperand &init : op.getDpsInitsMutable())
      results.push_back(tensors_.at(init.get()));
    auto at = [&](const Values &tensor, mlir::AffineMap map) {
      int64_t offset = 0;
      llvm::SmallVector<int64_t> index = map.compose(point);
      for (size_t axis = 0; axis < index.size(); ++axis)
        offset = offset * tensor.shape[axis] + index[axis];
      return size_t(offset);
    };
    int64_t points = 1;
    for (int64_t extent : extents)
      points *= extent;
    for (int64_t p = 0; p < points; ++p) {
      int64_t rest = p;
      for (size_t loop = extents.size(); loop-- > 0; rest /= extents[loop])
        point[loop] = rest % extents[loop];
      for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
        bool tensor = llvm::isa<mlir::RankedTensorType>(operand->get().getType());
        const Values *values = tensor ? &tensors_.at(operand->get()) : nullptr;
        slots[slot.at(body.getArgument(operand->getOperandNumber()))] =
            tensor ? values->data[at(*values, op.getMatchingIndexingMap(operand))] : scalars_.at(operand->get());
      }
      for (size_t r = 0; r < results.size(); ++r) {
        mlir::OpOperand *init = op.getDpsInitOperand(r);
        slots[slot.at(body.getArgument(init->getOperandNumber()))] =
            results[r].data[at(results[r], op.getMatchingIndexingMap(init))];
      }
      for (const Step &step : steps)
        step(slots);
      for (size_t r = 0; r < results.size(); ++r)
        results[r].data[at(results[r], op.getMatchingIndexingMap(op.getDpsInitOperand(r)))] =
            slots[slot.at(body.getTerminator()->getOperand(r))];
    }
    for (size_t r = 0; r < results.size(); ++r)
      tensors_[op->getResult(r)] = std::move(results[r]);
  }

  static bool compare(arith::CmpFPredicate predicate, double a, double b) {
    using P = arith::CmpFPredicate;
    bool unordered = std::isnan(a) || std::isnan(b);
    switch (predicate) {
    case P::AlwaysFalse:
      return false;
    case P::AlwaysTrue:
      return true;
    case P::OEQ:
      return a == b;
    case P::OGT:
      return a > b;
    case P::OGE:
      return a >= b;
    case P::OLT:
      return a < b;
    case P::OLE:
      return a <= b;
    case P::ONE:
      return !unordered && a != b;
    case P::ORD:
      return !unordered;
    case P::UEQ:
      return unordered || a == b;
    case P::UGT:
      return unordered || a > b;
    case P::UGE:
      return unordered || a >= b;
    case P::ULT:
      return unordered || a < b;
    case P::ULE:
      return unordered || a <= b;
    case P::UNE:
      return unordered || a != b;
    case P::UNO:
      return unordered;
    }
    return false;
  }

  /// The whole number of the same bits without a sign.
  static double without_sign(double value, unsigned width) { return value < 0 ? value + std::ldexp(1, width) : value; }

  static bool compare(arith::CmpIPredicate predicate, unsigned width, double a, double b) {
    using P = arith::CmpIPredicate;
    if (predicate >= P::ult) {
      a = without_sign(a, width);
      b = without_sign(b, width);
    }
    switch (predicate) {
    case P::eq:
      return a == b;
    case P::ne:
      return a != b;
    case P::slt:
    case P::ult:
      return a < b;
    case P::sle:
    case P::ule:
      return a <= b;
    case P::sgt:
    case P::ugt:
      return a > b;
    case P::sge:
    case P::uge:
      return a >= b;
    }
    return false;
  }

  Step step_of(mlir::Operation &op, llvm::DenseMap<mlir::Value, size_t> &slot, std::vector<int64_t> *point) {
    size_t to = slot.at(op.getResult(0));
    std::vector<size_t> from;
    for (mlir::Value operand : op.getOperands())
      from.push_back(slot.count(operand) ? slot.at(operand) : 0);
    auto one = [=](auto f) -> Step { return [=, a = from[0]](Slots &s) { s[to] = double(f(s[a])); }; };
    auto two = [=](auto f) -> Step {
      return [=, a = from[0], b = from[1]](Slots &s) { s[to] = double(f(s[a], s[b])); };
    };
    auto affine = [=](mlir::AffineMap map, auto join) -> Step {
      return [=](Slots &s) {
        llvm::SmallVector<int64_t> operands;
        for (size_t operand : from)
          operands.push_back(int64_t(s[operand]));
        // All operands as dims: the map's symbols come after its dims.
        llvm::SmallVector<mlir::AffineExpr> dims, symbols;
        for (unsigned i = 0; i < map.getNumDims(); ++i)
          dims.push_back(mlir::getAffineDimExpr(i, map.getContext()));
        for (unsigned i = 0; i < map.getNumSymbols(); ++i)
          symbols.push_back(mlir::getAffineDimExpr(map.getNumDims() + i, map.getContext()));
        mlir::AffineMap flat = map.replaceDimsAndSymbols(dims, symbols, operands.size(), 0);
        llvm::SmallVector<int64_t> values = flat.compose(operands);
        int64_t result = values[0];
        for (int64_t value : values)
          result = join(result, value);
        s[to] = double(result);
      };
    };
    auto larger = [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); };
    auto smaller = [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); };
    return llvm::TypeSwitch<mlir::Operation *, Step>(&op)
        .Case<arith::ConstantOp>([&](auto c) -> Step { return [to, v = number(c)](Slots &s) { s[to] = v; }; })
        .Case<mlir::linalg::IndexOp>([&](auto i) -> Step {
          return [to, point, loop = i.getDim()](Slots &s) { s[to] = double((*point)[loop]); };
        })
        .Case<mlir::tensor::ExtractOp>([&](auto read) -> Step {
          const Values *tensor = &tensors_.at(read.getTensor());
          return [=, indices = std::vector<size_t>(from.begin() + 1, from.end())](Slots &s) {
            int64_t offset = 0;
            for (size_t axis = 0; axis < indices.size(); ++axis)
              offset = offset * tensor->shape[axis] +
                       std::clamp<int64_t>(int64_t(s[indices[axis]]), 0, tensor->shape[axis] - 1);
            s[to] = tensor->data[size_t(offset)];
          };
        })
        .Case<mlir::affine::AffineApplyOp>(
            [&](auto apply) { return affine(apply.getAffineMap(), [](int64_t, int64_t b) { return b; }); })
        .Case<mlir::affine::AffineMinOp>([&](auto apply) {
          return affine(apply.getAffineMap(), [](int64_t a, int64_t b) { return std::min(a, b); });
        })
        .Case<mlir::affine::AffineMaxOp>([&](auto apply) {
          return affine(apply.getAffineMap(), [](int64_t a, int64_t b) { return std::max(a, b); });
        })
        .Case<arith::AddFOp, arith::AddIOp>([&](auto) { return two(std::plus<>()); })
        .Case<arith::SubFOp, arith::SubIOp>([&](auto) { return two(std::minus<>()); })
        .Case<arith::MulFOp, arith::MulIOp>([&](auto) { return two(std::multiplies<>()); })
        .Case<arith::DivFOp>([&](auto) { return two(std::divides<>()); })
        .Case<arith::FloorDivSIOp>([&](auto) { return two([](double a, double b) { return std::floor(a / b); }); })
        .Case<arith::CeilDivSIOp>([&](auto) { return two([](double a, double b) { return std::ceil(a / b); }); })
        .Case<arith::DivSIOp>([&](auto) { return two([](double a, double b) { return std::trunc(a / b); }); })
        .Case<arith::RemSIOp>([&](auto) { return two([](double a, double b) { return std::fmod(a, b); }); })
        .Case<arith::AndIOp>([&](auto) { return two([](double a, double b) { return int64_t(a) & int64_t(b); }); })
        .Case<arith::OrIOp>([&](auto) { return two([](double a, double b) { return int64_t(a) | int64_t(b); }); })
        .Case<arith::XOrIOp>([&](auto) { return two([](double a, double b) { return int64_t(a) ^ int64_t(b); }); })
        .Case<arith::MaximumFOp>([&](auto) { return two(larger); })
        .Case<arith::MinimumFOp>([&](auto) { return two(smaller); })
        .Case<arith::MaxNumFOp, arith::MaxSIOp>(
            [&](auto) { return two([](double a, double b) { return std::fmax(a, b); }); })
        .Case<arith::MinNumFOp, arith::MinSIOp>(
            [&](auto) { return two([](double a, double b) { return std::fmin(a, b); }); })
        .Case<arith::NegFOp>([&](auto) { return one(std::negate<>()); })
        .Case<arith::SelectOp>([&](auto) -> Step {
          return [=, c = from[0], a = from[1], b = from[2]](Slots &s) { s[to] = s[c] != 0 ? s[a] : s[b]; };
        })
        .Case<arith::CmpIOp>([&](auto c) {
          mlir::Type type = c.getLhs().getType();
          unsigned width = type.isIndex() ? 32 : type.getIntOrFloatBitWidth(); // in kernels places are 32 bits
          return two([p = c.getPredicate(), width](double a, double b) { return compare(p, width, a, b); });
        })
        .Case<arith::CmpFOp>(
            [&](auto c) { return two([p = c.getPredicate()](double a, double b) { return compare(p, a, b); }); })
        .Case<arith::IndexCastOp, arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp, arith::ExtSIOp>(
            [&](auto) { return one([](double a) { return a; }); })
        .Case<arith::ExtUIOp>([&](auto c) {
          double values = std::ldexp(1.0, int(mlir::getElementTypeOrSelf(c.getIn().getType()).getIntOrFloatBitWidth()));
          return one([values](double a) { return a < 0 ? a + values : a; });
        })
        .Case<arith::FPToSIOp>([&](auto) { return one([](double a) { return std::trunc(a); }); })
        .Case<mlir::math::ExpOp>([&](auto) { return one([](double a) { return std::exp(a); }); })
        .Case<mlir::math::ErfOp>([&](auto) { return one([](double a) { return std::erf(a); }); })
        .Case<mlir::math::TanhOp>([&](auto) { return one([](double a) { return std::tanh(a); }); })
        .Case<mlir::math::SqrtOp>([&](auto) { return one([](double a) { return std::sqrt(a); }); })
        .Case<mlir::math::RsqrtOp>([&](auto) { return one([](double a) { return 1 / std::sqrt(a); }); })
        .Case<mlir::math::LogOp>([&](auto) { return one([](double a) { return std::log(a); }); })
        .Case<mlir::math::SinOp>([&](auto) { return one([](double a) { return std::sin(a); }); })
        .Case<mlir::math::CosOp>([&](auto) { return one([](double a) { return std::cos(a); }); })
        .Case<mlir::math::FloorOp>([&](auto) { return one([](double a) { return std::floor(a); }); })
        .Case<mlir::math::CeilOp>([&](auto) { return one([](double a) { return std::ceil(a); }); })
        .Case<mlir::math::RoundEvenOp>([&](auto) { return one([](double a) { return std::nearbyint(a); }); })
        .Case<mlir::math::AbsFOp>([&](auto) { return one([](double a) { return std::abs(a); }); })
        .Case<mlir::math::PowFOp>([&](auto) { return two([](double a, double b) { return std::pow(a, b); }); })
        .Default([&](mlir::Operation *unknown) -> Step {
          ADD_FAILURE() << "the evaluator doesn't know " << unknown->getName().getStringRef().str();
          return [](Slots &) {};
        });
  }

  llvm::DenseMap<mlir::Value, double> scalars_;
  struct Tensors {
    std::map<void *, Values> map;
    Values &operator[](mlir::Value value) { return map[value.getAsOpaquePointer()]; }
    const Values &at(mlir::Value value) const { return map.at(value.getAsOpaquePointer()); }
  } tensors_;
};

} // namespace

std::vector<Values> evaluate(mlir::func::FuncOp kernel, const std::vector<int64_t> &sizes,
                             const std::vector<Values> &inputs) {
  return Evaluation().run(kernel, sizes, inputs);
}

} // namespace heddle::test
