// The frame of each driver call (driver.h), and what concerns the device and its contexts.
#include "tests/gpu/driver/api/driver.h"
#include "tests/gpu/driver/settings.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace ptx {

Driver &driver() {
  static Driver &d = *[] { // never destroyed: programs free device memory in destructors
    auto *made = new Driver;
    made->fail_in = settings().fail_at;
    made->fail_code = settings().fail_code;
    if (settings().report)
      atexit([] {
        std::map<std::string, Totals> all = driver().retired;
        for (Kernel *k : driver().kernels)
          all[k->name] += totals(*k);
        for (auto &[name, t] : all)
          fputs(report(name, t).c_str(), stderr);
      });
    return made;
  }();
  return d;
}

namespace {

/// Trivially destructible, because destructors of the program may come after those of thread_locals.
struct ContextStack {
  Context *contexts[64];
  int depth;
};
thread_local ContextStack stack;

} // namespace

Context *current_context() { return stack.depth ? stack.contexts[stack.depth - 1] : nullptr; }

void require(bool holds, const char *what) {
  if (!holds)
    throw Error(Code::invalid_value, what);
}

CUresult call(const char *name, Needs needs, const std::function<void()> &body) {
  Driver &d = driver();
  std::lock_guard lock(d.mutex);
  d.calls++;
  auto failed = [&](Code code, const std::string &text) {
    d.message = std::string(name) + ": " + text;
    if (settings().log)
      fprintf(stderr, "[emulated cuda] %llu %s -> %d %s\n", (unsigned long long)d.calls, name, int(code), text.c_str());
    return CUresult(code);
  };
  auto is_fault = [](Code code) { return code >= Code::illegal_address && code <= Code::launch_failed; };
  if (d.fail_in && !--d.fail_in) {
    if (is_fault(Code(d.fail_code)))
      d.sticky = Code(d.fail_code);
    return failed(Code(d.fail_code), "made to fail by a test");
  }
  if (needs != Needs::nothing && !d.initialised)
    return failed(Code::not_initialized, "cuInit was not called");
  if (needs == Needs::context && !current_context())
    return failed(Code::invalid_context, "no context is current");
  if (needs == Needs::context && d.sticky != Code::success)
    return CUresult(d.sticky);
  try {
    body();
    if (settings().log)
      fprintf(stderr, "[emulated cuda] %llu %s\n", (unsigned long long)d.calls, name);
    return 0;
  } catch (const Error &error) {
    if (is_fault(error.code)) {
      d.sticky = error.code;
      fprintf(stderr, "emulated GPU: %s\n", error.what());
    }
    return failed(error.code, error.what());
  } catch (const std::bad_alloc &) {
    return failed(Code::out_of_memory, "the host has no memory left");
  } catch (const std::exception &error) {
    return failed(Code::unknown, error.what());
  }
}

void abandon_work() {
  Driver &d = driver();
  for (Stream *s : d.streams)
    s->work.clear();
  d.per_thread.work.clear();
  d.sticky = Code::success;
}

} // namespace ptx

using namespace ptx;

EMULATED CUresult cuInit(unsigned) {
  return call(__func__, Needs::nothing, [] {
    if (!settings().devices)
      throw Error(Code::no_device, "no CUDA device is there");
    driver().initialised = true;
  });
}

EMULATED CUresult cuDriverGetVersion(int *version) {
  return call(__func__, Needs::nothing, [&] { *version = settings().version; });
}

EMULATED CUresult cuDeviceGetCount(int *count) {
  return call(__func__, Needs::initialised, [&] { *count = settings().devices; });
}

static void check_device(CUdevice device) {
  if (device != 0)
    throw Error(Code::invalid_device, "there is one device, number 0");
}

EMULATED CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return call(__func__, Needs::initialised, [&] {
    check_device(ordinal);
    *device = 0;
  });
}

EMULATED CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return call(__func__, Needs::initialised, [&] {
    check_device(device);
    snprintf(name, size_t(length), "Emulated GPU sm_%d", settings().sm);
  });
}

EMULATED CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return call(__func__, Needs::initialised, [&] { memcpy(uuid->bytes, "heddle emulated!", 16); });
}
EMULATED CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

EMULATED CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return call(__func__, Needs::initialised, [&] {
    check_device(device);
    *bytes = settings().memory;
  });
}

