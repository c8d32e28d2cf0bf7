// The variants `staged_keys` and `tensor_keys`, for GPUs: which attention they take, how much of it a block of threads
// has, what that costs.
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

/// The factor of `product` that depends on `role` and not on `other`; null where there is none.
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

/// The factor of `product` that has the same lines for all rows, by `along`, an axis of these lines, or, where keys
/// slide along with the rows, lines that depend on rows and keys by that form alone. Null where there is none.
static const Factor *factor_of_lines(const Match &match, const Product &product, Role along) {
  const std::vector<Role> &roles = match.roles.find(product.op)->second;
  if (!match.slide)
    return factor_along(product, roles, along, match.row_axis);
  auto loop_of = [&](Role role) { return unsigned(llvm::find(roles, role) - roles.begin()); };
  for (const Factor *factor : {&product.left, &product.right})
    if (factor->loops.test(loop_of(along)) &&
        slide_of(product.op, factor->value, loop_of(match.row_axis), loop_of(keys)) == match.slide)
      return factor;
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

/// Finds the products of scores.
static Status add_products(StagedKeys &plan, mlir::func::FuncOp kernel) {
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
    const Factor *of_keys = factor_of_lines(plan.match, *product, keys);
    if (queries && of_keys && scores.terms > 0) {
      scores.queries = *queries, scores.keys = *of_keys, scores.staged = true;
      for (auto [number, earlier] : llvm::enumerate(plan.products))
        if (earlier.staged && earlier.queries_of < 0 && same_elements(plan, earlier, scores))
          scores.queries_of = int(number);
    }
    plan.products.push_back(scores);
  }
  return Done{};
}

/// What both variants need to know.
static Result<StagedKeys> plan_of(mlir::func::FuncOp kernel) {
  std::optional<Match> matched = match(kernel);
  if (!matched)
    return Error{"it is no attention"};
  if (matched->slide && (matched->slide->row != 1 || matched->slide->key < 1))
    return Error{"keys slide along with the rows, but not by one for each"};
  std::optional<Softmax> softmax = softmax_of(*matched);
  if (!softmax || !softmax->top)
    return Error{"the weights are no softmax over the keys"};
  LinalgOp weighted = matched->weighted.front().product.op, top = softmax->top;
  mlir::Value score = top.getMatchingOpOperand(llvm::cast<mlir::BlockArgument>(term_of(top)))->get();
  StagedKeys plan{*matched, *softmax, score, {}, {}, {}, {}, {}, {}, {}, 1, 1, 1};
  if (!llvm::cast<mlir::RankedTensorType>(weighted->getResult(0).getType()).getElementType().isF32())
    return Error{"its sums are not f32"};
  auto extents = ir::loop_extents(weighted);
  if (failed(extents))
    return Error{"an extent is no formula"};
  for (auto [axis, extent] : llvm::zip_equal(matched->weighted.front().axis_of_loop, *extents)) {
    if (axis < 0)
      plan.keys = extent;
    else if (axis == matched->row_axis)
      plan.rows = extent;
    else if (axis == matched->lane_axis)
      plan.features = extent;
    else
      plan.others.push_back({axis, extent});
  }
  const Product &product = matched->weighted.front().product;
  const Factor *values = factor_of_lines(plan.match, product, plan.match.lane_axis);
  if (!values)
    return Error{plan.match.slide ? "values don't slide along with the rows" : "values depend on the row"};
  plan.values = *values;
  plan.weights = values == &product.left ? product.right : product.left;
  if (Status found = add_products(plan, kernel); !found)
    return found.error();
  return plan;
}

/// The features of a head; -1: a run-time size.
static int64_t features_of(const StagedKeys &plan) {
  auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(plan.features);
  return constant ? constant.getValue() : -1;
}

Result<StagedKeys> staged_keys_plan(mlir::func::FuncOp kernel, int64_t rows, const Gpu &gpu) {
  Result<StagedKeys> plan = plan_of(kernel);
  if (!plan)
    return plan;
  plan->rows_each = rows / side, plan->keys_each = 2, plan->features_each = 4;
  if (int64_t features = features_of(*plan); features >= 0)
    plan->features_each = std::clamp<int64_t>((features + side - 1) / side, 1, 8);
  int64_t used = plan->block_keys() * (plan->row_pitch() + plan->feature_pitch());
  if (4 * used > gpu.shared)
    return Error{"blocks of so many rows don't fit shared memory"};
  for (StagedKeys::Scores &scores : plan->products) {
    if (!scores.staged)
      continue;
    bool own_queries = scores.queries_of < 0 || !plan->products[scores.queries_of].staged;
    scores.queries_of = own_queries ? -1 : scores.queries_of;
    int64_t more = plan->lines(scores) * (plan->key_pitch() + (own_queries ? plan->row_pitch() : 0));
    scores.staged = 4 * (used + more) <= gpu.shared;
    used += scores.staged ? more : 0;
  }
  return plan;
}

