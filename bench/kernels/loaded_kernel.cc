// Of a kernel without a schedule, tensors of static shape with more than one axis are taken for weights.
#include "loaded_kernel.h"

#include "compiler/choose/choice.h"
#include "compiler/halide/scalars.h"
#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"
#include "runtime/cpu_features.h"

#include "mlir/Parser/Parser.h"

#include <HalideRuntime.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

// What generated code calls. Scratch is kept between calls, as the runtime keeps it.
static thread_local std::vector<std::pair<size_t, void *>> scratch;
extern "C" {
__attribute__((visibility("default"))) int32_t heddle_sharing_threads(void *) { return 1; }
__attribute__((visibility("default"))) int halide_do_par_for(void *context, halide_task_t task, int first, int count,
                                                             uint8_t *closure) {
  for (int i = first; i < first + count; ++i)
    if (int status = task(context, i, closure))
      return status;
  return 0;
}
__attribute__((visibility("default"))) void *halide_malloc(void *, size_t bytes) {
  for (auto &[size, block] : scratch)
    if (size >= bytes && block) {
      void *found = std::exchange(block, nullptr);
      return found;
    }
  size_t size = (bytes + 64 + 4095) & ~size_t(4095);
  auto *block = static_cast<size_t *>(aligned_alloc(4096, size + 4096));
  block[504] = size; // just below the address that is handed out
  return block + 512;
}
__attribute__((visibility("default"))) void halide_free(void *, void *pointer) {
  if (!pointer)
    return;
  size_t size = static_cast<size_t *>(pointer)[-8];
  for (auto &[kept, block] : scratch)
    if (!block) {
      kept = size;
      block = pointer;
      return;
    }
  scratch.push_back({size, pointer});
}
// The checks of scratch that depends on run-time sizes.
__attribute__((visibility("default"))) int halide_error_buffer_allocation_too_large(void *, const char *, uint64_t,
                                                                                    uint64_t) {
  return -1;
}
__attribute__((visibility("default"))) int halide_error_out_of_memory(void *) { return -1; }
}

namespace heddle::bench {

struct LoadedKernel::Memory {
  std::vector<halide_dimension_t> dims;
  halide_buffer_t raw = {};
  void *block = nullptr;
  ~Memory() { free(block); }
};

LoadedKernel::LoadedKernel() = default;

LoadedKernel::~LoadedKernel() {
  if (library_)
    dlclose(library_);
}

void LoadedKernel::add_buffer(mlir::Type type, mlir::Attribute extents, mlir::Attribute layout,
                              const std::vector<int64_t> &sizes) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  std::vector<int64_t> shape = tensor.getShape().vec();
  if (!tensor.hasStaticShape()) {
    mlir::AffineMap map = llvm::cast<mlir::AffineMapAttr>(extents).getValue();
    auto known = map.compose(llvm::ArrayRef(sizes).take_front(map.getNumDims()));
    shape.assign(known.begin(), known.end());
  }
  if (auto attr = llvm::dyn_cast_if_present<ir::LayoutAttr>(layout)) {
    llvm::SmallVector<int64_t> in_memory = layout::memory_shape(attr.getMap(), shape);
    shape.assign(in_memory.begin(), in_memory.end());
  }
  auto memory = std::make_unique<Memory>();
  memory->dims.resize(shape.size());
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    memory->dims[i] = {0, int(shape[shape.size() - 1 - i]), int(elements), 0};
    elements *= shape[shape.size() - 1 - i];
  }
  mlir::Type element = tensor.getElementType();
  Halide::Type stored = *halide_type(element);
  constexpr int64_t huge_page = int64_t(1) << 21; // as the runtime's memory has them
  int64_t bytes = elements * 4 + 4096;
  memory->block = aligned_alloc(bytes < huge_page ? 4096 : huge_page, (bytes + huge_page - 1) & -huge_page);
  madvise(memory->block, size_t(bytes), MADV_HUGEPAGE);
  std::memset(memory->block, 0, size_t(bytes));
  for (int64_t i = 0; i < elements; ++i) {
    float value = float(i * 7 % 101) / 101 - 0.5f;
    uint32_t bits = std::bit_cast<uint32_t>(value);
    if (stored == Halide::Float(32))
      static_cast<float *>(memory->block)[i] = value;
    else if (stored == Halide::BFloat(16))
      static_cast<uint16_t *>(memory->block)[i] = uint16_t(bits >> 16);
    else if (stored.bytes() == 4)
      static_cast<int32_t *>(memory->block)[i] = 1;
    else if (stored.bytes() == 1)
      static_cast<uint8_t *>(memory->block)[i] = uint8_t(stored.is_bool() ? 1 : i % 127);
  }
  memory->raw.host = static_cast<uint8_t *>(memory->block);
  memory->raw.type = stored;
  memory->raw.dimensions = int(shape.size());
  memory->raw.dim = memory->dims.data();
  memory_.push_back(std::move(memory));
  arguments_.push_back(&memory_.back()->raw);
}

