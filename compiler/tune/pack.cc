// Operands of a GPU's kernels are row-major, so all candidates of a task take the same ones: a type and a number of
// elements each. Numbers of blocks and bytes of scratch follow from the sizes and are written out.
#include "compiler/tune/pack.h"

#include "compiler/emit/artifact/parallel.h"
#include "compiler/emit/device/device.h"
#include "compiler/emit/device/ptx.h"
#include "compiler/ir/dialect.h"
#include "compiler/kernels/sizes.h"
#include "compiler/tune/record.h"
#include "embedded/there.h"

#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

namespace heddle::tune {

using Json = nlohmann::ordered_json;

namespace {

constexpr int format = 1; // of candidates.json

/// A kernel that is read from an option's text, and the first thing that was wrong with it.
class Kernel {
public:
  explicit Kernel(const std::string &text)
      : handler_(&context_, [this](mlir::Diagnostic &diagnostic) {
          if (why_.empty())
            why_ = diagnostic.str();
          return mlir::success();
        }) {
    mlir::DialectRegistry registry;
    ir::register_dialects(registry);
    context_.appendDialectRegistry(registry);
    context_.loadAllAvailableDialects(); // variants create ops of any of them
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (module_ && !module_->getOps<mlir::func::FuncOp>().empty())
      function_ = *module_->getOps<mlir::func::FuncOp>().begin();
  }
  mlir::func::FuncOp function() const { return function_; } // null: the text is none
  const std::string &why() const { return why_; }

private:
  mlir::MLIRContext context_;
  std::string why_;
  mlir::ScopedDiagnosticHandler handler_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp function_;
};

/// An option as the folder has it.
struct Candidate {
  Json entry;
  std::string ptx;
  std::string fault; // why there is none
};

Candidate compile(const Task &task, const Option &option, const Target &target) {
  Kernel kernel(option.text);
  if (!kernel.function())
    return {{}, "", "the kernel does not parse: " + kernel.why()};
  auto row = emit_device_row({kernel.function()}, target);
  if (!row)
    return {{}, "", row.error().message};
  Json launches = Json::array();
  for (const gpu::Launch &launch : row->launches)
    launches.push_back({launch.symbol, blocks_of(launch, task.sizes), launch.threads});
  return {{{"layouts", option.layouts},
           {"row", option.row},
           {"expected", option.expected},
           {"scratch", kept_bytes(*row, task.sizes)},
           {"launches", launches}},
          ptx_head(*target.gpu) + row->ptx,
          ""};
}

std::string type_text(mlir::Type type) {
  std::string out;
  llvm::raw_string_ostream(out) << type;
  return type.isInteger(1) ? "bool" : out;
}

/// The type and the elements of a tensor.
Json operand(mlir::Type type, mlir::Attribute extents, const std::vector<int64_t> &sizes) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  int64_t elements = 1;
  for (unsigned axis = 0; axis < tensor.getRank(); ++axis)
    elements *= !tensor.isDynamicDim(axis)
                    ? tensor.getDimSize(axis)
                    : sizes::evaluate(llvm::cast<mlir::AffineMapAttr>(extents).getValue().getResult(axis), sizes);
  return {{"type", type_text(tensor.getElementType())}, {"elements", elements}};
}

/// What every candidate of the task is launched with, but for scratch memory.
Result<Json> parameters(const Task &task, mlir::func::FuncOp kernel) {
  Json arguments = Json::array(), results = Json::array();
  size_t size = 0, scalar = 0;
  for (mlir::BlockArgument argument : kernel.getArguments()) {
    mlir::Type type = argument.getType();
    if (llvm::isa<mlir::RankedTensorType>(type))
      arguments.push_back(operand(type, kernel.getArgAttr(argument.getArgNumber(), ir::names::extents), task.sizes));
    else if (type.isIndex())
      arguments.push_back({{"type", "i32"}, {"value", task.sizes[size++]}});
    else if (int64_t value = task.scalars[scalar++];
             type.isF32() || type.isInteger(32) || type.isInteger(8) || type.isInteger(1))
      arguments.push_back({{"type", type_text(type)}, {"value", type.isInteger(1) ? 1 : value}});
    else
      return Error{"a scalar is of a type that cannot be made up"};
  }
  for (unsigned i = 0; i < kernel.getNumResults(); ++i)
    results.push_back(operand(kernel.getResultTypes()[i], kernel.getResultAttr(i, ir::names::extents), task.sizes));
  return Json{{"arguments", arguments}, {"results", results}};
}

} // namespace

Result<Packed> pack(const std::vector<Task> &tasks, const Target &target, const std::string &model, Progress &progress,
                    OutputFolder &folder) {
  Packed out;
  std::vector<std::pair<size_t, size_t>> all; // of each candidate its task and its number there
  std::vector<std::vector<Candidate>> compiled(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i)
    if (tasks[i].options.size() > 1) {
      compiled[i].resize(tasks[i].options.size());
      for (size_t option = 0; option < compiled[i].size(); ++option)
        all.push_back({i, option});
    }
  progress.stage("candidates", int64_t(all.size()));
  for_each_parallel(int64_t(all.size()), [&](int64_t number) {
    auto [i, option] = all[size_t(number)];
    compiled[i][option] = compile(tasks[i], tasks[i].options[option], target);
    progress.step();
    return true;
  });
  progress.clear();
  auto write = [&](const std::string &name, std::string_view bytes) {
    out.bytes += bytes.size();
    return folder.write(name, bytes);
  };
  Json listed = Json::array();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task &task = tasks[i];
    if (compiled[i].empty())
      continue;
    std::string name = task.kernel + " " + task.kind + (task.sizes.empty() ? "" : " " + sizes_text(task.sizes));
    Kernel usual(task.options[0].text);
    auto given = parameters(task, usual.function());
    if (std::string why = given ? compiled[i][0].fault : given.error().message; !why.empty()) {
      out.left_out.push_back(name + ": " + why);
      continue;
    }
    Json candidates = Json::array();
    for (size_t option = 0; option < compiled[i].size(); ++option) {
      Candidate &candidate = compiled[i][option];
      if (!candidate.fault.empty()) {
        out.left_out.push_back(name + ": " + task.options[option].row + ": " + candidate.fault);
        continue;
      }
      std::string file = std::to_string(out.tasks) + "-" + std::to_string(candidates.size()) + ".ptx";
      if (Status written = write(file, candidate.ptx); !written)
        return written.error();
      candidate.entry["code"] = file;
      candidates.push_back(std::move(candidate.entry));
    }
    out.candidates += candidates.size();
    ++out.tasks;
    listed.push_back({{"kernel", task.kernel},
                      {"kind", task.kind},
                      {"structure", task.structure},
                      {"sizes", sizes_text(task.sizes)},
                      {"calls", task.calls},
                      {"weights", task.weights},
                      {"arguments", (*given)["arguments"]},
                      {"results", (*given)["results"]},
                      {"candidates", std::move(candidates)}});
  }
  Json head = {{"format", format},
               {"model", model},
               {"target", target.name},
               {"capability", target.gpu->sm},
               {"driver", target.gpu->driver},
               {"tasks", std::move(listed)}};
  if (Status written = write("candidates.json", head.dump(1) + "\n"); !written)
    return written.error();
  for (const EmbeddedFile &file : embedded::there()) {
    std::string name(file.path.substr(file.path.rfind('/') + 1));
    out.bytes += file.bytes.size();
    if (Status written = name == "run" ? folder.write_program(name, file.bytes) : folder.write(name, file.bytes);
        !written)
      return written.error();
  }
  return out;
}

} // namespace heddle::tune
