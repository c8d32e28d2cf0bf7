// NVIDIA's driver as this runtime uses it: its functions by name, opened at run time, so that nothing of CUDA is needed
// to build or to link. Types and numbers are those of cuda.h.
#ifndef HEDDLE_RUNTIME_CUDA_DRIVER_H
#define HEDDLE_RUNTIME_CUDA_DRIVER_H

#include "runtime/runtime.h"

typedef int cu_result; // CUresult; 0: success
typedef int cu_device;
typedef uint64_t cu_address; // CUdeviceptr
typedef struct cu_context_of *cu_context;
typedef struct cu_module_of *cu_module;
typedef struct cu_function_of *cu_function;
typedef struct cu_stream_of *cu_stream;

enum {
  CU_OUT_OF_MEMORY = 2,
  CU_NO_DEVICE = 100,
  CU_CAPABILITY_MAJOR = 75, // device attributes
  CU_CAPABILITY_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_MEMORY_DEVICE = 2, // CUmemorytype
  CU_JIT_ERROR_LOG = 5, // options of cuModuleLoadDataEx
  CU_JIT_ERROR_LOG_BYTES = 6
};

typedef struct cu_copy_2d { // CUDA_MEMCPY2D
  size_t from_x, from_y;
  unsigned from_kind;
  const void *from_host;
  cu_address from;
  void *from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  unsigned to_kind;
  void *to_host;
  cu_address to;
  void *to_array;
  size_t to_pitch;
  size_t bytes, rows;
} cu_copy_2d;

// X(name, its symbol, its parameters)
#define RT_CUDA_FUNCTIONS(X)                                                                                           \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(version, "cuDriverGetVersion", (int *version))                                                                     \
  X(error_text, "cuGetErrorString", (cu_result error, const char **text))                                              \
  X(error_name, "cuGetErrorName", (cu_result error, const char **name))                                                \
  X(device_count, "cuDeviceGetCount", (int *count))                                                                    \
  X(device_get, "cuDeviceGet", (cu_device * device, int ordinal))                                                      \
  X(device_name, "cuDeviceGetName", (char *name, int bytes, cu_device device))                                         \
  X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, cu_device device))                           \
  X(context_retain, "cuDevicePrimaryCtxRetain", (cu_context * context, cu_device device))                              \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (cu_device device))                                               \
  X(context_push, "cuCtxPushCurrent_v2", (cu_context context))                                                         \
  X(context_pop, "cuCtxPopCurrent_v2", (cu_context * context))                                                         \
  X(module_load, "cuModuleLoadDataEx",                                                                                 \
    (cu_module * module, const void *image, unsigned count, int *options, void **values))                              \
  X(module_unload, "cuModuleUnload", (cu_module module))                                                               \
  X(module_function, "cuModuleGetFunction", (cu_function * function, cu_module module, const char *name))              \
  X(memory_get, "cuMemAlloc_v2", (cu_address * address, size_t bytes))                                                 \
  X(memory_free, "cuMemFree_v2", (cu_address address))                                                                 \
  X(write, "cuMemcpyHtoDAsync_v2", (cu_address to, const void *from, size_t bytes, cu_stream stream))                  \
  X(read, "cuMemcpyDtoHAsync_v2", (void *to, cu_address from, size_t bytes, cu_stream stream))                         \
  X(copy, "cuMemcpyDtoDAsync_v2", (cu_address to, cu_address from, size_t bytes, cu_stream stream))                    \
  X(copy_2d, "cuMemcpy2DAsync_v2", (const cu_copy_2d *copy, cu_stream stream))                                         \
  X(fill_8, "cuMemsetD8Async", (cu_address to, unsigned char value, size_t count, cu_stream stream))                   \
  X(fill_16, "cuMemsetD16Async", (cu_address to, unsigned short value, size_t count, cu_stream stream))                \
  X(fill_32, "cuMemsetD32Async", (cu_address to, unsigned value, size_t count, cu_stream stream))                      \
  X(stream_create, "cuStreamCreate", (cu_stream * stream, unsigned flags))                                             \
  X(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                                          \
  X(stream_wait, "cuStreamSynchronize", (cu_stream stream))                                                            \
  X(launch, "cuLaunchKernel",                                                                                          \
    (cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,                \
     unsigned threads_y, unsigned threads_z, unsigned shared_bytes, cu_stream stream, void **arguments, void **extra))

typedef struct cu_driver {
  void *library;
#define RT_CUDA_MEMBER(name, symbol, parameters) cu_result(*name) parameters;
  RT_CUDA_FUNCTIONS(RT_CUDA_MEMBER)
#undef RT_CUDA_MEMBER
} cu_driver;

// Opens the driver that $HEDDLE_CUDA_DRIVER names, else libcuda.so.1, and finds a device that runs the model; `name` is
// the model's, in messages. Whoever gets HEDDLE_OK calls cu_driver_close.
heddle_status cu_driver_open(cu_driver *driver, const heddle_model_desc *model, cu_device *device);
void cu_driver_close(cu_driver *driver);

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)": what the driver says of an error.
void cu_describe(const cu_driver *driver, cu_result error, rt_text *text);

#endif