EMULATED CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  return call(__func__, Needs::initialised, [&] { *major = settings().sm / 10, *minor = settings().sm % 10; });
}

EMULATED CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  return call(__func__, Needs::initialised, [&] {
    check_device(device);
    bool hopper = settings().sm >= 90;
    static const std::map<int, std::pair<int, int>> attributes = {
        // of an A100 and of an H100
        {1, {1024, 1024}}, // threads per block
        {2, {1024, 1024}},
        {3, {1024, 1024}},
        {4, {64, 64}}, // block x, y, z
        {5, {2147483647, 2147483647}},
        {6, {65535, 65535}},
        {7, {65535, 65535}},            // grid x, y, z
        {8, {49152, 49152}},            // shared memory per block
        {9, {65536, 65536}},            // constant memory
        {10, {32, 32}},                 // warp
        {11, {2147483647, 2147483647}}, // pitch
        {12, {65536, 65536}},           // registers per block
        {13, {1410000, 1980000}},       // clock in kHz
        {14, {512, 512}},               // alignment of textures
        {15, {1, 1}},                   // copies overlap with kernels
        {16, {108, 132}},               // multiprocessors
        {17, {0, 0}},
        {18, {0, 0}}, // time limit, integrated
        {19, {1, 1}},
        {20, {0, 0}}, // pinned memory is mapped; compute mode
        {31, {1, 1}},
        {32, {0, 0}},
        {35, {0, 0}},               // concurrent kernels, ECC, TCC
        {36, {1215000, 2619000}},   // clock of the memory in kHz
        {37, {5120, 5120}},         // its bus in bits
        {38, {41943040, 52428800}}, // L2
        {39, {2048, 2048}},         // threads per multiprocessor
        {40, {3, 3}},
        {41, {1, 1}}, // copy engines, unified addressing
        {75, {8, 9}},
        {76, {0, 0}}, // compute capability
        {78, {1, 1}}, // stream priorities
        {81, {167936, 233472}},
        {82, {65536, 65536}}, // per multiprocessor: shared memory, registers
        {83, {0, 0}},
        {89, {0, 0}}, // managed memory
        {90, {0, 0}},
        {91, {0, 0}},
        {95, {0, 0}},           // cooperative launch
        {97, {166912, 232448}}, // shared memory per block, opt-in
        {106, {32, 32}},        // blocks per multiprocessor
        {111, {1024, 1024}},    // shared memory that the system takes of each block
        {115, {1, 1}},          // memory pools
        {120, {0, 0}},          // cluster launch
    };
    auto found = attributes.find(attribute);
    *value = found == attributes.end() ? 0 : hopper ? found->second.second : found->second.first;
    if (attribute == 75)
      *value = settings().sm / 10;
    if (attribute == 76)
      *value = settings().sm % 10;
  });
}

// --- contexts
static void push(Context *c) {
  if (stack.depth == 64)
    throw Error(Code::invalid_value, "too many contexts are pushed");
  stack.contexts[stack.depth++] = c;
}

EMULATED CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  return call(__func__, Needs::initialised, [&] {
    check_device(device);
    auto *c = new Context{int(flags)};
    driver().contexts.insert(c);
    push(c);
    *context = c;
  });
}

EMULATED CUresult cuCtxDestroy_v2(CUcontext context) {
  return call(__func__, Needs::initialised, [&] {
    valid(driver().contexts, context, "context");
    driver().contexts.erase(context);
    if (current_context() == context)
      stack.depth--;
    delete context;
    abandon_work();
  });
}

EMULATED CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return call(__func__, Needs::initialised, [&] {
    check_device(device);
    driver().primary_uses++;
    *context = &driver().primary;
  });
}

EMULATED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return call(__func__, Needs::initialised, [&] {
    check_device(device);
    if (!driver().primary_uses)
      throw Error(Code::invalid_context, "the primary context is released more often than retained");
    if (!--driver().primary_uses)
      abandon_work();
  });
}

EMULATED CUresult cuDevicePrimaryCtxReset_v2(CUdevice) {
  return call(__func__, Needs::initialised, [] { abandon_work(); });
}

EMULATED CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) {
  return call(__func__, Needs::initialised, [] {});
}

