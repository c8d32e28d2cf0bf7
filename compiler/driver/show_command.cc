// `show`: the forms a program takes, each as text, or all of it on one page.
#include "compiler/driver/commands.h"
#include "compiler/driver/library.h"
#include "compiler/driver/page_facts.h"
#include "compiler/driver/ptxas.h"
#include "compiler/emit/host/host.h"
#include "compiler/emit/host/weights_layout.h"
#include "compiler/emit/kernels/emit.h"
#include "compiler/io/output.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/why.h"
#include "dsl/check/multiply_adds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <cstdio>

namespace heddle {

using namespace mlir;

static Status show_manifest(const std::string &folder) {
  auto path = manifest_path(folder);
  if (!path)
    return path.error();
  auto manifest = read_manifest(*path);
  if (!manifest)
    return manifest.error();
  std::fwrite(manifest->text.data(), 1, manifest->text.size(), stdout);
  return Done{};
}

static void print_module(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out);
  std::printf("%s\n", text.c_str());
}

static Status show_kernels(ModuleOp module, const Target &target, KernelForm form) {
  auto text = kernel_texts(module, target, form);
  if (!text)
    return text.error();
  std::fputs(text->c_str(), stdout);
  return Done{};
}

static Status show_host(const Model &model, ModuleOp module, const Target &target, const std::string &stage) {
  WeightsLayout layout = lay_out_weights({{module, target}}, model.library_name).front();
  ModelInterface interface = model_interface(module, model.library_name);
  HostProgram program{module, interface, target.name, cpu_features(module, target), &layout};
  DeviceCode device;
  if (target.gpu) {
    auto code = emit_device_code(module, target);
    if (!code)
      return code.error();
    device = std::move(*code);
    program.gpu = target.gpu;
    program.device = &device;
  }
  OwningOpRef<ModuleOp> host = build_host(program);
  if (!host)
    return Error{"the host program could not be built; this is a bug of Heddle"};
  llvm::LLVMContext context;
  auto ir = host_to_llvm(program, *host, context);
  if (!ir)
    return ir.error();
  std::string text;
  if (stage == "asm") {
    auto assembly = host_assembly(**ir);
    if (!assembly)
      return assembly.error();
    text = *assembly;
  } else {
    llvm::raw_string_ostream out(text);
    (*ir)->print(out, nullptr);
  }
  std::printf("%s host program\n%s\n", stage == "asm" ? "#" : ";", text.c_str());
  return Done{};
}

static Status show_ptx(ModuleOp module, const Target &target) {
  auto code = emit_device_code(module, target);
  if (!code)
    return code.error();
  std::fputs(code->ptx(*target.gpu).c_str(), stdout);
  return Done{};
}

/// The facts of the page, with launches where the target is a GPU.
static Result<PageFacts> facts_of(const ShowCommand &options, Model &model, const CompileGoal &goal) {
  auto sizes = read_sizes(options.dims, *model.program);
  if (!sizes)
    return sizes.error();
  Progress progress(Progress::Show::nothing);
  auto compiled = compile_module(model, goal, passes::PipelineStage::schedule, progress);
  if (!compiled)
    return compiled.error();
  PageFacts facts = page_facts(model, *compiled->module, goal.target, *sizes);
  if (goal.target.gpu) {
    auto ptxas = find_ptxas();
    if (!ptxas)
      return ptxas.error();
    if (Status added = add_launches(*compiled->module, goal.target, *ptxas, facts); !added)
      return added.error();
  }
  return facts;
}

static Status write_page(const ShowCommand &options, Model &model, const CompileGoal &goal) {
  if (Status place = try_to_write(options.html); !place)
    return place;
  auto facts = facts_of(options, model, goal);
  if (!facts)
    return facts.error();
  if (options.measure)
    if (Status measured = measure_page(model, goal, options.threads, *facts); !measured)
      return measured;
  return write_file(options.html, page_html(*facts));
}

Status show_command(const ShowCommand &options) {
  if (is_artifact(options.model.path)) {
    if (options.stage != "schedule") // a manifest has the schedules
      return Error{std::string(usage_mark) + "--stage " + options.stage + " is a form of a model, and " +
                   options.model.path + " is a compiled library, of which the manifest is shown"};
    return show_manifest(options.model.path);
  }
  if (options.measure && options.html.empty())
    return Error{std::string(usage_mark) +
                 "--measure puts times on the page of --html FILE; for a table, `heddle bench`"};
  auto goal = find_compile_goal(options.compile);
  if (!goal)
    return goal.error();
  goal->dims = options.dims; // schedules are chosen for the sizes that are shown
  const Target &target = goal->target;
  if ((options.stage == "ptx" || options.stage == "launches") && !target.gpu)
    return Error{"--stage " + options.stage + " is for GPUs, and --target is " + target.name +
                 "; name one, such as cuda:sm_80"};
  if (options.stage == "halide" && target.gpu)
    return Error{"--stage halide is for CPUs, and --target is " + target.name + "; --stage ptx shows its kernels"};
  auto model = load_model(options.model);
  if (!model)
    return model.error();
  if (!options.html.empty())
    return write_page(options, *model, *goal);
  if (options.stage == "launches") {
    auto facts = facts_of(options, *model, *goal);
    if (!facts)
      return facts.error();
    std::fputs(launches_text(*facts).c_str(), stdout);
    return Done{};
  }
  if (options.stage == "tree") {
    auto sizes = read_sizes(options.dims, *model->program);
    if (!sizes)
      return sizes.error();
    std::fputs(printable(to_text(*model->program)).c_str(), stdout);
    std::fputs(gradient_costs(*model->program, *sizes).c_str(), stdout);
    return Done{};
  }
  Progress progress(Progress::Show::nothing);
  // Halide, LLVM and assembly are forms of what the last stage of the pipeline leaves.
  passes::PipelineStage stage = passes::find_stage(options.stage).value_or(passes::PipelineStage::schedule);
  auto compiled = compile_module(*model, *goal, stage, progress);
  if (!compiled)
    return compiled.error();
  if (options.compile.why) {
    std::fputs(passes::why_schedules(*compiled->module, target).c_str(), stdout);
    return Done{};
  }
  if (options.stage == "halide")
    return show_kernels(*compiled->module, target, KernelForm::statement);
  if (options.stage == "ptx")
    return show_ptx(*compiled->module, target);
  if (options.stage == "llvm" || options.stage == "asm") {
    KernelForm form = options.stage == "llvm" ? KernelForm::llvm : KernelForm::assembly;
    if (Status kernels = target.gpu ? Status(Done{}) : show_kernels(*compiled->module, target, form); !kernels)
      return kernels;
    return show_host(*model, *compiled->module, target, options.stage);
  }
  print_module(*compiled->module);
  return Done{};
}

} // namespace heddle
