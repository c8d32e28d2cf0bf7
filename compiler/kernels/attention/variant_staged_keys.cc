// The variant `staged_keys`, for GPUs: which attention it takes, how much of it a block of threads has, what that
// costs.
#include "compiler/kernels/attention/problem.h"
#include "compiler/kernels/attention/staged_keys.h"

#include "compiler/gpu/program.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/sizes.h"

#include <cmath>

namespace heddle::attention {

using contraction::Factor;
using contraction::Product;
using mlir::linalg::LinalgOp;

/// The factor of scores that depends on rows, or on keys, and not on the other; null where there is none.
static const Factor *factor_along(const Product &product, const std::vector<Role> &roles, Role role, Role other) {
  for (const Factor *factor : {&product.left, &product.right}) {
    bool along = false, across = false;
    for (unsigned loop : factor->loops.set_bits()) {
      along |= roles[loop] == role;
      across |= roles[loop] == other;
    }
    if (along && !across)
      return factor;
  }
  return nullptr;
}

/// Whether two products read the same elements as factors: those of one tensor, at axes that mean the same.
static bool same_elements(const StagedKeys &plan, const StagedKeys::Scores &one, const StagedKeys::Scores &other) {
  auto axes = [&](const StagedKeys::Scores &scores) {
    LinalgOp op = scores.op;
    std::pair<mlir::Value, std::vector<Role>> out;
    auto argument = llvm::dyn_cast<mlir::BlockArgument>(scores.queries.value);
    if (!argument || argument.getOwner() != op.getBlock())
      return out;
    mlir::OpOperand &operand = op->getOpOperand(argument.getArgNumber());
    out.first = operand.get();
    for (mlir::AffineExpr at : op.getMatchingIndexingMap(&operand).getResults()) {
      auto loop = llvm::dyn_cast<mlir::AffineDimExpr>(at);
      if (!loop)
        return std::pair<mlir::Value, std::vector<Role>>();
      out.second.push_back(plan.match.roles.find(op)->second[loop.getPosition()]);
    }
    return out;
  };
  auto read = axes(one);
  return one.terms == other.terms && read.first && llvm::count(read.second, summed) == 1 && read == axes(other);
}

/// Finds the products of scores, and room in shared memory for their factors.
static Status add_products(StagedKeys &plan, mlir::func::FuncOp kernel, int64_t bytes) {
  int64_t used = plan.block_keys() * (plan.row_pitch() + plan.feature_pitch());
  if (4 * used > bytes)
    return Error{"blocks of so many rows don't fit shared memory"};
  for (auto op : kernel.getBody().front().getOps<LinalgOp>()) {
    auto found = plan.match.roles.find(op);
    if (found == plan.match.roles.end() || !llvm::is_contained(found->second, summed))
      continue;
    if (!llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType()).getElementType().isF32())
      return Error{"scores are not sums of f32"};
    std::optional<Product> product = contraction::product_of(op);
    StagedKeys::Scores scores{op, 1};
    for (auto [extent, role] : llvm::zip_equal(op.getStaticLoopRanges(), found->second))
      if (role == summed)
        scores.terms = mlir::ShapedType::isDynamic(extent) || scores.terms < 0 ? -1 : scores.terms * extent;
    const Factor *queries = factor_along(*product, found->second, plan.match.row_axis, keys);
    const Factor *of_keys = factor_along(*product, found->second, keys, plan.match.row_axis);
    if (queries && of_keys && scores.terms > 0) {
      scores.queries = *queries, scores.keys = *of_keys;
      for (auto [number, earlier] : llvm::enumerate(plan.products))
        if (earlier.staged && earlier.queries_of < 0 && same_elements(plan, earlier, scores))
          scores.queries_of = int(number);
      int64_t more = plan.lines(scores) * (plan.key_pitch() + (scores.queries_of < 0 ? plan.row_pitch() : 0));
      scores.staged = 4 * (used + more) <= bytes;
      used += scores.staged ? more : 0;
    }
    plan.products.push_back(scores);
  }
  return Done{};
}

