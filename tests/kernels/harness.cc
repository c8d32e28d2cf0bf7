// The guarded buffers, the linking and the runtime functions that generated code calls. The tasks of a parallel loop
// run last to first, so that a kernel that relies on their order fails.
#include "harness.h"

#include "compiler/emit/kernels/scratch.h"
#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"
#include "runtime/abi.h"
#include "runtime/cpu_features.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

// --- what generated code calls; the program exports these to the libraries it loads

static int allocations = 0; // live
static int asked = 0, failing = -1;

// What the runtime's slab would hold (runtime/scratch.c): blocks give their lines back in stack order.
namespace {
struct Block {
  void *pointer;
  int64_t lines;
};
std::vector<Block> slab;
int64_t lines_used = 0, most_lines = 0;

constexpr int32_t many_threads = 23;
int32_t sharing_threads = 1;

// The context of the task that runs: a thread takes scratch from its own slab.
char task_contexts[2];
void *running = nullptr;
void expect_own(void *context) {
  if (context != running)
    ADD_FAILURE() << "scratch is asked for in the name of another thread";
}
} // namespace

extern "C" {
__attribute__((visibility("default"))) int32_t heddle_sharing_threads(void *) { return sharing_threads; }
__attribute__((visibility("default"))) int halide_do_par_for(void *context, halide_task_t task, int first, int count,
                                                             uint8_t *closure) {
  expect_own(context);
  int status = 0;
  for (int i = first + count; i-- > first && !status;) {
    running = &task_contexts[context == &task_contexts[0]]; // neither the caller's nor that of the loop around it
    status = task(running, i, closure);
  }
  running = context;
  return status;
}
__attribute__((visibility("default"))) void *halide_malloc(void *context, size_t bytes) {
  expect_own(context);
  if (bytes > 0 && asked++ == failing) // an allocation under a condition that doesn't hold asks for nothing
    return nullptr;
  ++allocations;
  void *pointer = aligned_alloc(64, (bytes + 127) & ~size_t(63));
  slab.push_back({pointer, int64_t(bytes + HEDDLE_SCRATCH_LINE - 1 + HEDDLE_SCRATCH_HEADER) / HEDDLE_SCRATCH_LINE});
  lines_used += slab.back().lines;
  most_lines = std::max(most_lines, lines_used);
  return pointer;
}
__attribute__((visibility("default"))) void halide_free(void *context, void *pointer) {
  expect_own(context);
  if (pointer)
    --allocations;
  for (Block &block : slab)
    if (block.pointer == pointer)
      block.pointer = nullptr;
  for (; !slab.empty() && !slab.back().pointer; slab.pop_back())
    lines_used -= slab.back().lines;
  free(pointer);
}
__attribute__((visibility("default"))) int halide_error_out_of_memory(void *) { return -11; }
__attribute__((visibility("default"))) void halide_error(void *, const char *message) {
  std::fprintf(stderr, "%s\n", message);
}
}

namespace heddle::test {

int live_allocations() { return allocations; }

namespace {

/// Memory whose last byte lies before an inaccessible page, with a red zone before its first.
class Guarded {
public:
  Guarded(size_t bytes, size_t align) {
    size_t page = size_t(sysconf(_SC_PAGESIZE));
    size_t needed = (bytes + red_zone + page - 1) / page * page;
    total_ = needed + page;
    base_ = static_cast<uint8_t *>(mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + needed, page, PROT_NONE);
    std::fill(base_, base_ + needed, colour);
    data_ = base_ + (needed - bytes) / align * align;
  }
  ~Guarded() { munmap(base_, total_); }
  Guarded(const Guarded &) = delete;

