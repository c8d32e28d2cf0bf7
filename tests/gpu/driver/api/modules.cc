// Driver calls for modules, kernels and launches.
#include "tests/gpu/driver/api/driver.h"
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/settings.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace ptx {

static u32 shared_limit() { return settings().sm >= 90 ? 232448 : 166912; }

static void check_launch(const Kernel &k, const LaunchShape &s) {
  auto refuse = [&](Code code, const std::string &what) { throw Error(code, "kernel " + k.name + ": " + what); };
  const Dim3 g = s.grid, b = s.block;
  if (!g.count() || g.x > 2147483647u || g.y > 65535 || g.z > 65535)
    refuse(Code::invalid_value,
           "a grid of " + std::to_string(g.x) + " x " + std::to_string(g.y) + " x " + std::to_string(g.z));
  if (!b.count() || b.x > 1024 || b.y > 1024 || b.z > 64 || b.count() > 1024)
    refuse(Code::invalid_value,
           "a block of " + std::to_string(b.x) + " x " + std::to_string(b.y) + " x " + std::to_string(b.z));
  if (b.count() > k.max_threads)
    refuse(Code::invalid_value,
           "blocks of " + std::to_string(b.count()) + " threads; it declares " + std::to_string(k.max_threads));
  if (s.dynamic_shared > k.max_dynamic_shared || k.shared_bytes + s.dynamic_shared > shared_limit())
    refuse(Code::invalid_value, std::to_string(k.shared_bytes) + " + " + std::to_string(s.dynamic_shared) +
                                    " bytes of shared memory; of the dynamic part " +
                                    std::to_string(k.max_dynamic_shared) + " are allowed (cuFuncSetAttribute)");
}

Node launch_node(CUfunction function, LaunchShape shape, void **parameters, void **extra) {
  Node node;
  node.type = Node::kernel;
  Kernel *k = node.function = valid(driver().kernels, function, "kernel");
  node.shape = shape;
  check_launch(*k, shape);
  node.parameters.resize(k->parameter_bytes + 16);
  if (parameters) {
    for (size_t i = 0; i < k->parameters.size(); i++) {
      require(parameters[i], "a kernel parameter is missing");
      memcpy(&node.parameters[k->parameters[i].offset], parameters[i], k->parameters[i].bytes);
    }
  } else if (extra) { // CU_LAUNCH_PARAM_BUFFER_POINTER 1, _SIZE 2, _END 0
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (size_t i = 0; extra[i]; i += 2) {
      if (extra[i] == reinterpret_cast<void *>(1))
        buffer = extra[i + 1];
      if (extra[i] == reinterpret_cast<void *>(2))
        bytes = *static_cast<size_t *>(extra[i + 1]);
    }
    require(bytes >= k->parameter_bytes, "the buffer of parameters is too small");
    if (buffer)
      memcpy(node.parameters.data(), buffer, k->parameter_bytes);
  } else
    require(k->parameters.empty(), "the kernel has parameters, none are given");
  return node;
}

/// CU_JIT_ERROR_LOG_BUFFER (5), of CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES (6), gets the message.
static void log_error(const std::string &text, unsigned count, const int *options, void **values) {
  char *buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == 5)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == 6)
      room = size_t(values[i]);
  }
  if (buffer && room) {
    size_t n = std::min(room - 1, text.size());
    memcpy(buffer, text.data(), n);
    buffer[n] = 0;
  }
}

static Module *load(const char *image) {
  constexpr u32 elf = 0x464c457f, fat_binary = 0xba55ed50;
  u32 magic;
  memcpy(&magic, image, 4);
  if (magic == elf || magic == fat_binary)
    throw Error(Code::no_binary_for_gpu, "machine code of a GPU; the emulator executes PTX");
  std::unique_ptr<Module> made = parse(image);
  auto refuse = [&](Code code, const std::string &what) {
    for (u64 address : made->owned)
      device_memory().release(address);
    throw Error(code, what);
  };
  if (made->target > settings().sm)
    refuse(Code::invalid_ptx, "PTX for sm_" + std::to_string(made->target) + " on sm_" + std::to_string(settings().sm));
  // PTX of CUDA 11.x is 7.x, of 12.0 to 12.9 as here, of 13.x 9.x.
  static const int of_cuda_12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
  int major = settings().version / 1000, minor = settings().version % 1000 / 10;
  int newest = major >= 13 ? 90 + minor : major == 12 ? of_cuda_12[std::min(minor, 9)] : 70 + minor;
  auto text = [](int version) { return std::to_string(version / 10) + "." + std::to_string(version % 10); };
  if (made->version > newest)
    refuse(Code(222), "PTX " + text(made->version) + "; the driver has " + text(newest));
  Module *m = made.release();
  driver().modules.insert(m);
  for (auto &[name, k] : m->kernels)
    driver().kernels.insert(k.get());
  return m;
}

} // namespace ptx

using namespace ptx;