Result<StagedKeys> tensor_keys_plan(mlir::func::FuncOp kernel, int64_t rows, const Gpu &gpu) {
  Result<StagedKeys> plan = plan_of(kernel);
  if (!plan)
    return plan;
  auto is_narrow = [](const Factor &factor) { return contraction::element_read(factor.value).getType().isBF16(); };
  bool narrow = is_narrow(plan->values);
  for (const StagedKeys::Scores &scores : plan->products)
    narrow &= scores.staged && is_narrow(scores.queries) && is_narrow(scores.keys);
  if (!narrow || plan->products.empty())
    return Error{"its factors are not bf16"};
  constexpr int64_t most = 128; // of features in registers
  int64_t features = features_of(*plan);
  plan->warps = rows / 16, plan->rows_each = 2;
  plan->features_each = features < 0 ? 16 : std::min<int64_t>((features + 15) / 16 * 4, most / 4);
  auto bytes_of_line = [](int64_t terms) { return (terms + 15) / 16 * 32; };
  for (int64_t keys : {64, 32, 16}) {
    plan->keys_each = keys / 4;
    int64_t used = keys * bytes_of_line(plan->block_features());
    for (const StagedKeys::Scores &scores : plan->products)
      used += bytes_of_line(scores.terms) * (keys + (scores.queries_of < 0 ? plan->block_rows() : 0));
    // More scores than that of a thread, and its weighted values, don't fit its registers.
    if (used <= gpu.shared && plan->keys_each * 2 + plan->features_each * 2 <= 80)
      return plan;
  }
  return Error{"blocks of so many rows don't fit shared memory"};
}

// Measured on an H200, where nothing else is on a multiprocessor: 32 keys of 16 rows take 2.6 to 3.0 us, of 32 rows 2.7
// us and of 64 rows 4.1 to 4.7 us, of which multiply-adds are 1.0, 1.5 and 2.6 us. A part more to add up takes 0.3 us.
static constexpr double waits_of_keys = 1.8e-6, waits_of_part = 0.3e-6;
static constexpr double held_at_once = 4; // blocks of 256 threads with 64 registers each

/// What a call is expected to take at these sizes of the kernel: of each score so many operations, of a device's rate.
static double seconds(const StagedKeys &plan, llvm::ArrayRef<int64_t> sizes, const Gpu &device, double of_score) {
  double rows = sizes::value_of(plan.rows, sizes), block_rows = double(plan.block_rows());
  double blocks =
      std::ceil(rows / block_rows) * std::ceil(sizes::value_of(plan.features, sizes) / double(plan.block_features()));
  for (auto [axis, extent] : plan.others)
    blocks *= sizes::value_of(extent, sizes);
  double keys = sizes::value_of(plan.keys, sizes);
  if (plan.match.slide) // those of any row
    keys = keys * double(plan.match.slide->key) + double(plan.block_rows());
  double key_blocks = std::ceil(keys / double(plan.block_keys() * plan.splits));
  double parts = blocks * double(plan.splits * plan.threads() * plan.numbers_of_thread()) * 4; // bytes
  parts *= rows / std::max(1.0, std::ceil(rows / block_rows) * block_rows);                    // rows that there are
  blocks *= double(plan.splits);
  double block = key_blocks * double(plan.block_rows() * plan.block_keys()) * of_score;
  // Of small blocks a multiprocessor has several at a time, one of 256 threads otherwise.
  double at_once = double(device.multiprocessors) * std::max(1.0, 256 / double(plan.threads()));
  // Those that its registers hold wait together: for barriers, and for numbers from memory and shared memory.
  double waiting = key_blocks * waits_of_keys * std::ceil(blocks / (at_once * held_at_once));
  double sharing = gpu::launch_seconds + waits_of_part * double(plan.splits) + 2 * parts / device.memory_rate;
  return gpu::launch_seconds + (plan.splits > 1 ? sharing : 0) + waiting +
         std::ceil(blocks / at_once) * block * at_once / device.flops;
}