  uint8_t *data() const { return data_; }
  bool intact() const {
    for (const uint8_t *p = base_; p < data_; ++p)
      if (*p != colour)
        return false;
    return true;
  }

private:
  static constexpr size_t red_zone = 4096;
  static constexpr uint8_t colour = 0xa5;
  uint8_t *base_, *data_;
  size_t total_;
};

size_t bytes_of(mlir::Type element) {
  return element.isIndex() ? 4 : std::max<size_t>(element.getIntOrFloatBitWidth() / 8, 1);
}

void store(mlir::Type element, uint8_t *at, double value) {
  auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  if (element.isF32())
    return put(float(value));
  if (element.isF64())
    return put(value);
  if (element.isBF16() || element.isF16()) {
    llvm::APFloat narrow(value);
    bool inexact;
    narrow.convert(llvm::cast<mlir::FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &inexact);
    return put(uint16_t(narrow.bitcastToAPInt().getZExtValue()));
  }
  int64_t integer = int64_t(value);
  std::memcpy(at, &integer, bytes_of(element));
}

double fetch(mlir::Type element, const uint8_t *at) {
  auto get = [&](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  if (element.isF32())
    return get(float());
  if (element.isF64())
    return get(double());
  if (element.isBF16() || element.isF16())
    return llvm::APFloat(llvm::cast<mlir::FloatType>(element).getFloatSemantics(), llvm::APInt(16, get(uint16_t())))
        .convertToDouble();
  switch (bytes_of(element)) {
  case 1:
    return element.isInteger(1) ? get(uint8_t()) : get(int8_t());
  case 2:
    return get(int16_t());
  case 4:
    return get(int32_t());
  default:
    return double(get(int64_t()));
  }
}

/// A tensor in another layout, as its bytes lie.
Values laid_out(const Values &plain, mlir::AffineMap map) {
  layout::Addresses addresses(map, plain.shape);
  llvm::SmallVector<int64_t> shape = layout::memory_shape(map, plain.shape);
  Values packed{plain.element, {shape.begin(), shape.end()}, std::vector<double>(size_t(addresses.elements()))};
  for (auto [value, address] : llvm::zip_equal(plain.data, addresses.along(0, unsigned(plain.shape.size()))))
    packed.data[size_t(address)] = value;
  return packed;
}

halide_type_t runtime_type(mlir::Type element) {
  if (element.isBF16())
    return {halide_type_bfloat, 16, 1};
  if (llvm::isa<mlir::FloatType>(element))
    return {halide_type_float, uint8_t(element.getIntOrFloatBitWidth()), 1};
  if (element.isInteger(1))
    return {halide_type_uint, 1, 1};
  return {halide_type_int, uint8_t(element.isIndex() ? 32 : element.getIntOrFloatBitWidth()), 1};
}

/// A tensor in guarded memory with its Halide description.
struct Buffer {
  Buffer(const Values &values)
      : memory(std::max<size_t>(values.count(), 1) * bytes_of(values.element), bytes_of(values.element)),
        dims(values.shape.size()) {
    size_t size = bytes_of(values.element);
    for (size_t i = 0; i < values.data.size(); ++i)
      store(values.element, memory.data() + i * size, values.data[i]);
    int64_t stride = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t extent = values.shape[values.shape.size() - 1 - i];
      dims[i] = {0, int(extent), int(stride), 0};
      stride *= extent;
    }
    raw.host = memory.data();
    raw.type = runtime_type(values.element);
    raw.dimensions = int(dims.size());
    raw.dim = dims.data();
  }
  Guarded memory;
  std::vector<halide_dimension_t> dims;
  halide_buffer_t raw = {};
};

} // namespace

int64_t Values::count() const {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

KernelText::KernelText(std::string_view text) {
  mlir::DialectRegistry registry;
  ir::register_dialects(registry);
  context_.appendDialectRegistry(registry);
  context_.disableMultithreading();
  module_ = mlir::parseSourceString<mlir::ModuleOp>(llvm::StringRef(text.data(), text.size()), &context_);
  if (module_)
    for (mlir::func::FuncOp function : module_->getOps<mlir::func::FuncOp>())
      function_ = function;
  if (!function_) {
    std::fprintf(stderr, "the test's kernel doesn't parse\n");
    std::abort();
  }
}

void KernelText::set_row(const ScheduleRow &row) {
  mlir::Builder builder(&context_);
  function_->setAttr(ir::names::kernel, builder.getStringAttr(kind_of(function_).name));
  function_->setAttr(ir::names::schedule, schedule_attribute(&context_, {&row, 1}));
}

std::vector<int64_t> shape_of(mlir::Type type, mlir::Attribute extents, const std::vector<int64_t> &sizes) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  if (tensor.hasStaticShape())
    return tensor.getShape().vec();
  mlir::AffineMap map = llvm::cast<mlir::AffineMapAttr>(extents).getValue();
  llvm::SmallVector<int64_t> shape = map.compose(llvm::ArrayRef(sizes).take_front(map.getNumDims()));
  return {shape.begin(), shape.end()};
}

std::vector<Values> random_inputs(mlir::func::FuncOp kernel, const std::vector<int64_t> &sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Values> inputs;
  for (mlir::BlockArgument argument : kernel.getArguments()) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(argument.getType());
    if (!tensor)
      continue;
    unsigned number = argument.getArgNumber();
    auto below = kernel.getArgAttrOfType<mlir::IntegerAttr>(number, ir::names::below);
    Values values{tensor.getElementType(), shape_of(tensor, kernel.getArgAttr(number, ir::names::extents), sizes), {}};
    int64_t most = tensor.getElementType().isInteger(1) ? 2 : below ? below.getInt() : 4;
    uint8_t stored[8]; // as the kernel reads it
    for (int64_t i = 0; i < values.count(); ++i) {
      store(values.element, stored,
            llvm::isa<mlir::FloatType>(values.element) ? normal(random) : double(random() % uint64_t(most)));
      values.data.push_back(fetch(values.element, stored));
    }
    inputs.push_back(std::move(values));
  }
  return inputs;
}

