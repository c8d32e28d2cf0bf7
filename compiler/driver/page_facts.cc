// Shapes of kernels are formulas over their size arguments, so every number follows from the values of those at the
// call. A size that is only known during a call (a loop's index) gives "?" instead of a number, never a failure.
#include "compiler/driver/page_facts.h"

#include "compiler/driver/model.h"
#include "compiler/emit/host/weights_layout.h"
#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/general/general.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/targets/target.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

#include <algorithm>
#include <set>

namespace heddle {

using namespace mlir;

namespace {

std::string type_text(mlir::Type element) {
  if (element.isInteger(1))
    return "bool";
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

std::string formula_text(AffineExpr expr, ArrayRef<std::string> operands, bool inner = false) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dim.getPosition() < operands.size() ? operands[dim.getPosition()] : "?";
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return std::to_string(constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return "?";
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  std::string left = formula_text(binary.getLHS(), operands, true);
  if (expr.getKind() == AffineExprKind::Add && constant && constant.getValue() < 0) {
    std::string out = left + " - " + std::to_string(-constant.getValue());
    return inner ? "(" + out + ")" : out;
  }
  const char *word = expr.getKind() == AffineExprKind::Add        ? " + "
                     : expr.getKind() == AffineExprKind::Mul      ? " · "
                     : expr.getKind() == AffineExprKind::Mod      ? " % "
                     : expr.getKind() == AffineExprKind::FloorDiv ? " // "
                                                                  : " ceildiv ";
  std::string out = left + word + formula_text(binary.getRHS(), operands, true);
  return inner ? "(" + out + ")" : out;
}

class Reader {
public:
  Reader(const Model &model, ModuleOp module, const Target &target, const std::map<std::string, int64_t> &given)
      : model_(model), module_(module), layout_(lay_out_weights({{module, target}}, model.library_name).front()),
        sizes_(module, dim_values(module, given)) {
    facts.model = model.program->name;
    facts.target = target.name;
    std::vector<int64_t> values = dim_values(module, given);
    std::vector<passes::ModuleDim> dims = passes::module_dims(module);
    for (size_t i = 0; i < values.size(); ++i)
      facts.dims.emplace_back(dims[i].name, values[i]);
  }

  void run() {
    for (auto function : module_.getOps<func::FuncOp>())
      if (function->hasAttr(ir::names::kernel))
        add_kernel(function);
    for (ir::WeightOp weight : ir::packed_weights(module_))
      add_weight(weight);
    for (func::FuncOp entry : passes::entries(module_))
      add_entry(entry);
    for (auto function : module_.getOps<func::FuncOp>())
      if (auto number = numbers_.find(function.getName().str()); number != numbers_.end())
        facts.kernels[number->second].rows = page_rows(function, size_names_[number->second]);
    for (const State &state : model_.program->states)
      facts.states.push_back(declared(state.tensor->name, *state.tensor));
    add_texts();
  }

  PageFacts facts;

private:
  static std::vector<int64_t> dim_values(ModuleOp module, const std::map<std::string, int64_t> &given) {
    std::vector<int64_t> out;
    for (const passes::ModuleDim &dim : passes::module_dims(module)) {
      auto found = given.find(dim.name);
      out.push_back(found != given.end() ? found->second : dim.most < 0 ? 64 : std::min<int64_t>(dim.most, 64));
    }
    out.resize(passes::given_dims(module));
    return out;
  }

  PageTensor declared(const std::string &what, const Tensor &tensor) const {
    bool byte = tensor.type == heddle::Type::boolean || tensor.type == heddle::Type::i8;
    bool half = tensor.type == heddle::Type::f16 || tensor.type == heddle::Type::bf16;
    PageTensor out{what, type_name(tensor.type), byte ? 1 : half ? 2 : 4};
    std::vector<int64_t> dims;
    for (auto &[name, value] : facts.dims)
      dims.push_back(value);
    std::string shape;
    for (const Size &size : tensor.shape) {
      shape += (shape.empty() ? "" : ", ") + size.text(model_.program->dim_names());
      out.bytes *= size.evaluate(dims);
    }
    out.shape += "[" + shape + "]";
    return out;
  }

  std::optional<int64_t> number(mlir::Value size) {
    if (size.getDefiningOp() == nullptr)
      return std::nullopt;
    auto found = sizes_.index(size);
    return succeeded(found) ? std::optional(*found) : std::nullopt;
  }

  std::string size_text(mlir::Value size) {
    Operation *op = size.getDefiningOp();
    if (!op)
      return "?";
    if (auto dim = dyn_cast<ir::DimOp>(op))
      return dim.getName().str();
    if (auto constant = dyn_cast<arith::ConstantIndexOp>(op))
      return std::to_string(constant.value());
    if (auto product = dyn_cast<arith::MulIOp>(op))
      return size_text(product.getLhs()) + " · " + size_text(product.getRhs());
    if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
      SmallVector<std::string> operands;
      for (mlir::Value operand : apply.getMapOperands())
        operands.push_back(size_text(operand));
      AffineMap map = apply.getAffineMap();
      SmallVector<AffineExpr> symbols; // symbols stand after the dims among the operands
      for (unsigned i = 0; i < map.getNumSymbols(); ++i)
        symbols.push_back(getAffineDimExpr(map.getNumDims() + i, map.getContext()));
      return formula_text(map.getResult(0).replaceSymbols(symbols), operands);
    }
    return "?";
  }

  /// A tensor of a kernel's signature, at one call.
  PageTensor shaped(func::CallOp call, mlir::Type type, AffineMapAttr extents) {
    auto tensor = cast<RankedTensorType>(type);
    PageTensor out{"", type_text(tensor.getElementType()), ir::element_bytes(tensor.getElementType())};
    SmallVector<std::string> words;
    SmallVector<Attribute> values;
    bool known = true;
    unsigned count = extents ? extents.getValue().getNumDims() : 0;
    SmallVector<int64_t> numbers;
    for (mlir::Value size : call.getOperands().take_front(count)) {
      words.push_back(size_text(size));
      auto value = number(size);
      known &= value.has_value();
      numbers.push_back(value.value_or(0));
    }
    std::string shape;
    SmallVector<int64_t> evaluated;
    if (extents && known)
      evaluated = extents.getValue().compose(numbers);
    for (auto [axis, extent] : llvm::enumerate(tensor.getShape())) {
      bool constant = !ShapedType::isDynamic(extent);
      std::string word = constant  ? std::to_string(extent)
                         : extents ? formula_text(extents.getValue().getResult(axis), words)
                                   : "?";
      shape += (shape.empty() ? "" : ", ") + word;
      if (constant)
        out.bytes = out.bytes < 0 ? -1 : out.bytes * extent;
      else if (axis < evaluated.size())
        out.bytes = out.bytes < 0 ? -1 : out.bytes * evaluated[axis];
      else
        out.bytes = -1;
    }
    out.shape += "[" + shape + "]";
    return out;
  }

  void add_kernel(func::FuncOp function) {
    PageKernel kernel;
    kernel.name = function.getName().str();
    kernel.kind = function->getAttrOfType<StringAttr>(ir::names::kernel).str();
    kernel.why = kernel.kind == "general"         ? why_general(function)
                 : kernel.kind == "row_reduction" ? why_no_product(function)
                                                  : "";
    if (!kernel.why.empty()) {
      std::vector<ir::Definition> all;
      function.walk([&](linalg::LinalgOp op) {
        std::vector<ir::Definition> own = ir::definitions_in(op.getLoc());
        all.insert(all.end(), own.begin(), own.end());
        if (op.getNumReductionLoops() == 0 || own.empty())
          return;
        kernel.reduced = own.back().name;
        kernel.reduced_at = {own.back().path, own.back().line};
      });
      kernel.reduced = ir::outer_name(kernel.reduced, all);
    }
    OpPrintingFlags flags;
    flags.useLocalScope();
    llvm::raw_string_ostream stream(kernel.text);
    function->print(stream, flags);
    numbers_[kernel.name] = facts.kernels.size();
    facts.kernels.push_back(std::move(kernel));
  }

  void add_weight(ir::WeightOp weight) {
    PageWeight out;
    auto type = cast<RankedTensorType>(weight.getType());
    std::vector<ir::Definition> named = ir::definitions_in(weight.getLoc());
    out.name = named.empty() ? weight.getSymName().str() : named[0].name;
    for (Attribute name : weight.getNames())
      out.path += (out.path.empty() ? "" : " or ") + cast<StringAttr>(name).str();
    out.shape = type_text(type.getElementType()) + "[";
    for (auto [axis, extent] : llvm::enumerate(type.getShape()))
      out.shape += (axis ? ", " : "") + std::to_string(extent);
    out.shape += "]";
    out.layout = layout::describe(weight.getLayout() ? weight.getLayout()->getMap() : AffineMap());
    out.bytes = layout_[weight.getSymName()].bytes;
    weight_numbers_[weight.getSymName().str()] = facts.weights.size();
    facts.weights.push_back(std::move(out));
  }

  double flops(func::FuncOp function, func::CallOp call) {
    double total = 0;
    SmallVector<int64_t> values;
    for (unsigned i = 0; i < ir::size_count(function); ++i) {
      auto value = number(call.getOperand(i));
      if (!value)
        return -1;
      values.push_back(*value);
    }
    function.walk([&](linalg::GenericOp op) {
      auto loops = ir::loop_extents(op);
      if (failed(loops))
        return;
      double points = 1;
      for (AffineExpr extent : *loops)
        points *= AffineMap::get(values.size(), 0, extent).compose(values)[0];
      int64_t operations = 0;
      for (Operation &inner : *op.getBody())
        operations +=
            isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::MaximumFOp, arith::MaxNumFOp,
                arith::MinimumFOp, arith::MinNumFOp, arith::NegFOp, arith::AddIOp, arith::MulIOp>(inner) ||
            isa_and_nonnull<math::MathDialect>(inner.getDialect());
      total += points * operations;
    });
    return total;
  }

  std::string place_text(mlir::Value tensor, func::FuncOp entry) {
    mlir::Value root = passes::bytes_of(tensor);
    if (auto argument = dyn_cast<BlockArgument>(root)) {
      if (argument.getOwner() != &entry.front())
        return "carried by the loop";
      auto name = entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::names::name);
      return "input " + (name ? name.str() : std::to_string(argument.getArgNumber()));
    }
    if (auto get = root.getDefiningOp<ir::GetOp>())
      return facts.weights[weight_numbers_.at(get.getWeight().str())].name;
    if (auto read = root.getDefiningOp<ir::ReadOp>())
      return "state " + SymbolTable::lookupNearestSymbolFrom<ir::StateOp>(read, read.getStateAttr()).getLabel().str();
    auto call = root.getDefiningOp<func::CallOp>();
    if (!call)
      return root.getDefiningOp()->getName().stripDialect().str();
    if (!call->hasAttr("heddle.places"))
      return "a value";
    passes::MemoryPlace place = passes::place_of(root);
    if (place.kind == passes::MemoryPlace::slot)
      return "slot " + std::to_string(place.number);
    if (place.kind == passes::MemoryPlace::once)
      return "kept by the session";
    if (place.kind == passes::MemoryPlace::iteration)
      return "carried to the next iteration";
    if (place.kind == passes::MemoryPlace::next_state)
      return "next value of state " +
             (*std::next(module_.getOps<ir::StateOp>().begin(), place.number)).getLabel().str();
    auto name = entry.getResultAttrOfType<StringAttr>(place.number, ir::names::name);
    return "result " + (name ? name.str() : std::to_string(place.number));
  }

