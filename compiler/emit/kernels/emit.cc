// Lowers and schedules rows one by one and compiles them as one module. Halide writes to
// files only: texts go through a pipe, which no limit on the size of files stops.
#include "compiler/emit/kernels/emit.h"

#include "compiler/emit/kernels/halide_messages.h"
#include "compiler/emit/kernels/names.h"
#include "compiler/emit/kernels/narrowed.h"
#include "compiler/emit/kernels/scratch.h"
#include "compiler/halide/lower.h"
#include "compiler/halide/rewrites/rewrites.h"
#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "runtime/cpu_features.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace heddle {

namespace {

/// Halide opens it by path and writes; what comes out is kept.
class Pipe {
public:
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return;
    try {
      reader_ = std::thread([this, from = ends[0]] {
        char part[1 << 16];
        for (ssize_t got; (got = read(from, part, sizeof part)) > 0 || (got < 0 && errno == EINTR);)
          bytes_.append(part, got > 0 ? size_t(got) : 0);
        close(from);
      });
      write_ = ends[1];
    } catch (const std::system_error &) { // no thread, no text
      close(ends[0]);
      close(ends[1]);
    }
  }
  ~Pipe() { finish(); }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;

  bool valid() const { return write_ >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(write_); }
  /// All that was written, once.
  std::string contents() {
    finish();
    return std::move(bytes_);
  }

private:
  void finish() {
    if (write_ >= 0)
      close(write_);
    if (reader_.joinable())
      reader_.join();
    write_ = -1;
  }

  int write_ = -1;
  std::string bytes_;
  std::thread reader_;
};

Halide::OutputFileType file_type(KernelForm form) {
  switch (form) {
  case KernelForm::object:
    break;
  case KernelForm::statement:
    return Halide::OutputFileType::stmt;
  case KernelForm::llvm:
    return Halide::OutputFileType::llvm_assembly;
  case KernelForm::assembly:
    return Halide::OutputFileType::assembly;
  }
  return Halide::OutputFileType::object;
}