CompiledKernel::CompiledKernel(mlir::func::FuncOp kernel, int row, const Target &target, bool with_asserts,
                               std::string_view without_rewrite)
    : kernel_(kernel) {
  EmitOptions options;
  options.without_rewrite = without_rewrite;
  options.with_asserts = with_asserts;
  options.with_argv = true;
  Result<KernelObject> object = emit_kernel(kernel, row, target, options);
  if (!object) {
    ADD_FAILURE() << object.error().message;
    return;
  }
  object_ = std::move(*object);
  if (!heddle_is_permitted(heddle::cpu_features(kernel->getParentOfType<mlir::ModuleOp>(), target))) {
    ADD_FAILURE() << "the operating system does not permit this process AMX tiles";
    return;
  }
  static int counter = 0;
  std::string base = testing::TempDir() + "heddle_kernel_" + std::to_string(getpid()) + "_" + std::to_string(counter++);
  std::ofstream(base + ".o", std::ios::binary) << object_.bytes;
  std::string command = "ld.lld-22 -shared --unresolved-symbols=ignore-all -o " + base + ".so " + base + ".o";
  int status = std::system(command.c_str());
  if (status == 0)
    library_ = dlopen((base + ".so").c_str(), RTLD_LAZY | RTLD_LOCAL);
  const char *error = library_ ? nullptr : dlerror();
  unlink((base + ".o").c_str());
  unlink((base + ".so").c_str());
  if (library_)
    function_ = reinterpret_cast<Function>(dlsym(library_, (object_.symbol + "_argv").c_str()));
  if (!function_)
    ADD_FAILURE() << object_.symbol << " does not load: " << (error ? error : "linking failed");
}

CompiledKernel::CompiledKernel(CompiledKernel &&other) noexcept
    : kernel_(other.kernel_), object_(std::move(other.object_)), library_(other.library_), function_(other.function_) {
  other.library_ = nullptr;
}

CompiledKernel::~CompiledKernel() {
  if (library_)
    dlclose(library_);
}

int64_t CompiledKernel::scratch_lines(const std::vector<int32_t> &sizes) const {
  void *found = dlsym(library_, scratch_symbol(object_.symbol).c_str());
  EXPECT_TRUE(found && sizes.size() <= 8) << object_.symbol;
  std::vector<int32_t> s(sizes);
  s.resize(8);
  // The callee takes as many of them as it has.
  return reinterpret_cast<int (*)(int, int, int, int, int, int, int, int)>(found)(s[0], s[1], s[2], s[3], s[4], s[5],
                                                                                  s[6], s[7]);
}