  /// Adds what a kernel's size arguments are at this call: "B · S", or "B or B · S" where its calls differ.
  void name_sizes(func::FuncOp function, func::CallOp call, std::vector<std::string> &names) {
    names.resize(ir::size_count(function));
    for (size_t i = 0; i < names.size(); ++i) {
      std::string here = size_text(call.getOperand(i)), all = " or " + names[i] + " or ";
      if (all.find(" or " + here + " or ") == std::string::npos)
        names[i] += (names[i].empty() ? "" : " or ") + here;
    }
  }

  void add_call(func::CallOp call, func::FuncOp entry, PageEntry &out, int depth, int64_t iterations) {
    auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    if (!function || !numbers_.count(function.getName().str()))
      return;
    PageStep step;
    step.depth = depth;
    step.iterations = iterations;
    step.kernel = numbers_[function.getName().str()];
    PageKernel &kernel = facts.kernels[step.kernel];
    ++kernel.calls;
    std::vector<ir::Definition> named = ir::definitions_in(call.getLoc()); // a shared function has the first call's
    step.definitions = ir::outer_names(named);
    step.first = named.empty() ? "" : named.front().name;
    auto add = [](std::vector<PageSource> &to, const PageSource &source) {
      if (std::find(to.begin(), to.end(), source) == to.end())
        to.push_back(source);
    };
    for (const ir::Definition &definition : named) {
      add(step.sources, {definition.path, definition.line});
      add(kernel.sources, {definition.path, definition.line});
    }
    name_sizes(function, call, size_names_[step.kernel]);
    if (!named.empty())
      step.source = {named.back().path, named.back().line};
    step.flops = flops(function, call);
    for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
      if (!isa<RankedTensorType>(operand.getType()))
        continue;
      auto tensor =
          shaped(call, function.getArgumentTypes()[i], function.getArgAttrOfType<AffineMapAttr>(i, ir::names::extents));
      tensor.what = place_text(operand, entry);
      if (auto get = passes::bytes_of(operand).getDefiningOp<ir::GetOp>()) {
        auto &users = facts.weights[weight_numbers_.at(get.getWeight().str())].kernels;
        if (std::find(users.begin(), users.end(), step.kernel) == users.end())
          users.push_back(step.kernel);
      }
      bool looked_into =
          llvm::all_of(function.getArgument(i).getUsers(), // a table of which it reads as much as it writes
                       [](Operation *user) { return isa<tensor::ExtractOp>(user); });
      if (!looked_into)
        step.moved = step.moved < 0 || tensor.bytes < 0 ? -1 : step.moved + tensor.bytes;
      step.inputs.push_back(std::move(tensor));
    }
    int at = out.steps.size();
    for (auto [i, result] : llvm::enumerate(call.getResults())) {
      auto tensor = shaped(call, function.getResultTypes()[i],
                           function.getResultAttrOfType<AffineMapAttr>(i, ir::names::extents));
      tensor.what = place_text(result, entry);
      if (call->hasAttr("heddle.places"))
        if (auto place = passes::place_of(result); place.kind == passes::MemoryPlace::slot) {
          lives_[result] = out.lives.size();
          out.lives.push_back({int(place.number), at, at, tensor.bytes,
                               step.definitions.empty() ? "" : step.definitions.back(),
                               facts.kernels[step.kernel].kind});
        }
      step.moved = step.moved < 0 || tensor.bytes < 0 ? -1 : step.moved + tensor.bytes;
      step.results.push_back(std::move(tensor));
    }
    if (step.once = call->hasAttr(ir::names::once); step.once)
      step.flops = step.moved = 0;
    for (unsigned i = 0; i < ir::size_count(function); ++i)
      if (auto value = number(call.getOperand(i)))
        step.sizes.push_back(*value);
    if (step.sizes.size() != ir::size_count(function))
      step.sizes.clear();
    step.row = page_row_for(function, [&](unsigned i) { return number(call.getOperand(i)); });
    out.steps.push_back(std::move(step));
  }

