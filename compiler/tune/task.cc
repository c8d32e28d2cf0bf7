// A kernel's weights are asked for in all layouts that its kind offers, those of one kernel together: the first of
// each, the second of each. What the weights of other readers lie in stays.
#include "compiler/tune/task.h"

#include "compiler/choose/records.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/sizes.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/size_ranges.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <map>

namespace heddle::tune {

using namespace mlir;

static constexpr double worth_measuring = 2; // times the least expected time of the variant

namespace {

/// Numbers of an entry, where dims have the values that are expected.
class Numbers {
public:
  explicit Numbers(ModuleOp module)
      : module_(module), dims_(module->getAttrOfType<DictionaryAttr>(ir::names::expected)) {
    for (NamedAttribute dim : dims_ ? dims_.getValue() : ArrayRef<NamedAttribute>())
      if (auto value = dyn_cast<IntegerAttr>(dim.getValue()))
        largest_ = std::max(largest_, value.getInt());
  }

  std::optional<int64_t> size(mlir::Value value) const {
    passes::SizeRange range = passes::range_of(module_, value, dims_);
    return range.least == range.most ? std::optional(range.least) : std::nullopt;
  }

  /// Of a run-time scalar: in the middle of a loop, and half of the largest dim where it comes from data.
  int64_t scalar(mlir::Value value) const {
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()); loop && argument.getArgNumber() == 0)
        return (size(loop.getLowerBound()).value_or(0) + size(loop.getUpperBound()).value_or(1)) / 2;
    if (value.getType().isIndex())
      if (auto known = size(value))
        return *known;
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op))
      if (auto number = dyn_cast<IntegerAttr>(constant.getValue()))
        return number.getInt();
    if (isa_and_nonnull<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
      return scalar(op->getOperand(0));
    if (isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
      int64_t left = scalar(op->getOperand(0)), right = scalar(op->getOperand(1));
      return isa<arith::AddIOp>(op) ? left + right : isa<arith::SubIOp>(op) ? left - right : left * right;
    }
    return std::max<int64_t>(largest_ / 2, 1);
  }

  /// How often an operation of an entry runs.
  double times(Operation *op) const {
    double out = 1;
    for (auto loop = op->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>()) {
      double turns = double(size(loop.getUpperBound()).value_or(1)) - double(size(loop.getLowerBound()).value_or(0));
      out *= std::max(turns, 0.0);
    }
    return out;
  }

private:
  ModuleOp module_;
  DictionaryAttr dims_;
  int64_t largest_ = 1;
};

} // namespace

static double bytes_of(mlir::Type type, Attribute extents, ArrayRef<int64_t> sizes) {
  auto tensor = cast<RankedTensorType>(type);
  double out = double(ir::element_bytes(tensor.getElementType()));
  for (unsigned axis = 0; axis < tensor.getRank(); ++axis)
    out *= !tensor.isDynamicDim(axis) ? double(tensor.getDimSize(axis))
           : extents ? double(sizes::evaluate(cast<AffineMapAttr>(extents).getValue().getResult(axis), sizes))
                     : 1;
  return out;
}

static void count_work(Task &task, func::FuncOp kernel) {
  kernel.walk([&](linalg::LinalgOp op) {
    if (op.getNumReductionLoops() > 0 && contraction::product_of(op))
      task.operations += 2 * sizes::points_of(op, task.sizes);
  });
  double results = 0;
  for (unsigned i = 0; i < kernel.getNumResults(); ++i)
    results += bytes_of(kernel.getResultTypes()[i], kernel.getResultAttr(i, ir::names::extents), task.sizes);
  task.bytes = task.memory = results;
  for (BlockArgument argument : kernel.getArguments())
    if (isa<RankedTensorType>(argument.getType())) {
      Attribute extents = kernel.getArgAttr(argument.getArgNumber(), ir::names::extents);
      double bytes = bytes_of(argument.getType(), extents, task.sizes);
      task.memory += bytes;
      task.bytes += sizes::is_only_looked_into(argument) ? std::min(bytes, results) : bytes;
    }
}

static double weight_bytes(func::CallOp call) {
  double out = 0;
  for (mlir::Value operand : call.getOperands())
    if (operand.getDefiningOp<ir::GetOp>())
      out += bytes_of(operand.getType(), {}, {});
  return out;
}