Halide::Target halide_target(uint32_t cpu_features, const EmitOptions &options) {
  Halide::Target halide(halide_name(cpu_features));
  halide.set_feature(Halide::Target::NoRuntime);
  halide.set_feature(Halide::Target::UserContext);
  if (!options.with_asserts) {
    halide.set_feature(Halide::Target::NoAsserts);
    halide.set_feature(Halide::Target::NoBoundsQuery);
  }
  return halide;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// That no code could be made for a row of a kernel's schedule, and of which definitions the kernel is.
Error refusal(KernelRow row, std::string why) {
  if (why.starts_with("mprotect failed")) // Halide compiles on a stack of its own, and mmap has refused it
    return Error{"there is not enough memory for this"};
  std::vector<ir::Definition> definitions;
  for (mlir::Operation &op : row.kernel.getBody().getOps())
    llvm::append_range(definitions, ir::definitions_in(op.getLoc()));
  std::string of = definitions.empty() ? "" : " of " + ir::in_words(definitions);
  return Error{"there is no code for kernel @" + row.kernel.getName().str() + of + " by row " +
               std::to_string(row.row) + " of its schedule: Halide says \"" + why +
               "\"; smaller sizes, or a formula in smaller steps, may do"};
}

/// A row as Halide functions after lowering, and the seconds until it was a scheduled pipeline.
struct LoweredRow {
  Halide::Module module;
  double lower_seconds;
};

Result<LoweredRow> lower_row(const KernelRow &wanted, const std::string &symbol, const Target &target,
                             const EmitOptions &options, bool hoists_storage) {
  auto start = std::chrono::steady_clock::now();
  mlir::func::FuncOp kernel = wanted.kernel;
  Result<VariantRow> checked = checked_row(kernel, wanted.row);
  if (!checked)
    return checked.error();
  const auto &[variant, row] = *checked;
  Result<LoweredKernel> lowered = lower_kernel(kernel);
  if (!lowered)
    return lowered.error();
  lowered->hoists_storage = hoists_storage;
  if (Status status = variant->schedule(*lowered, row, target); !status)
    return Error{"kernel @" + kernel.getName().str() + ": " + status.error().message};
  if (const MicroKernel *micro_kernel = find_micro_kernel(row.micro_kernel))
    if (auto pass = pass_of(*micro_kernel))
      lowered->passes.push_back(std::move(pass));
  double lower_seconds = seconds_since(start);

  std::vector<Halide::Func> outputs;
  for (const KernelOutput &output : lowered->outputs)
    outputs.push_back(output.func);
  for (const Rewrite &rewrite : rewrites())
    if (rewrite.name != options.without_rewrite)
      lowered->passes.push_back(rewrite.make());
  if (options.form == KernelForm::object) // texts are for people
    lowered->passes.push_back(number_names());
  Halide::Pipeline pipeline(outputs);
  for (const std::shared_ptr<Halide::Internal::IRMutator> &pass : lowered->passes)
    pipeline.add_custom_lowering_pass(pass.get(), nullptr);
  // Only the function itself: wrappers and descriptions of arguments are code that would be compiled, too.
  Halide::LinkageType linkage =
      options.with_argv ? Halide::LinkageType::ExternalPlusArgv : Halide::LinkageType::External;
  return LoweredRow{pipeline.compile_to_module(lowered->arguments, symbol,
                                               halide_target(cpu_features(row, target), options), linkage),
                    lower_seconds};
}

/// Halide 21 fails to hoist the storage of a stage that it finds to be needed nowhere, as under `k == 4` for k in
/// 0 .. 3: what fails is lowered once more with storage where it is computed.
Result<LoweredRow> lower_row(const KernelRow &wanted, const std::string &symbol, const Target &target,
                             const EmitOptions &options) {
  try {
    return lower_row(wanted, symbol, target, options, true);
  } catch (const Halide::Error &) {
    return lower_row(wanted, symbol, target, options, false);
  }
}

bool multiplies_tiles(const KernelRow &row) {
  auto rows = schedule_rows(row.kernel);
  if (!rows || size_t(row.row) >= rows->size())
    return false; // the error is told where the row is lowered
  const MicroKernel *micro_kernel = find_micro_kernel((*rows)[row.row].micro_kernel);
  return micro_kernel && micro_kernel->takes_tiles();
}

bool rounds_to_bf16(mlir::func::FuncOp kernel) {
  return kernel
      .walk([](mlir::arith::TruncFOp rounding) {
        return rounding.getType().isBF16() ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

/// Of all rows of a kernel.
uint32_t cpu_features(mlir::func::FuncOp kernel, const Target &target) {
  uint32_t features = target.base;
  if (auto rows = named_kind(kernel) ? schedule_rows(kernel) : std::vector<ScheduleRow>(); rows)
    for (const ScheduleRow &row : *rows)
      features |= cpu_features(row, target);
  // What multiplies bf16 comes with an instruction that rounds to it.
  if (const MicroKernel *dot = grouping_kernel_of(Halide::BFloat(16), target); dot && rounds_to_bf16(kernel))
    features |= dot->needs;
  return features;
}

Result<KernelObject> emit(llvm::ArrayRef<KernelRow> rows, const Target &target, const EmitOptions &options,
                          KernelRow &current) {
  auto start = std::chrono::steady_clock::now();
  KernelObject object;
  auto symbol_of = [&](size_t place) {
    return options.nameless ? nameless_symbol(place) : kernel_symbol(rows[place].kernel, rows[place].row);
  };
  object.symbol = symbol_of(0);
  // Lowering drops what Halide asserts of buffers and sizes, which the runtime and the host program see to; of the code
  // it is asked that every allocation be checked, and what parallel tasks return.
  uint32_t features = target.base;
  for (const KernelRow &row : rows)
    features |= cpu_features(row.kernel, target);
  Halide::Module module(object.symbol, halide_target(features, options).without_feature(Halide::Target::NoAsserts));
  bool calls = false; // functions that are written beside Halide's code
  for (auto [place, row] : llvm::enumerate(rows)) {
    current = row;
    calls |= multiplies_tiles(row);
    Result<LoweredRow> lowered = lower_row(row, symbol_of(place), target, options);
    if (!lowered)
      return lowered.error();
    object.lower_seconds += lowered->lower_seconds;
    for (const Halide::Internal::LoweredFunc &function : lowered->module.functions())
      module.append(function);
    module.append(scratch_function(row.kernel, symbol_of(place), lowered->module.get_conceptual_stmt()));
  }
  module.set_any_strict_float(true); // else what is said of no single operation may be rearranged
  bool by_llvm = halide_allows_more(features) || calls || (features & HEDDLE_CPU_AVX512_BF16);
  bool narrows = by_llvm && options.form != KernelForm::statement;
  if (options.form == KernelForm::object && !narrows) {
    Halide::Buffer<uint8_t> bytes = module.compile_to_buffer();
    object.bytes.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size_in_bytes());
  } else { // Halide writes all else to files only
    Pipe file;
    if (!file.valid())
      return Error{"kernel @" + current.kernel.getName().str() + ": no memory for its text"};
    const std::string path = file.path();
    module.compile({{narrows ? Halide::OutputFileType::bitcode : file_type(options.form), path}});
    object.bytes = file.contents();
  }
  if (narrows) {
    Result<std::string> code = narrowed(object.bytes, features, options.form);
    if (!code)
      return Error{"kernel @" + current.kernel.getName().str() + ": " + code.error().message};
    object.bytes = std::move(*code);
  }
  object.compile_seconds = seconds_since(start) - object.lower_seconds;
  if (object.bytes.empty())
    return Error{"kernel @" + current.kernel.getName().str() + ": Halide wrote no code"};
  return object;
}

} // namespace

uint32_t cpu_features(mlir::ModuleOp module, const Target &target) {
  uint32_t features = target.base;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    features |= cpu_features(function, target);
  return features;
}

std::vector<int> rows_with_code(mlir::func::FuncOp kernel) {
  std::vector<int> out;
  auto rows = kernel->getAttrOfType<mlir::ArrayAttr>(ir::names::schedule);
  for (int row = 0; rows && row < int(rows.size()); ++row)
    if (row_of_code(kernel, row) == row)
      out.push_back(row);
  return out;
}

std::string kernel_symbol(mlir::func::FuncOp kernel, int schedule_row) {
  return kernel.getName().str() + "_" + std::to_string(row_of_code(kernel, schedule_row));
}

std::string nameless_symbol(size_t place) { return "heddle_kernel" + std::to_string(place); }

Result<KernelObject> emit_kernel(mlir::func::FuncOp kernel, int schedule_row, const Target &target,
                                 const EmitOptions &options) {
  return emit_kernels({KernelRow{kernel, schedule_row}}, target, options);
}

Result<std::string> kernel_texts(mlir::ModuleOp module, const Target &target, KernelForm form) {
  std::string out;
  for (auto kernel : module.getOps<mlir::func::FuncOp>()) {
    if (!kernel->hasAttr(ir::names::kernel))
      continue;
    for (int row : rows_with_code(kernel)) {
      Result<KernelObject> text = emit_kernel(kernel, row, target, {.form = form});
      if (!text)
        return text.error();
      out += "// " + text->symbol + "\n" + text->bytes + "\n";
    }
  }
  return out;
}

Result<KernelObject> emit_kernels(llvm::ArrayRef<KernelRow> rows, const Target &target, const EmitOptions &options) {
  report_by_exceptions();
  KernelRow current = rows.front();
  try {
    return emit(rows, target, options, current);
  } catch (const Halide::Error &error) { // not a std::exception
    if (rows.size() > 1)                 // which one it was
      for (const KernelRow &row : rows)
        if (Result<KernelObject> alone = emit_kernels({row}, target, options); !alone)
          return alone.error();
    return refusal(current, message_of(error));
  }
}

} // namespace heddle