static void complete(mlir::func::FuncOp kernel, const Target &target) {
  const KernelKind &kind = kind_of(kernel);
  for (mlir::BlockArgument argument : kernel.getArguments()) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(argument.getType());
    if (!tensor || !tensor.hasStaticShape() || tensor.getRank() < 2 || !kind.layouts)
      continue;
    if (auto layouts = kind.layouts(kernel, argument.getArgNumber(), target); !layouts.empty())
      kernel.setArgAttr(argument.getArgNumber(), ir::names::layout,
                        ir::LayoutAttr::get(kernel.getContext(), layouts.front()));
  }
  set_schedule(kernel, choose(kernel, target));
}

std::string LoadedKernel::load(const std::string &text, const std::vector<int64_t> &sizes, const Target &target) {
  mlir::DialectRegistry registry;
  ir::register_dialects(registry);
  context_.appendDialectRegistry(registry);
  module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
  if (!module_ || module_->getOps<mlir::func::FuncOp>().empty())
    return "the kernel does not parse";
  mlir::func::FuncOp kernel = *module_->getOps<mlir::func::FuncOp>().begin();
  if (!kernel->hasAttr(ir::names::schedule))
    complete(kernel, target);
  Result<std::vector<ScheduleRow>> rows = schedule_rows(kernel);
  if (!rows)
    return rows.error().message;
  size_t chosen = 0;
  while (chosen + 1 < rows->size() && (*rows)[chosen].when && !holds(*(*rows)[chosen].when, sizes))
    ++chosen;
  micro_kernel_ = (*rows)[chosen].micro_kernel.empty() ? "fma" : (*rows)[chosen].micro_kernel;
  description_ = kernel->getAttrOfType<mlir::StringAttr>(ir::names::kernel).str() + " " + to_text((*rows)[chosen]) +
                 " " + micro_kernel_;
  EmitOptions options;
  options.with_argv = true;
  Result<KernelObject> object = emit_kernel(kernel, int(chosen), target, options);
  if (!object)
    return object.error().message;
  if (!heddle_is_permitted(cpu_features(*module_, target)))
    return "the operating system does not permit this process AMX tiles";
  compile_seconds_ = object->compile_seconds;

  static int counter = 0;
  std::string name = "heddle_bench_" + std::to_string(getpid()) + "_" + std::to_string(counter++);
  std::string base = (std::filesystem::temp_directory_path() / name).string();
  std::ofstream(base + ".o", std::ios::binary) << object->bytes;
  int status =
      std::system(("ld.lld-22 -shared --unresolved-symbols=ignore-all -o " + base + ".so " + base + ".o").c_str());
  if (status == 0)
    library_ = dlopen((base + ".so").c_str(), RTLD_LAZY | RTLD_LOCAL);
  unlink((base + ".o").c_str());
  unlink((base + ".so").c_str());
  if (library_)
    function_ = reinterpret_cast<int (*)(void **)>(dlsym(library_, (object->symbol + "_argv").c_str()));
  if (!function_)
    return std::string("the kernel's object does not load: ") + (library_ ? "no function" : dlerror());

  sizes_.assign(sizes.begin(), sizes.end());
  arguments_.push_back(&user_context_);
  for (int32_t &size : sizes_)
    arguments_.push_back(&size);
  for (mlir::BlockArgument argument : kernel.getArguments())
    if (llvm::isa<mlir::RankedTensorType>(argument.getType()))
      add_buffer(argument.getType(), kernel.getArgAttr(argument.getArgNumber(), ir::names::extents),
                 kernel.getArgAttr(argument.getArgNumber(), ir::names::layout), sizes);
  for (unsigned i = 0; i < kernel.getNumResults(); ++i)
    add_buffer(kernel.getResultTypes()[i], kernel.getResultAttr(i, ir::names::extents), {}, sizes);
  return "";
}

void LoadedKernel::run() { function_(arguments_.data()); }

} // namespace heddle::bench