  void add_block(Block &block, func::FuncOp entry, PageEntry &out, int depth, int64_t iterations) {
    for (Operation &op : block) {
      for (mlir::Value operand : op.getOperands())
        if (auto life = lives_.find(passes::bytes_of(operand)); life != lives_.end())
          out.lives[life->second].last = std::max<int>(out.lives[life->second].last, out.steps.size());
      if (auto call = dyn_cast<func::CallOp>(op))
        add_call(call, entry, out, depth, iterations);
      int64_t inner = iterations;
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        auto count = number(loop.getUpperBound());
        PageStep head;
        head.depth = depth;
        head.loop =
            "for each of " + size_text(loop.getUpperBound()) + (count ? " (" + std::to_string(*count) + ")" : "");
        out.steps.push_back(std::move(head));
        inner = count && iterations > 0 ? iterations * *count : -1;
      }
      for (Region &region : op.getRegions())
        for (Block &nested : region)
          add_block(nested, entry, out, depth + 1, inner);
    }
  }

  void add_entry(func::FuncOp entry) {
    PageEntry out;
    out.name = entry.getName().str();
    lives_.clear();
    for (const Entry &declared_entry : model_.program->entries) {
      if (declared_entry.name != out.name)
        continue;
      for (const Input &input : declared_entry.inputs)
        out.inputs.push_back(declared(input.name, *input.tensor));
      for (const Output &output : declared_entry.outputs)
        out.results.push_back(declared(output.name, *output.tensor));
    }
    add_block(entry.front(), entry, out, 0, 1);
    for (const PageLife &life : out.lives) {
      out.slot_bytes.resize(std::max<size_t>(out.slot_bytes.size(), life.slot + 1));
      out.slot_bytes[life.slot] = std::max(out.slot_bytes[life.slot], life.bytes);
    }
    facts.entries.push_back(std::move(out));
  }

  void add_texts() {
    std::set<int> files;
    for (const Entry &entry : model_.program->entries) {
      if (entry.span.valid())
        facts.path = model_.sources->path(entry.span.file);
      files.insert(entry.span.file);
    }
    for (const Tensor &tensor : model_.program->tensors)
      files.insert(tensor.span.file);
    for (const PageKernel &kernel : facts.kernels)
      for (const PageSource &source : kernel.sources)
        for (int file : files)
          if (file >= 0 && model_.sources->path(file) == source.path)
            facts.texts[source.path] = model_.sources->text(file);
  }

  const Model &model_;
  ModuleOp module_;
  WeightsLayout layout_;
  passes::SizeEvaluator sizes_;
  std::map<std::string, int> numbers_, weight_numbers_;
  std::map<int, std::vector<std::string>> size_names_; // by kernel
  DenseMap<mlir::Value, int> lives_;
};

} // namespace

PageFacts page_facts(const Model &model, ModuleOp module, const Target &target,
                     const std::map<std::string, int64_t> &sizes) {
  // A size that does not fold is shown as unknown, not reported.
  ScopedDiagnosticHandler quiet(module.getContext(), [](mlir::Diagnostic &) { return success(); });
  Reader reader(model, module, target, sizes);
  reader.run();
  return std::move(reader.facts);
}

} // namespace heddle
