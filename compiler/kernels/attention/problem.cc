// Sizes are read off the results' extents and, for the number of keys, off the body.
#include "compiler/kernels/attention/problem.h"

#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/cost.h"
#include "compiler/kernels/sizes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <cmath>

namespace heddle::attention {

/// Whether keys or values may be narrower than what they are multiplied as: then the copy widens them, once for all
/// rows of a block, and not element by element.
static bool reads_narrow(mlir::func::FuncOp kernel) {
  return llvm::any_of(kernel.getArgumentTypes(), [](mlir::Type type) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
    return tensor && llvm::isa<mlir::FloatType>(tensor.getElementType()) && tensor.getElementTypeBitWidth() < 32;
  });
}

/// Whether keys or values are computed where they are read (those of a memory and of a segment, one behind the other):
/// not for every row block again.
static bool computes_keys(const Match &match) {
  for (auto &[op, roles] : match.roles)
    if (std::optional<contraction::Product> product = contraction::product_of(llvm::cast<mlir::linalg::LinalgOp>(op)))
      for (const contraction::Factor *factor : {&product->left, &product->right}) {
        bool of_keys = false, of_rows = false;
        for (unsigned loop : factor->loops.set_bits()) {
          of_keys |= roles[loop] == keys;
          of_rows |= roles[loop] == match.row_axis;
        }
        if (of_keys && !of_rows && !llvm::isa<mlir::BlockArgument>(unwidened(factor->value)))
          return true;
      }
  return false;
}

/// How many numbers that a score is made of, one for each row and key, lie apart for neighbours along `lanes`: a mask
/// of rows x keys, where lanes run along the rows.
static int gathered(const Match &match, Role lanes) {
  int out = 0;
  using Loops = llvm::SmallBitVector; // that a subscript depends on
  for (auto &[made, roles] : match.roles) {
    auto op = llvm::cast<mlir::linalg::LinalgOp>(made);
    if (contraction::product_of(op))
      continue;
    auto depend_on = [&roles = roles](llvm::ArrayRef<Loops> subscripts, Role role) {
      return llvm::any_of(subscripts, [&](const Loops &loops) {
        return llvm::any_of(loops.set_bits(), [&](unsigned loop) { return roles[loop] == role; });
      });
    };
    auto add = [&](llvm::ArrayRef<Loops> subscripts) {
      Role other = lanes == keys ? match.row_axis : keys;
      out += !subscripts.empty() && depend_on(subscripts.drop_back(), lanes) && depend_on(subscripts, other);
    };
    for (mlir::OpOperand *operand : op.getDpsInputOperands())
      if (llvm::isa<mlir::BlockArgument>(operand->get())) {
        std::vector<Loops> subscripts;
        for (mlir::AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
          Loops &loops = subscripts.emplace_back(op.getNumLoops());
          for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
            loops[loop] = expr.isFunctionOfDim(loop);
        }
        add(subscripts);
      }
    op.getBlock()->walk([&](mlir::tensor::ExtractOp read) {
      std::vector<Loops> subscripts;
      for (mlir::Value subscript : read.getIndices())
        subscripts.push_back(contraction::loops_behind(op, subscript));
      add(subscripts);
    });
  }
  return out;
}

/// How many keys a row has, or nothing where the body doesn't say.
mlir::AffineExpr keys_of(const Match &match) {
  for (auto &[made, roles] : match.roles) {
    auto op = llvm::cast<mlir::linalg::LinalgOp>(made);
    mlir::OpOperand *init = op.getDpsInitOperand(0);
    for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(init).getResults())) {
      auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
      if (!dim || roles[dim.getPosition()] != keys)
        continue;
      if (mlir::AffineExpr extent = sizes::extent_of(op, unsigned(axis)))
        return extent;
    }
  }
  return {};
}