Result<StagedKeys> staged_keys_plan(mlir::func::FuncOp kernel, int64_t rows_each, const Gpu &gpu) {
  std::optional<Match> matched = match(kernel);
  if (!matched)
    return Error{"it is no attention"};
  if (matched->slide)
    return Error{"keys slide along with the rows"};
  std::optional<Softmax> softmax = softmax_of(*matched);
  if (!softmax)
    return Error{"the weights are no softmax over the keys"};
  LinalgOp weighted = matched->weighted.product.op, top = softmax->top;
  mlir::Value score = top.getMatchingOpOperand(llvm::cast<mlir::BlockArgument>(term_of(top)))->get();
  StagedKeys plan{*matched, *softmax, score, {}, {}, {}, {}, {}, {}, {}, rows_each, 2, 4};
  if (!llvm::cast<mlir::RankedTensorType>(weighted->getResult(0).getType()).getElementType().isF32())
    return Error{"its sums are not f32"};
  auto extents = ir::loop_extents(weighted);
  if (failed(extents))
    return Error{"an extent is no formula"};
  for (auto [axis, extent, size] :
       llvm::zip_equal(matched->weighted.axis_of_loop, *extents, weighted.getStaticLoopRanges())) {
    if (axis < 0)
      plan.keys = extent;
    else if (axis == matched->row_axis)
      plan.rows = extent;
    else if (axis != matched->lane_axis)
      plan.others.push_back({axis, extent});
    else {
      plan.features = extent;
      if (!mlir::ShapedType::isDynamic(size))
        plan.features_each = std::clamp<int64_t>((size + side - 1) / side, 1, 8);
    }
  }
  const Product &product = matched->weighted.product;
  const std::vector<Role> &roles = plan.match.roles.find(weighted)->second;
  const Factor *values = factor_along(product, roles, plan.match.lane_axis, plan.match.row_axis);
  if (!values)
    return Error{"values depend on the row"};
  plan.values = *values;
  plan.weights = values == &product.left ? product.right : product.left;
  if (Status fits = add_products(plan, kernel, gpu.shared); !fits)
    return fits.error();
  return plan;
}

/// What a call is expected to take at these sizes of the kernel.
static double seconds(const StagedKeys &plan, llvm::ArrayRef<int64_t> sizes, const Gpu &device) {
  // Shared memory gives a number in the time of two multiply-adds, and memory behind it one in that of sixteen.
  auto with_loads = [](int64_t p, int64_t q) { return 1 + 2 * double(p + q) / double(p * q); };
  double of_score = 60; // the exponential, and what goes before it
  for (const StagedKeys::Scores &scores : plan.products)
    of_score += 2 * double(std::max<int64_t>(scores.terms, 1)) *
                (scores.staged ? with_loads(plan.rows_each, plan.keys_each) : 32);
  of_score += 2 * double(plan.block_features()) * with_loads(plan.rows_each, plan.features_each);
  double blocks = std::ceil(sizes::value_of(plan.rows, sizes) / double(plan.block_rows())) *
                  std::ceil(sizes::value_of(plan.features, sizes) / double(plan.block_features()));
  for (auto [axis, extent] : plan.others)
    blocks *= sizes::value_of(extent, sizes);
  double key_blocks = std::ceil(sizes::value_of(plan.keys, sizes) / double(plan.block_keys()));
  double block = key_blocks * double(plan.block_rows() * plan.block_keys()) * of_score;
  return gpu::launch_seconds +
         std::ceil(blocks / device.multiprocessors) * block * device.multiprocessors / device.flops;
}

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  std::vector<Candidate> out;
  std::string why = "it is for GPUs";
  for (int64_t rows : target.gpu ? std::vector<int64_t>{4, 2, 1} : std::vector<int64_t>{}) {
    Result<StagedKeys> plan = staged_keys_plan(kernel, rows, *target.gpu);
    if (plan)
      out.push_back({{std::string(staged_keys.name), {{"per_thread", rows}}},
                     [plan = *plan, device = *target.gpu](llvm::ArrayRef<int64_t> sizes) {
                       return seconds(plan, sizes, device);
                     }});
    else
      why = plan.error().message;
  }
  if (out.empty())
    return Error{why};
  return out;
}

const Variant staged_keys = {
    "staged_keys",
    "16 rows of a head for each row of a thread in a block, 32 keys at a time in shared memory, no scores in memory",
    {{"per_thread", "rows of a thread, of which a block has 16 x 16", 1, 4, {1, 2, 4}}},
    candidates,
    nullptr,
    false,
    1,
    write_staged_keys};

} // namespace heddle::attention
