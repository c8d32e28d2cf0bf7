// The object is linked with the runtime's archive, so threads and scratch are those of a library. Each candidate has
// buffers of its own: in a model weights come from where they lie, not from the near cache that the last call left.
#include "compiler/tune/candidate.h"

#include "compiler/emit/artifact/link.h"
#include "compiler/emit/kernels/emit.h"
#include "compiler/halide/scalars.h"
#include "compiler/io/output.h"
#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"
#include "embedded/runtime_archive.h"
#include "runtime/cpu_features.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <dlfcn.h>
#include <sys/mman.h>

namespace heddle::tune {

struct Candidate::Memory {
  std::vector<halide_dimension_t> dims;
  halide_buffer_t raw = {};
  void *block = nullptr;
  int64_t elements = 1;
  ~Memory() { free(block); }
  size_t bytes() const { return size_t(elements) * size_t(raw.type.bytes()); }
};

Candidate::Candidate() = default;

Candidate::~Candidate() {
  if (!library_)
    return;
  if (auto close = reinterpret_cast<void (*)(void *)>(dlsym(library_, "rt_alone_close")))
    close(session_);
  // The library stays: its pool's threads may run in it.
}

static Status write_bytes(const std::string &path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  return out.flush() ? Status(Done{}) : Status(Error{path + ": cannot be written"});
}

Status Candidate::compile(const std::string &text, const Target &target, int threads) {
  mlir::DialectRegistry registry;
  ir::register_dialects(registry);
  context_.appendDialectRegistry(registry);
  module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
  if (!module_ || module_->getOps<mlir::func::FuncOp>().empty())
    return Error{"the kernel does not parse"};
  EmitOptions options;
  options.with_argv = true;
  Result<KernelObject> object = emit_kernel(*module_->getOps<mlir::func::FuncOp>().begin(), 0, target, options);
  if (!object)
    return object.error();
  if (!heddle_is_permitted(cpu_features(*module_, target)))
    return Error{"the operating system does not permit this process AMX tiles"};
  auto folder = temporary_folder();
  if (!folder)
    return folder.error();
  std::string symbol = object->symbol + "_argv", base = folder->path() + "/";
  LinkJob link{{base + "k.o", base + "runtime.a"}, base + "exports", "libk.so"};
  for (const auto &[name, bytes] :
       {std::pair(link.objects[0], std::string_view(object->bytes)),
        std::pair(link.objects[1], std::string_view(embedded::runtime_archive()[0].bytes)),
        std::pair(link.version_script, std::string_view("{ global: rt_alone_*; k*_argv; local: *; };\n"))})
    if (Status written = write_bytes(name, bytes); !written)
      return written;
  link.needed = {"rt_alone_open", "rt_alone_call", "rt_alone_close", symbol};
  auto bytes = link_library(link);
  if (!bytes)
    return bytes.error();
  std::string path = base + "libk.so";
  if (Status written = write_bytes(path, *bytes); !written)
    return written;
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_)
    return Error{std::string("it does not load: ") + dlerror()};
  auto open = reinterpret_cast<void *(*)(int32_t)>(dlsym(library_, "rt_alone_open"));
  call_ = reinterpret_cast<int (*)(void *, int (*)(void **), void **)>(dlsym(library_, "rt_alone_call"));
  kernel_ = reinterpret_cast<int (*)(void **)>(dlsym(library_, symbol.c_str()));
  if (!open || !call_ || !kernel_)
    return Error{"it does not load: a function is missing"};
  session_ = open(threads);
  return session_ ? Status(Done{}) : Status(Error{"no memory for its threads"});
}

/// What the element with that number in row-major order is: below 1, of both signs, without a pattern that a layout
/// would keep.
static float value_at(int64_t number) {
  uint32_t bits = uint32_t(number) * 2654435761u;
  return float(bits >> 8) / float(1 << 23) - 1.f;
}

static void store(void *block, Halide::Type type, int64_t at, int64_t number) {
  auto *bytes = static_cast<uint8_t *>(block) + at * type.bytes();
  float value = value_at(number);
  if (type == Halide::Float(32)) {
    std::memcpy(bytes, &value, 4);
  } else if (type == Halide::BFloat(16) || type == Halide::Float(16)) {
    uint16_t half = type == Halide::BFloat(16) ? uint16_t(std::bit_cast<uint32_t>(value) >> 16)
                                               : std::bit_cast<uint16_t>(_Float16(value));
    std::memcpy(bytes, &half, 2);
  } else if (type.bytes() == 1) {
    *bytes = uint8_t(type.is_bool() ? 1 : number % 127);
  } else { // indices, which must lie in some tensor
    int64_t one = 1;
    std::memcpy(bytes, &one, size_t(type.bytes()));
  }
}

