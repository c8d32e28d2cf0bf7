// The CUDA driver's interface as far as the emulator has it: types, layouts and numbers are NVIDIA's (cuda.h of CUDA
// 12.8), names are ours where nobody sees them.
#pragma once

#include "tests/gpu/driver/types.h"

#define EMULATED extern "C" __attribute__((visibility("default")))

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;

namespace ptx {
struct Stream;
struct Event;
struct Graph;
struct GraphExec;
struct Node;
struct Module;
struct Kernel;
struct Context;
struct MemoryPool;
} // namespace ptx
using CUstream = ptx::Stream *;
using CUevent = ptx::Event *;
using CUgraph = ptx::Graph *;
using CUgraphExec = ptx::GraphExec *;
using CUgraphNode = ptx::Node *;
using CUmodule = ptx::Module *;
using CUfunction = ptx::Kernel *;
using CUcontext = ptx::Context *;
using CUmemoryPool = ptx::MemoryPool *;
using CUhostFn = void (*)(void *);

struct CUuuid {
  char bytes[16];
};

enum CUmemorytype : unsigned { memory_host = 1, memory_device = 2, memory_array = 3, memory_unified = 4 };

struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};

struct CUDA_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray, *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray, *reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};

struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
  void *kern;
  CUcontext ctx;
};

struct CUDA_KERNEL_NODE_PARAMS_v1 { // up to CUDA 11
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
};

struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
};

struct CUDA_HOST_NODE_PARAMS {
  CUhostFn fn;
  void *userData;
};

struct CUlaunchAttribute {
  int id;
  char pad[4];
  char value[64];
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode errorNode, errorFromNode;
};