/// The kernel with that row as its only schedule.
static Option option_of(func::FuncOp kernel, ScheduleRow row, double expected) {
  const KernelKind &kind = kind_of(kernel);
  Option out{layouts_text(kernel), row_text(row, *kind.find_variant(row.variant)), "", expected};
  func::FuncOp copy = kernel.clone();
  row.when.reset();
  copy->setAttr(ir::names::kernel, StringAttr::get(kernel.getContext(), kind.name));
  copy->setAttr(ir::names::schedule, schedule_attribute(kernel.getContext(), {&row, 1}));
  llvm::raw_string_ostream stream(out.text);
  OpPrintingFlags flags;
  flags.useLocalScope();
  copy.print(stream, flags);
  copy.erase();
  return out;
}

/// The kernel with its weights in the layouts of that number, of those that its kind offers; the last ones of a shorter
/// list. `more`: whether there is a further number.
static func::FuncOp laid_out(func::FuncOp kernel, size_t number, const Target &target, bool &more) {
  func::FuncOp free = kernel.clone();
  for (unsigned argument = 0; argument < free.getNumArguments(); ++argument)
    free.removeArgAttr(argument, ir::names::layout);
  const KernelKind &kind = kind_of(free);
  more = false;
  std::vector<std::pair<unsigned, AffineMap>> wanted;
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument) {
    auto given = kernel.getArgAttrOfType<ir::LayoutAttr>(argument, ir::names::layout);
    if (!given)
      continue;
    std::vector<AffineMap> offered = kind.layouts ? kind.layouts(free, argument, target) : std::vector<AffineMap>();
    more |= number + 1 < offered.size();
    wanted.push_back({argument, offered.empty() ? given.getMap() : offered[std::min(number, offered.size() - 1)]});
  }
  for (auto [argument, map] : wanted)
    free.setArgAttr(argument, ir::names::layout, ir::LayoutAttr::get(kernel.getContext(), map));
  return free;
}

static void add_options(Task &task, func::FuncOp kernel, const Target &target) {
  auto rows = schedule_rows(kernel);
  task.options.push_back(option_of(kernel, (*rows)[row_for(*rows, task.sizes)], 0));
  std::vector<Option> others;
  std::map<std::string, double> least; // by variant
  bool more = true;
  for (size_t number = 0; more; ++number) {
    func::FuncOp copy = laid_out(kernel, number, target, more);
    Choice choice = choose(copy, target, {task.sizes});
    for (size_t i = 0; i < choice.candidates.size(); ++i) {
      const ScheduleRow &candidate = choice.candidates[i].row;
      double seconds = choice.seconds[0][i];
      auto [known, first] = least.try_emplace(candidate.variant, seconds);
      known->second = std::min(known->second, seconds);
      others.push_back(option_of(copy, candidate, seconds));
    }
    copy.erase();
  }
  std::ranges::stable_sort(others, {}, &Option::expected);
  for (Option &option : others) {
    if (option.layouts == task.options[0].layouts && option.row == task.options[0].row) {
      task.options[0].expected = option.expected;
      continue;
    }
    if (option.expected <= worth_measuring * least[option.row.substr(0, option.row.find('/'))])
      task.options.push_back(std::move(option));
  }
}

Tasks tasks_of(ModuleOp module, const Target &target) {
  Numbers numbers(module);
  SymbolTable symbols(module);
  Tasks out;
  std::map<std::pair<std::string, std::vector<int64_t>>, size_t> known; // by structure and sizes
  for (func::CallOp call : passes::kernel_calls_of(module)) {
    auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
    Task task;
    task.kernel = kernel.getName().str();
    task.structure = structure_of(kernel);
    task.kind = kind_of(kernel).name;
    bool fixed = true;
    for (mlir::Value operand : call.getOperands()) {
      if (isa<RankedTensorType>(operand.getType()))
        break;
      if (!operand.getType().isIndex()) {
        task.scalars.push_back(numbers.scalar(operand));
        continue;
      }
      auto size = numbers.size(operand);
      fixed &= size.has_value();
      task.sizes.push_back(size.value_or(0));
    }
    if (!fixed) {
      if (!llvm::is_contained(out.left_out, task.kernel))
        out.left_out.push_back(task.kernel);
      continue;
    }
    auto [at, is_new] = known.try_emplace({task.structure, task.sizes}, out.all.size());
    if (is_new) {
      count_work(task, kernel);
      task.weights = weight_bytes(call);
      add_options(task, kernel, target);
      out.all.push_back(std::move(task));
    }
    out.all[at->second].calls += numbers.times(call);
  }
  std::erase_if(out.all, [](const Task &task) { return task.calls == 0 || llvm::is_contained(task.sizes, 0); });
  return out;
}

} // namespace heddle::tune