static double read(const void *block, Halide::Type type, int64_t at) {
  const auto *bytes = static_cast<const uint8_t *>(block) + at * type.bytes();
  auto as = [&]<class T>(T value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  if (type == Halide::Float(32))
    return as(float());
  if (type == Halide::BFloat(16))
    return std::bit_cast<float>(uint32_t(as(uint16_t())) << 16);
  if (type == Halide::Float(16))
    return double(as(_Float16()));
  return type.bytes() == 4 ? as(int32_t()) : type.bytes() == 8 ? double(as(int64_t())) : as(int8_t());
}

Status Candidate::add_buffer(mlir::Type type, mlir::Attribute extents, mlir::Attribute layout, bool is_result) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  std::vector<int64_t> shape = tensor.getShape().vec();
  if (!tensor.hasStaticShape()) {
    mlir::AffineMap map = llvm::cast<mlir::AffineMapAttr>(extents).getValue();
    auto known = map.compose(llvm::ArrayRef(sizes_).take_front(map.getNumDims()));
    shape.assign(known.begin(), known.end());
  }
  auto laid_out = llvm::dyn_cast_if_present<ir::LayoutAttr>(layout);
  mlir::AffineMap map =
      laid_out ? laid_out.getMap() : mlir::AffineMap::getMultiDimIdentityMap(unsigned(shape.size()), &context_);
  llvm::SmallVector<int64_t> in_memory = layout::memory_shape(map, shape);
  auto memory = std::make_unique<Memory>();
  memory->dims.resize(in_memory.size());
  for (size_t i = 0; i < in_memory.size(); ++i) {
    int64_t extent = in_memory[in_memory.size() - 1 - i];
    memory->dims[i] = {0, int(extent), int(memory->elements), 0};
    memory->elements *= extent;
  }
  Halide::Type stored = *halide_type(tensor.getElementType());
  memory->raw.type = stored;
  constexpr size_t huge_page = size_t(1) << 21; // as the runtime's memory has them
  size_t bytes = memory->bytes() + 8192;
  bytes = bytes < huge_page ? (bytes + 4095) & ~size_t(4095) : (bytes + huge_page - 1) & -huge_page;
  memory->block = aligned_alloc(bytes < huge_page ? 4096 : huge_page, bytes);
  if (!memory->block)
    return Error{"it ran out of memory"};
  madvise(memory->block, bytes, MADV_HUGEPAGE);
  std::memset(memory->block, 0, bytes);
  auto *host = static_cast<uint8_t *>(memory->block) + 4096; // kernels may read a few bytes beside it
  if (!is_result && memory->elements > 0 && !shape.empty()) {
    layout::Addresses addresses(map, shape);
    unsigned half = unsigned(shape.size() / 2);
    std::vector<int64_t> outer = addresses.along(0, half), inner = addresses.along(half, unsigned(shape.size()));
    int64_t number = 0;
    for (int64_t a : outer)
      for (int64_t b : inner)
        store(host, stored, a + b, number++);
  } else if (!is_result) {
    store(host, stored, 0, 1);
  }
  memory->raw.host = host;
  memory->raw.dimensions = int(in_memory.size());
  memory->raw.dim = memory->dims.data();
  memory_.push_back(std::move(memory));
  return Done{};
}

Status Candidate::prepare(const std::vector<int64_t> &sizes, const std::vector<int64_t> &scalars) {
  mlir::func::FuncOp kernel = *module_->getOps<mlir::func::FuncOp>().begin();
  sizes_ = sizes;
  numbers_.assign(sizes.begin(), sizes.end());
  size_t scalar = 0;
  for (mlir::BlockArgument argument : kernel.getArguments()) {
    mlir::Type type = argument.getType();
    if (llvm::isa<mlir::RankedTensorType>(type) || type.isIndex())
      continue;
    int64_t value = scalar < scalars.size() ? scalars[scalar++] : 1;
    if (type.isF32())
      numbers_.push_back(std::bit_cast<int32_t>(float(value)));
    else if (type.isInteger(32) || type.isInteger(1) || type.isInteger(8))
      numbers_.push_back(int32_t(type.isInteger(1) ? 1 : value));
    else
      return Error{"a scalar is of a type that cannot be made up"};
  }
  for (mlir::BlockArgument argument : kernel.getArguments())
    if (llvm::isa<mlir::RankedTensorType>(argument.getType()))
      if (Status added = add_buffer(argument.getType(), kernel.getArgAttr(argument.getArgNumber(), ir::names::extents),
                                    kernel.getArgAttr(argument.getArgNumber(), ir::names::layout), false);
          !added)
        return added;
  for (unsigned i = 0; i < kernel.getNumResults(); ++i)
    if (Status added = add_buffer(kernel.getResultTypes()[i], kernel.getResultAttr(i, ir::names::extents), {}, true);
        !added)
      return added;
  results_ = kernel.getNumResults();
  arguments_ = {&session_};
  for (int32_t &number : numbers_)
    arguments_.push_back(&number);
  for (const std::unique_ptr<Memory> &memory : memory_)
    arguments_.push_back(&memory->raw);
  return Done{};
}

int Candidate::run() { return call_(session_, kernel_, arguments_.data()); }

void Candidate::spoil_results() {
  for (size_t i = memory_.size() - results_; i < memory_.size(); ++i)
    std::memset(memory_[i]->raw.host, 0xff, memory_[i]->bytes());
}

std::string Candidate::difference(const Candidate &reference) const {
  for (size_t i = memory_.size() - results_; i < memory_.size(); ++i) {
    const Memory &mine = *memory_[i], &other = *reference.memory_[i];
    Halide::Type type = mine.raw.type;
    bool narrow = type.is_float() && type.bits() == 16;
    double tolerance = !type.is_float() ? 0 : narrow ? 0.04 : 1e-3, largest = 0;
    double least = type.is_int() && type.bits() == 8 ? 1 : 0; // what was rounded to whole numbers
    for (int64_t at = 0; at < other.elements; ++at)
      if (double value = std::abs(read(other.raw.host, type, at)); std::isfinite(value))
        largest = std::max(largest, value);
    for (int64_t at = 0; at < mine.elements; ++at) {
      double a = read(mine.raw.host, type, at), b = read(other.raw.host, type, at);
      if (!(std::abs(a - b) <= std::max(least, tolerance * largest)) && a != b && !(std::isnan(a) && std::isnan(b)))
        return "its result is wrong: " + std::to_string(a) + " where the usual schedule has " + std::to_string(b);
    }
  }
  return "";
}

} // namespace heddle::tune