std::vector<Values> CompiledKernel::run(const std::vector<int64_t> &sizes, const std::vector<Values> &inputs) const {
  std::vector<Values> results;
  if (!function_)
    return results;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<int32_t> narrow_sizes(sizes.begin(), sizes.end());
  void *context = nullptr;
  std::vector<void *> arguments = {&context};
  for (int32_t &size : narrow_sizes)
    arguments.push_back(&size);
  size_t next = 0;
  for (mlir::BlockArgument argument : kernel_.getArguments()) {
    if (!llvm::isa<mlir::RankedTensorType>(argument.getType()))
      continue;
    auto layout = kernel_.getArgAttrOfType<ir::LayoutAttr>(argument.getArgNumber(), ir::names::layout);
    const Values &plain = inputs[next++];
    buffers.push_back(std::make_unique<Buffer>(layout ? laid_out(plain, layout.getMap()) : plain));
    arguments.push_back(&buffers.back()->raw);
  }
  for (unsigned i = 0; i < kernel_.getNumResults(); ++i) {
    auto type = llvm::cast<mlir::RankedTensorType>(kernel_.getResultTypes()[i]);
    results.push_back({type.getElementType(), shape_of(type, kernel_.getResultAttr(i, ir::names::extents), sizes), {}});
    buffers.push_back(std::make_unique<Buffer>(results.back()));
    arguments.push_back(&buffers.back()->raw);
  }
  asked = 0, most_lines = 0, failing = -1;
  EXPECT_EQ(function_(arguments.data()), 0) << object_.symbol;
  EXPECT_EQ(live_allocations(), 0) << object_.symbol;
  EXPECT_LE(most_lines, scratch_lines(narrow_sizes)) << object_.symbol << " needs more than it says";
  auto bytes_of_results = [&] {
    std::vector<std::vector<uint8_t>> all;
    for (size_t i = buffers.size() - results.size(); i < buffers.size(); ++i) {
      const Values &values = results[all.size()];
      uint8_t *data = buffers[i]->memory.data();
      all.emplace_back(data, data + values.count() * bytes_of(values.element));
      std::fill_n(data, all.back().size(), 0);
    }
    return all;
  };
  std::vector<std::vector<uint8_t>> of_one_thread = bytes_of_results();
  sharing_threads = many_threads;
  most_lines = 0;
  EXPECT_EQ(function_(arguments.data()), 0) << object_.symbol;
  EXPECT_LE(most_lines, scratch_lines(narrow_sizes)) << object_.symbol << " needs more than it says";
  EXPECT_EQ(bytes_of_results(), of_one_thread) << object_.symbol << " cut for " << many_threads << " threads";
  sharing_threads = 1;
  asked = 0;
  EXPECT_EQ(function_(arguments.data()), 0) << object_.symbol;
  if (int all = asked) {
    for (int number : {0, all - 1}) {
      asked = 0, failing = number;
      EXPECT_EQ(function_(arguments.data()), -11) << object_.symbol << ", allocation " << number << " of " << all;
      EXPECT_EQ(live_allocations(), 0) << object_.symbol;
    }
    failing = -1;
    EXPECT_EQ(function_(arguments.data()), 0) << object_.symbol;
  }
  for (const auto &buffer : buffers)
    EXPECT_TRUE(buffer->memory.intact()) << object_.symbol << " wrote before the start of a buffer";
  for (size_t i = 0; i < results.size(); ++i) {
    const Buffer &buffer = *buffers[buffers.size() - results.size() + i];
    for (int64_t e = 0; e < results[i].count(); ++e)
      results[i].data.push_back(fetch(results[i].element, buffer.memory.data() + e * bytes_of(results[i].element)));
  }
  return results;
}

std::string with(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

std::string lit_kernel(std::string_view name, const std::vector<std::pair<std::string, std::string>> &replaced) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/lit/kernels/" + std::string(name) + ".mlir");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const auto &[from, to] : replaced)
    text = with(std::move(text), from, to);
  return text;
}

std::string with_width(std::string text, const std::string &width) { return with(std::move(text), "W", width); }

ScheduleRow row_of(std::string_view kind, std::string_view variant, Parameters parameters) {
  ScheduleRow row{std::string(variant), std::move(parameters), {}, ""};
  const Variant &known = *find_kind(kind)->find_variant(variant);
  row.micro_kernel = known.multiplies ? "fma" : "";
  for (const Parameter &parameter : known.parameters)
    row.params.try_emplace(std::string(parameter.name), parameter.tried.front());
  return row;
}

