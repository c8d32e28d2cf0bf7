// What calls become on a GPU, and what is expected of them: the code of all kernels is made for it, and each call takes
// the launches of the row that its sizes select. The roof is what the device's data sheet says of arithmetic (of tensor
// cores where a launch uses them) and of memory, whichever takes longer for the call's operations and bytes.
#include "compiler/driver/counted.h"
#include "compiler/driver/measure.h"
#include "compiler/driver/page_facts.h"

#include "compiler/choose/choice.h"
#include "compiler/emit/device/device.h"
#include "compiler/emit/device/resources.h"

#include "mlir/IR/SymbolTable.h"

#include <algorithm>
#include <cstdio>

namespace heddle {

static std::vector<PageLaunch> launches_of(const DeviceRow &row, const std::map<std::string, Resources> &resources,
                                           const Gpu &gpu, const std::vector<int64_t> &sizes) {
  std::vector<PageLaunch> out;
  for (const gpu::Launch &launch : row.launches) {
    auto found = resources.find(launch.symbol);
    Resources takes = found == resources.end() ? Resources{} : found->second;
    auto [resident, warps] = occupancy(gpu, launch.threads, takes);
    out.push_back({launch.symbol, blocks_of(launch, sizes), launch.threads, takes.shared, takes.registers,
                   takes.spilled, resident, warps});
  }
  return out;
}

/// What the row in use is expected to take; -1 where nothing is.
static double expected(mlir::func::FuncOp kernel, int row, const Target &target, const std::vector<int64_t> &sizes) {
  auto rows = schedule_rows(kernel);
  if (!rows || row < 0 || row >= int(rows->size()))
    return -1;
  Choice choice = choose(kernel, target, {sizes});
  for (auto [i, candidate] : llvm::enumerate(choice.candidates))
    if (candidate.row.variant == (*rows)[row].variant && candidate.row.params == (*rows)[row].params)
      return choice.seconds[0][i];
  return -1;
}

Status add_launches(mlir::ModuleOp module, const Target &target, const std::string &ptxas, PageFacts &facts) {
  auto code = emit_device_code(module, target);
  if (!code)
    return code.error();
  std::string ptx = code->ptx(*target.gpu);
  std::map<std::string, Resources> resources = resources_in(ptx);
  if (!ptxas.empty()) {
    auto assembled = assemble(ptxas, ptx, *target.gpu);
    if (!assembled)
      return assembled.error();
    resources = std::move(assembled->launches);
  }
  mlir::SymbolTable symbols(module);
  for (PageEntry &entry : facts.entries)
    for (PageStep &step : entry.steps) {
      if (step.kernel < 0 || step.row < 0)
        continue;
      auto kernel = symbols.lookup<mlir::func::FuncOp>(facts.kernels[step.kernel].name);
      auto row = code->rows.find(kernel_symbol(kernel, step.row));
      if (row == code->rows.end())
        continue;
      step.launches = launches_of(row->second, resources, *target.gpu, step.sizes);
      step.expected = expected(kernel, step.row, target, step.sizes);
      bool tensor = false;
      for (const PageLaunch &launch : step.launches)
        tensor |= resources[launch.name].tensor;
      double computing = step.flops / (tensor ? target.gpu->tensor_flops : target.gpu->flops);
      double moving = step.moved / target.gpu->memory_rate;
      if (step.flops >= 0 && step.moved >= 0)
        step.at_roof = std::max(computing, moving);
      step.by_memory = moving >= computing;
    }
  return Done{};
}

static std::string percent(double share) {
  char text[24];
  std::snprintf(text, sizeof text, share < 0.1 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

std::string launch_text(const PageLaunch &launch) {
  std::string out = counted(launch.blocks, "block") + " of " + counted(launch.threads, "thread");
  if (launch.shared)
    out += ", " + std::to_string(launch.shared) + " bytes of shared memory";
  if (launch.registers)
    out += ", " + counted(*launch.registers, "register");
  if (launch.spilled && *launch.spilled)
    out += ", " + std::to_string(*launch.spilled) + " bytes spilled";
  return out + "; " + (launch.registers ? "" : "at most ") + std::to_string(launch.resident) + " at once, " +
         percent(launch.occupancy) + " of the warps";
}

std::string share_text(const PageStep &step) {
  if (step.expected <= 0 || step.at_roof < 0)
    return "";
  return percent(step.at_roof / step.expected) + " of the roof (" + (step.by_memory ? "memory" : "arithmetic") + ")";
}

namespace {

/// Calls of an entry that are alike: of one kernel, with the same sizes.
struct AlikeCalls {
  const PageStep *first;
  int64_t calls = 0; // with the iterations of loops; -1: not known before
};

std::vector<AlikeCalls> alike_calls(const PageEntry &entry) {
  std::vector<AlikeCalls> out;
  for (const PageStep &step : entry.steps) {
    if (step.kernel < 0)
      continue;
    auto same = std::find_if(out.begin(), out.end(), [&](const AlikeCalls &other) {
      return other.first->kernel == step.kernel && other.first->sizes == step.sizes && other.first->row == step.row;
    });
    if (same == out.end())
      same = out.insert(out.end(), {&step});
    same->calls = same->calls < 0 || step.iterations < 0 ? -1 : same->calls + step.iterations;
  }
  return out;
}

std::string call_text(const PageFacts &facts, const AlikeCalls &alike) {
  const PageStep &step = *alike.first;
  const PageKernel &kernel = facts.kernels[step.kernel];
  std::string out = "  " + kernel.name + " " + kernel.kind;
  if (step.row >= 0 && step.row < int(kernel.rows.size())) {
    const PageKernel::Row &row = kernel.rows[step.row];
    out += ", " + row.variant + (row.params.empty() ? "" : " (" + row.params + ")");
  }
  if (!step.definitions.empty())
    out += ": " + step.definitions.back();
  if (step.definitions.size() > 1)
    out += " + " + std::to_string(step.definitions.size() - 1);
  if (alike.calls != 1)
    out += ", " + (alike.calls < 0 ? "? calls" : std::to_string(alike.calls) + " calls");
  if (step.launches.empty())
    return out + "\n    chosen at the call\n";
  out += "\n    " + flops_text(step.flops) + ", " + bytes_text(step.moved);
  if (step.expected > 0)
    out += ", expected " + time_text(1e3 * step.expected);
  if (std::string share = share_text(step); !share.empty())
    out += ": " + share;
  out += "\n";
  for (const PageLaunch &launch : step.launches)
    out += "    " + launch.name + ": " + launch_text(launch) + "\n";
  return out;
}

} // namespace

std::string launches_text(const PageFacts &facts) {
  std::string out = facts.target;
  for (const auto &[name, value] : facts.dims)
    out += ", " + name + " = " + std::to_string(value);
  out += "\n";
  bool assembled = false;
  for (const PageEntry &entry : facts.entries) {
    int64_t launches = 0;
    double seconds = 0;
    bool known = true;
    std::string text;
    for (const AlikeCalls &alike : alike_calls(entry)) {
      known &= alike.calls >= 0 && alike.first->expected > 0;
      launches += alike.calls * int64_t(alike.first->launches.size());
      seconds += double(alike.calls) * alike.first->expected;
      for (const PageLaunch &launch : alike.first->launches)
        assembled |= launch.registers.has_value();
      text += call_text(facts, alike);
    }
    out += "\nentry " + entry.name;
    if (known)
      out += ": " + std::to_string(launches) + (launches == 1 ? " launch" : " launches") + ", expected " +
             time_text(1e3 * seconds);
    out += "\n" + text;
  }
  if (!assembled)
    out += "\nRegisters are not known: NVIDIA's assembler, ptxas, is not among the programs here; HEDDLE_PTXAS names "
           "it.\n";
  return out;
}

} // namespace heddle