EMULATED CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values) {
  return call(__func__, Needs::context, [&] {
    require(image, "no image");
    try {
      *module = load(static_cast<const char *>(image));
    } catch (const Error &error) {
      log_error(error.what(), count, options, values);
      throw;
    }
  });
}

EMULATED CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
EMULATED CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

EMULATED CUresult cuModuleLoad(CUmodule *module, const char *path) {
  std::ifstream file(path);
  if (!file)
    return CUresult(Code::file_not_found);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return cuModuleLoadData(module, text.c_str());
}

EMULATED CUresult cuModuleUnload(CUmodule module) {
  return call(__func__, Needs::context, [&] {
    Driver &d = driver();
    valid(d.modules, module, "module");
    run_everything();
    for (auto &[name, k] : module->kernels) {
      d.retired[k->name] += totals(*k);
      d.kernels.erase(k.get());
    }
    for (u64 address : module->owned)
      device_memory().release(address);
    d.modules.erase(module);
    delete module;
  });
}

EMULATED CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return call(__func__, Needs::context, [&] {
    auto &kernels = valid(driver().modules, module, "module")->kernels;
    auto i = kernels.find(name);
    if (i == kernels.end())
      throw Error(Code::not_found, std::string("the module has no kernel ") + name);
    *function = i->second.get();
  });
}

EMULATED CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
  return call(__func__, Needs::context,
              [&] { *count = unsigned(valid(driver().modules, module, "module")->kernels.size()); });
}

EMULATED CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  return call(__func__, Needs::context, [&] {
    auto &variables = valid(driver().modules, module, "module")->variables;
    auto i = variables.find(name);
    if (i == variables.end())
      throw Error(Code::not_found, std::string("the module has no variable ") + name);
    if (address)
      *address = i->second.address;
    if (bytes)
      *bytes = i->second.bytes;
  });
}

EMULATED CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  return call(__func__, Needs::context, [&] {
    const Kernel &k = *valid(driver().kernels, function, "kernel");
    switch (attribute) {
    case 0:
      *value = int(k.max_threads);
      break;
    case 1:
      *value = int(k.shared_bytes);
      break;
    case 2:
      *value = 0;
      break; // constant memory
    case 3:
      *value = int(k.local_bytes);
      break;
    case 4:
      *value = int(std::min(k.registers, 255u));
      break; // an upper bound: PTX names a register for each value
    case 5:
      *value = k.module->version;
      break;
    case 6:
      *value = settings().sm;
      break;
    case 7:
      *value = 0;
      break;
    case 8:
      *value = int(k.max_dynamic_shared);
      break;
    case 9:
      *value = -1;
      break;
    default:
      throw Error(Code::invalid_value, "attribute " + std::to_string(attribute) + " of a kernel");
    }
  });
}

EMULATED CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  return call(__func__, Needs::context, [&] {
    Kernel &k = *valid(driver().kernels, function, "kernel");
    if (attribute == 8) {
      require(value >= 0 && u32(value) + k.shared_bytes <= shared_limit(), "more shared memory than a block can have");
      k.max_dynamic_shared = u32(value);
    } else
      require(attribute == 9, "this attribute of a kernel can't be set");
  });
}

EMULATED CUresult cuFuncSetCacheConfig(CUfunction function, int) {
  return call(__func__, Needs::context, [&] { valid(driver().kernels, function, "kernel"); });
}

EMULATED CUresult cuFuncGetName(const char **name, CUfunction function) {
  return call(__func__, Needs::context, [&] { *name = valid(driver().kernels, function, "kernel")->name.c_str(); });
}

EMULATED CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                              size_t dynamic) {
  return call(__func__, Needs::context, [&] {
    const Kernel &k = *valid(driver().kernels, function, "kernel");
    size_t shared = k.shared_bytes + dynamic + 1024, all = settings().sm >= 90 ? 233472 : 167936;
    *blocks = int(std::min<size_t>({32, 2048 / size_t((threads + 31) / 32 * 32), all / shared}));
  });
}

EMULATED CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra) {
  return call(__func__, Needs::context, [&] {
    submit(stream_of(stream), launch_node(function, {{gx, gy, gz}, {bx, by, bz}, shared}, parameters, extra));
  });
}

EMULATED CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **parameters, void **extra) {
  return call(__func__, Needs::context, [&] {
    for (unsigned i = 0; i < c->numAttrs; i++) {
      unsigned cluster[3];
      memcpy(cluster, c->attrs[i].value, sizeof cluster);
      if (c->attrs[i].id == 4 && cluster[0] * cluster[1] * cluster[2] != 1)
        throw Error(Code::not_supported, "the emulator has no clusters of blocks");
      if (c->attrs[i].id == 2 && cluster[0])
        throw Error(Code::not_supported, "the emulator has no cooperative launches");
    }
    LaunchShape shape{
        {c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes};
    submit(stream_of(c->hStream), launch_node(function, shape, parameters, extra));
  });
}