/// Keys of a row, as far as the sums over them say.
static int64_t window_of(const Match &match) {
  int64_t window = 64;
  if (!match.has_values())
    return window;
  mlir::linalg::LinalgOp product = match.weighted.front().product.op;
  for (auto [extent, axis] : llvm::zip_equal(product.getStaticLoopRanges(), match.weighted.front().axis_of_loop))
    if (axis < 0 && !mlir::ShapedType::isDynamic(extent))
      window = extent;
  return window;
}

mlir::AffineExpr rows_of(mlir::func::FuncOp kernel, const Match &match) {
  return sizes::extent_of(kernel, match.row_axis);
}

static std::vector<contraction::Product> all_products(const Match &match) {
  std::vector<contraction::Product> products;
  for (const contraction::Reached &weighted : match.weighted)
    products.push_back(weighted.product);
  for (auto &[op, roles] : match.roles)
    if (llvm::is_contained(roles, summed))
      products.push_back(*contraction::product_of(llvm::cast<mlir::linalg::LinalgOp>(op)));
  return products;
}

/// The micro-kernel of all products. Those over keys that slide have none for groups: a window may begin within one.
static const MicroKernel &micro_kernel_of(const Match &match, const Target &target) {
  return match.slide ? micro_kernels().front() : fastest_kernel_for(all_products(match), target);
}

static int products_of(const Match &match) {
  return int(llvm::count_if(match.roles, [](const auto &entry) { return llvm::is_contained(entry.second, summed); }));
}

std::optional<Problem> problem_of(mlir::func::FuncOp kernel, const Target &target) {
  std::optional<Match> matched = match(kernel);
  if (!matched)
    return std::nullopt;
  Problem out{*matched,
              &micro_kernel_of(*matched, target),
              matched->slide ? nullptr : tile_kernel_for(all_products(*matched), target),
              rows_of(kernel, *matched),
              keys_of(*matched),
              {},
              64,
              products_of(*matched),
              window_of(*matched),
              reads_narrow(kernel),
              computes_keys(*matched),
              gathered(*matched, matched->row_axis),
              gathered(*matched, keys)};
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  for (int axis = 0; axis < int(type.getRank()); ++axis)
    if (axis == matched->lane_axis && matched->has_values())
      out.features = type.isDynamicDim(unsigned(axis)) ? out.features : type.getDimSize(unsigned(axis));
    else if (axis != matched->row_axis)
      out.others.push_back(sizes::extent_of(kernel, axis));
  return out;
}

Sizes sizes_of(const Problem &problem, llvm::ArrayRef<int64_t> sizes) {
  Sizes out{sizes::value_of(problem.rows, sizes), sizes::value_of(problem.keys, sizes), 1};
  for (mlir::AffineExpr other : problem.others)
    out.heads *= sizes::value_of(other, sizes);
  return out;
}

double value_cycles(const Problem &problem, int64_t rows, double keys, const Target &target) {
  int64_t accumulators = target.registers * 3 / 4, most = accumulators >= 24 ? 4 : 2;
  int64_t vectors = std::clamp<int64_t>((problem.features + target.lanes - 1) / target.lanes, 1, most);
  int64_t rows_of_tile = std::max<int64_t>(1, std::min(rows, accumulators / vectors));
  while (rows % rows_of_tile != 0)
    --rows_of_tile;
  double tiles = double(rows / rows_of_tile) * std::ceil(double(problem.features) / double(vectors * target.lanes));
  double steps = std::ceil(keys / problem.micro_kernel->group);
  return double(problem.match.weighted.size()) * tiles * steps * step_cycles({rows_of_tile, vectors}, false, target);
}

/// Finding the largest score, the exponential and the sum, per vector of scores; and what is gathered element by
/// element (measured on Zen 4 with a mask: 3.7 to 4.8 cycles for each with 256 to 1024 keys, whose lines share few sets
/// of the cache, some 1.2 with 288 or 600).
double softmax_cycles(double scores, int gathered, const Target &target) {
  return scores / target.lanes * 16 + scores * gathered * 4;
}

} // namespace heddle::attention