std::vector<ScheduleRow> all_rows(const KernelKind &kind) {
  std::vector<ScheduleRow> rows;
  for (const Variant *variant : kind.variants) {
    if (!variant->runs_on(targets().front())) // those of GPUs: tests/cuda
      continue;
    std::vector<ScheduleRow> of_variant = {{std::string(variant->name), {}, {}, variant->multiplies ? "fma" : ""}};
    for (const Parameter &parameter : variant->parameters) {
      std::vector<ScheduleRow> longer;
      for (const ScheduleRow &row : of_variant)
        for (int64_t value : parameter.tried) {
          longer.push_back(row);
          longer.back().params[std::string(parameter.name)] = value;
        }
      of_variant = std::move(longer);
    }
    rows.insert(rows.end(), of_variant.begin(), of_variant.end());
  }
  return rows;
}

testing::AssertionResult close(const std::vector<Values> &actual, const std::vector<Values> &expected,
                               double relative) {
  if (actual.size() != expected.size())
    return testing::AssertionFailure() << actual.size() << " results instead of " << expected.size();
  for (size_t r = 0; r < actual.size(); ++r) {
    if (actual[r].shape != expected[r].shape || actual[r].data.size() != expected[r].data.size())
      return testing::AssertionFailure() << "result " << r << " has another shape";
    double largest = 0;
    for (double value : expected[r].data)
      if (std::isfinite(value))
        largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < actual[r].data.size(); ++i) {
      double a = actual[r].data[i], e = expected[r].data[i];
      bool same =
          std::isfinite(e) ? std::abs(a - e) <= relative * largest + 1e-30 : (std::isnan(e) ? std::isnan(a) : a == e);
      if (!same)
        return testing::AssertionFailure() << "result " << r << ", element " << i << " is " << a << ", expected " << e
                                           << " (largest " << largest << ")";
    }
  }
  return testing::AssertionSuccess();
}

void check_all_rows(std::string_view text, std::string_view expected_kind,
                    const std::vector<std::vector<int64_t>> &sizes, double relative) {
  KernelText kernel(text);
  check_rows(text, expected_kind, all_rows(kind_of(kernel.function())), sizes, relative);
}

const Target &host_target() {
  const Target *last = nullptr;
  for (const Target &target : targets())
    if ((target.cpu_features() & ~heddle_host_cpu_features()) == 0)
      last = &target;
  return *last;
}

void check_rows(std::string_view text, std::string_view expected_kind, const std::vector<ScheduleRow> &rows,
                const std::vector<std::vector<int64_t>> &sizes, double relative) {
  KernelText kernel(text);
  ASSERT_EQ(kind_of(kernel.function()).name, expected_kind);
  const Target &target = host_target();
  struct Case {
    std::vector<int64_t> size;
    std::vector<Values> inputs, expected;
  };
  std::vector<Case> cases; // evaluated once: that is slow
  for (const std::vector<int64_t> &size : sizes) {
    std::vector<Values> inputs = random_inputs(kernel.function(), size, unsigned(cases.size() + 1));
    std::vector<Values> expected = evaluate(kernel.function(), size, inputs);
    cases.push_back({size, std::move(inputs), std::move(expected)});
  }
  for (const ScheduleRow &row : rows) {
    kernel.set_row(row);
    std::string described = row.variant;
    for (const auto &[name, value] : row.params)
      described += " " + name + "=" + std::to_string(value);
    CompiledKernel fast(kernel.function(), 0, target, false);
    // Compiling is what these tests spend their time on: asserts, which are about bounds, in every second row, and the
    // narrowest vectors in the first.
    std::optional<CompiledKernel> checked, least;
    if ((&row - &rows.front()) % 2 == 0)
      checked.emplace(kernel.function(), 0, target, true);
    if (&row == &rows.front())
      least.emplace(kernel.function(), 0, targets()[0], false);
    for (const auto &[size, inputs, expected] : cases) {
      std::string at = described + " at";
      for (int64_t extent : size)
        at += " " + std::to_string(extent);
      SCOPED_TRACE(at);
      if (checked)
        EXPECT_TRUE(close(checked->run(size, inputs), expected, relative)) << "with asserts";
      EXPECT_TRUE(close(fast.run(size, inputs), expected, relative));
      if (least)
        EXPECT_TRUE(close(least->run(size, inputs), expected, relative)) << "for " << targets()[0].name;
    }
  }
}

} // namespace heddle::test