EMULATED CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *flags, int *active) {
  return call(__func__, Needs::initialised, [&] { *flags = 0, *active = driver().primary_uses > 0; });
}

EMULATED CUresult cuCtxSetCurrent(CUcontext context) {
  return call(__func__, Needs::initialised, [&] {
    if (!context)
      stack.depth -= stack.depth > 0;
    else if (stack.depth)
      stack.contexts[stack.depth - 1] = context;
    else
      push(context);
  });
}

EMULATED CUresult cuCtxGetCurrent(CUcontext *context) {
  return call(__func__, Needs::initialised, [&] { *context = current_context(); });
}

EMULATED CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return call(__func__, Needs::initialised, [&] {
    require(context, "no context");
    push(context);
  });
}

EMULATED CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  return call(__func__, Needs::initialised, [&] {
    if (!stack.depth)
      throw Error(Code::invalid_context, "no context is current");
    if (context)
      *context = current_context();
    stack.depth--;
  });
}

EMULATED CUresult cuCtxGetDevice(CUdevice *device) {
  return call(__func__, Needs::context, [&] { *device = 0; });
}

EMULATED CUresult cuCtxGetApiVersion(CUcontext, unsigned *version) {
  return call(__func__, Needs::initialised, [&] { *version = 3020; });
}

EMULATED CUresult cuCtxGetFlags(unsigned *flags) {
  return call(__func__, Needs::context, [&] { *flags = 0; });
}

EMULATED CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return call(__func__, Needs::context, [&] {
    if (least)
      *least = 0;
    if (greatest)
      *greatest = -5;
  });
}

EMULATED CUresult cuCtxSetLimit(int, size_t) {
  return call(__func__, Needs::context, [] {});
}

EMULATED CUresult cuCtxSynchronize() {
  return call(__func__, Needs::context, [] {
    not_while_capturing("cuCtxSynchronize");
    run_everything();
  });
}

EMULATED CUresult cuProfilerStart() {
  return call(__func__, Needs::initialised, [] {});
}
EMULATED CUresult cuProfilerStop() {
  return call(__func__, Needs::initialised, [] {});
}

// --- errors by name
static const std::map<int, std::pair<const char *, const char *>> &error_names() {
  static const auto &names = *new std::map<int, std::pair<const char *, const char *>>{
      {0, {"CUDA_SUCCESS", "no error"}},
      {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
      {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
      {4, {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"}},
      {34, {"CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"}},
      {46, {"CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"}},
      {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
      {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
      {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
      {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
      {209, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
      {214, {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"}},
      {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
      {222, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
      {300, {"CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"}},
      {301, {"CUDA_ERROR_FILE_NOT_FOUND", "file not found"}},
      {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
      {401, {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"}},
      {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
      {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
      {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
      {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
      {702, {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"}},
      {715, {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"}},
      {716, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
      {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
      {800, {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"}},
      {801, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
      {900, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
      {901, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
      {903, {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not ended in the same stream as it began"}},
      {904, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}},
      {910,
       {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which "
                                                "violated constraints specific to instantiated graph update"}},
      {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
  };
  return names;
}

EMULATED CUresult cuGetErrorName(CUresult code, const char **name) {
  auto i = error_names().find(code);
  *name = i == error_names().end() ? nullptr : i->second.first;
  return *name ? 0 : 1;
}

EMULATED CUresult cuGetErrorString(CUresult code, const char **text) {
  auto i = error_names().find(code);
  *text = i == error_names().end() ? nullptr : i->second.second;
  return *text ? 0 : 1;
}

/// Names without their version mean the newest one that the library has.
EMULATED CUresult cuGetProcAddress_v2(const char *name, void **function, int, u64, int *status) {
  return call(__func__, Needs::nothing, [&] {
    Dl_info self;
    dladdr(reinterpret_cast<void *>(&cuInit), &self);
    void *library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *function = nullptr;
    for (const char *version : {"_v3", "_v2", ""})
      if (library && !*function)
        *function = dlsym(library, (std::string(name) + version).c_str());
    if (library)
      dlclose(library);
    if (status)
      *status = *function ? 0 : 1;
    if (!*function)
      throw Error(Code::not_found, std::string("no driver function ") + name);
  });
}

EMULATED CUresult cuGetProcAddress(const char *name, void **function, int version, u64 flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