static constexpr double exponential = 60; // operations of one, and of what goes before it

static double on_multiply_adds(const StagedKeys &plan, const Gpu &) {
  // Shared memory gives a number in the time of two multiply-adds, and memory behind it one in that of sixteen.
  auto with_loads = [](int64_t p, int64_t q) { return 1 + 2 * double(p + q) / double(p * q); };
  double out = exponential;
  for (const StagedKeys::Scores &scores : plan.products)
    out += 2 * double(std::max<int64_t>(scores.terms, 1)) *
           (scores.staged ? with_loads(plan.rows_each, plan.keys_each) : 32);
  return out + 2 * double(plan.block_features()) * with_loads(plan.rows_each, plan.features_each);
}

static double on_tensor_cores(const StagedKeys &plan, const Gpu &device) {
  // Half of the time goes by while matrices come from shared memory; lines come there once for all rows of a block.
  double terms = double(plan.block_features());
  for (const StagedKeys::Scores &scores : plan.products)
    terms += double(scores.terms);
  return exponential + 4 * terms * device.flops / device.tensor_flops + 16 * terms / double(plan.block_rows());
}

static Result<std::vector<Candidate>>
candidates_of(mlir::func::FuncOp kernel, const Target &target, std::vector<int64_t> heights,
              Result<StagedKeys> (*plan_for)(mlir::func::FuncOp, int64_t, const Gpu &),
              double (*of_score)(const StagedKeys &, const Gpu &), const Variant &variant, const char *parameter,
              int64_t unit) {
  std::vector<Candidate> out;
  std::string why = "it is for GPUs";
  for (int64_t rows : target.gpu ? heights : std::vector<int64_t>{}) {
    Result<StagedKeys> plan = plan_for(kernel, rows, *target.gpu);
    if (!plan) {
      why = plan.error().message;
      continue;
    }
    for (int64_t splits : {1, 4, 16}) { // few rows alone make few blocks
      if (splits > 1 && rows > side)
        continue;
      plan->splits = splits;
      out.push_back({{std::string(variant.name), {{parameter, rows / unit}, {"splits", splits}}},
                     [plan = *plan, device = *target.gpu, of_score](llvm::ArrayRef<int64_t> sizes) {
                       return seconds(plan, sizes, device, of_score(plan, device));
                     }});
    }
  }
  if (out.empty())
    return Error{why};
  return out;
}

static Result<std::vector<Candidate>> staged_candidates(mlir::func::FuncOp kernel, const Target &target) {
  return candidates_of(kernel, target, {64, 32, 16}, staged_keys_plan, on_multiply_adds, staged_keys, "per_thread",
                       side);
}

static Result<std::vector<Candidate>> tensor_candidates(mlir::func::FuncOp kernel, const Target &target) {
  return candidates_of(kernel, target, {64, 128, 32, 16}, tensor_keys_plan, on_tensor_cores, tensor_keys, "rows", 1);
}

static const Parameter splits = {"splits", "parts of the keys, which a block each has", 1, 64, {1, 4}};

static mlir::LogicalResult write(gpu::Program &program, const ScheduleRow &row, Result<StagedKeys> plan) {
  if (!plan)
    return program.kernel().emitError() << plan.error().message;
  plan->splits = row.params.at("splits");
  return write_staged_keys(program, *plan);
}

const Variant staged_keys = {
    .name = "staged_keys",
    .what = "16 rows of a head for each row of a thread in a block, 32 keys at a time in shared memory, no scores in "
            "memory",
    .parameters = {{"per_thread", "rows of a thread, of which a block has 16 x 16", 1, 4, {1, 2, 4}}, splits},
    .candidates = staged_candidates,
    .version = 5,
    .write = [](gpu::Program &program, const ScheduleRow &row, const Target &target) {
      return write(program, row, staged_keys_plan(program.kernel(), side * row.params.at("per_thread"), *target.gpu));
    }};

const Variant tensor_keys = {
    .name = "tensor_keys",
    .what = "16 rows of a head for each warp of a block, both products of bf16 on tensor cores, no scores in memory",
    .parameters = {{"rows", "rows of a block, a multiple of 16", 16, 128, {16, 32, 64}}, splits},
    .candidates = tensor_candidates,
    .version = 3,
    .write = [](gpu::Program &program, const ScheduleRow &row, const Target &target) {
      return write(program, row, tensor_keys_plan(program.kernel(), row.params.at("rows"), *target.gpu));
    }};

} // namespace heddle::attention
