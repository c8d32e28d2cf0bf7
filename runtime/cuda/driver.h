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
typedef struct cu_event_of *cu_event;
typedef struct cu_graph_of *cu_graph;
typedef struct cu_node_of *cu_node;
typedef struct cu_exec_of *cu_exec; // CUgraphExec

enum {
  CU_OUT_OF_MEMORY = 2,
  CU_NO_DEVICE = 100,
  CU_CAPABILITY_MAJOR = 75, // device attributes
  CU_CAPABILITY_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_NO_TIMING = 2,
  CU_MEMORY_DEVICE = 2, // CUmemorytype
  CU_JIT_ERROR_LOG = 5, // options of cuModuleLoadDataEx
  CU_JIT_ERROR_LOG_BYTES = 6,
  CU_PARAMETERS = 1, // what follows in `extra` of a launch: CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE
  CU_PARAMETER_BYTES = 2
};

typedef struct cu_copy_3d { // CUDA_MEMCPY3D
  size_t from_x, from_y, from_z, from_level;
  unsigned from_kind;
  const void *from_host;
  cu_address from;
  void *from_array, *from_reserved;
  size_t from_pitch, from_height;
  size_t to_x, to_y, to_z, to_level;
  unsigned to_kind;
  void *to_host;
  cu_address to;
  void *to_array, *to_reserved;
  size_t to_pitch, to_height;
  size_t bytes, rows, depth;
} cu_copy_3d;

typedef struct cu_kernel_node { // CUDA_KERNEL_NODE_PARAMS_v1
  cu_function function;
  unsigned blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z, shared_bytes;
  void **arguments, **extra;
} cu_kernel_node;

typedef struct cu_fill_node { // CUDA_MEMSET_NODE_PARAMS
  cu_address to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t count, rows;
} cu_fill_node;

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
  X(fill_8, "cuMemsetD8Async", (cu_address to, unsigned char value, size_t count, cu_stream stream))                   \
  X(fill_16, "cuMemsetD16Async", (cu_address to, unsigned short value, size_t count, cu_stream stream))                \
  X(fill_32, "cuMemsetD32Async", (cu_address to, unsigned value, size_t count, cu_stream stream))                      \
  X(stream_create, "cuStreamCreate", (cu_stream * stream, unsigned flags))                                             \
  X(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                                          \
  X(stream_wait, "cuStreamSynchronize", (cu_stream stream))                                                            \
  X(event_create, "cuEventCreate", (cu_event * event, unsigned flags))                                                 \
  X(event_destroy, "cuEventDestroy_v2", (cu_event event))                                                              \
  X(event_record, "cuEventRecord", (cu_event event, cu_stream stream))                                                 \
  X(event_wait, "cuEventSynchronize", (cu_event event))                                                                \
  X(pinned_get, "cuMemHostAlloc", (void **data, size_t bytes, unsigned flags))                                         \
  X(pinned_free, "cuMemFreeHost", (void *data))                                                                        \
  X(launch, "cuLaunchKernel",                                                                                          \
    (cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,                \
     unsigned threads_y, unsigned threads_z, unsigned shared_bytes, cu_stream stream, void **arguments, void **extra)) \
  X(graph_create, "cuGraphCreate", (cu_graph * graph, unsigned flags))                                                 \
  X(graph_destroy, "cuGraphDestroy", (cu_graph graph))                                                                 \
  X(graph_kernel, "cuGraphAddKernelNode",                                                                              \
    (cu_node * node, cu_graph graph, const cu_node *after, size_t n, const cu_kernel_node *kernel))                    \
  X(graph_copy, "cuGraphAddMemcpyNode",                                                                                \
    (cu_node * node, cu_graph graph, const cu_node *after, size_t n, const cu_copy_3d *copy, cu_context context))      \
  X(graph_fill, "cuGraphAddMemsetNode",                                                                                \
    (cu_node * node, cu_graph graph, const cu_node *after, size_t n, const cu_fill_node *fill, cu_context context))    \
  X(exec_create, "cuGraphInstantiate_v2",                                                                              \
    (cu_exec * exec, cu_graph graph, cu_node * error_node, char *log, size_t log_bytes))                               \
  X(exec_destroy, "cuGraphExecDestroy", (cu_exec exec))                                                                \
  X(exec_kernel, "cuGraphExecKernelNodeSetParams", (cu_exec exec, cu_node node, const cu_kernel_node *kernel))         \
  X(exec_copy, "cuGraphExecMemcpyNodeSetParams",                                                                       \
    (cu_exec exec, cu_node node, const cu_copy_3d *copy, cu_context context))                                          \
  X(exec_fill, "cuGraphExecMemsetNodeSetParams",                                                                       \
    (cu_exec exec, cu_node node, const cu_fill_node *fill, cu_context context))                                        \
  X(exec_launch, "cuGraphLaunch", (cu_exec exec, cu_stream stream))

typedef struct cu_driver {
  void *library;
#define RT_CUDA_MEMBER(name, symbol, parameters) cu_result(*name) parameters;
  RT_CUDA_FUNCTIONS(RT_CUDA_MEMBER)
#undef RT_CUDA_MEMBER
} cu_driver;

// Opens the driver that $HEDDLE_CUDA_DRIVER names, else libcuda.so.1, and finds a device that runs the model; `name` is
// the model's, in messages; *capability: the device's, ten times. Whoever gets HEDDLE_OK calls cu_driver_close.
heddle_status cu_driver_open(cu_driver *driver, const heddle_model_desc *model, cu_device *device, int *capability);
void cu_driver_close(cu_driver *driver);

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)": what the driver says of an error.
void cu_describe(const cu_driver *driver, cu_result error, rt_text *text);

#endif
