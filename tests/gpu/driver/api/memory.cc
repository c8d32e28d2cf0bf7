// Driver calls that allocate, copy and fill memory.
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/api/driver.h"
#include "tests/gpu/driver/settings.h"

#include <cstdlib>
#include <cstring>

namespace ptx {

static bool is_pageable(const void *host) { return !device_memory().find(u64(host)); }

/// Both ends are checked when the call is made, as a driver does.
static void check(const CUDA_MEMCPY3D &r) {
  require(r.srcMemoryType == memory_host || r.srcMemoryType == memory_device,
          "the source is neither host nor device memory");
  require(r.dstMemoryType == memory_host || r.dstMemoryType == memory_device,
          "the target is neither host nor device memory");
  if (!r.WidthInBytes || !r.Height || !r.Depth)
    return;
  auto end = [&](size_t x, size_t y, size_t z, size_t pitch, size_t height) {
    return x + r.WidthInBytes + (y + r.Height - 1 + (z + r.Depth - 1) * height) * pitch;
  };
  if (r.srcMemoryType == memory_device)
    device_memory().reach(r.srcDevice, end(r.srcXInBytes, r.srcY, r.srcZ, r.srcPitch, r.srcHeight), false, "copy");
  if (r.dstMemoryType == memory_device) {
    u64 bytes = end(r.dstXInBytes, r.dstY, r.dstZ, r.dstPitch, r.dstHeight);
    const Allocation *a = device_memory().find(r.dstDevice);
    if (!a || !a->holds(r.dstDevice, bytes))
      throw Error(Code::invalid_value,
                  "copy to " + std::to_string(bytes) + " bytes at " + device_memory().describe(r.dstDevice));
  }
}

Node copy_node(const CUDA_MEMCPY3D &region) {
  Node node;
  node.type = Node::copy;
  CUDA_MEMCPY3D &r = node.region = region;
  auto resolve = [](CUmemorytype &type, const void *&host, CUdeviceptr &device) {
    if (type != memory_unified)
      return;
    bool on_device = device >= device_base;
    type = on_device ? memory_device : memory_host;
    host = reinterpret_cast<const void *>(device);
  };
  const void *to = r.dstHost;
  resolve(r.srcMemoryType, r.srcHost, r.srcDevice);
  resolve(r.dstMemoryType, to, r.dstDevice);
  r.dstHost = const_cast<void *>(to);
  check(r);
  return node;
}

Node copy_node(u64 to, bool to_device, u64 from, bool from_device, size_t bytes) {
  CUDA_MEMCPY3D r = {};
  r.srcMemoryType = from_device ? memory_device : memory_host;
  r.srcDevice = from, r.srcHost = reinterpret_cast<const void *>(from);
  r.dstMemoryType = to_device ? memory_device : memory_host;
  r.dstDevice = to, r.dstHost = reinterpret_cast<void *>(to);
  r.WidthInBytes = bytes, r.Height = bytes ? 1 : 0, r.Depth = 1;
  return copy_node(r);
}

Node fill_node(u64 to, unsigned value, unsigned element_bytes, size_t width, size_t height, size_t pitch) {
  Node node;
  node.type = Node::set;
  node.fill = {to, pitch, value, element_bytes, width, height};
  if (to % element_bytes)
    throw Error(Code::invalid_value, "memset at an address that is no multiple of the element");
  if (width && height) {
    const Allocation *a = device_memory().find(to);
    u64 bytes = (height - 1) * pitch + width * element_bytes;
    if (!a || !a->holds(to, bytes))
      throw Error(Code::invalid_value,
                  "memset of " + std::to_string(bytes) + " bytes at " + device_memory().describe(to));
  }
  return node;
}

/// A copy in a stream. Pageable memory of the host is read before the call returns.
static CUresult copy_async(const char *name, CUstream stream, const std::function<Node()> &make) {
  return call(name, Needs::context, [&] {
    Node node = make();
    const CUDA_MEMCPY3D &r = node.region;
    if (r.srcMemoryType == memory_host && r.Height && is_pageable(r.srcHost)) {
      size_t bytes =
          r.srcXInBytes + r.WidthInBytes + (r.srcY + r.Height - 1 + (r.srcZ + r.Depth - 1) * r.srcHeight) * r.srcPitch;
      auto *from = static_cast<const u8 *>(r.srcHost);
      node.staged.assign(from, from + bytes);
    }
    submit(stream_of(stream), std::move(node));
  });
}

/// A copy that has been made when the call returns.
static CUresult copy_now(const char *name, const std::function<Node()> &make) {
  return call(name, Needs::context, [&] {
    not_while_capturing(name);
    run_everything();
    execute(make());
  });
}

} // namespace ptx

using namespace ptx;

static u64 host(const void *p) { return reinterpret_cast<u64>(p); }

EMULATED CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  return call(__func__, Needs::context, [&] {
    require(pointer && bytes, "0 bytes");
    not_while_capturing("cuMemAlloc");
    *pointer = device_memory().allocate(bytes, "cuMemAlloc")->base;
  });
}

EMULATED CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned) {
  return call(__func__, Needs::context, [&] {
    require(width && height, "0 bytes");
    *pitch = (width + 511) / 512 * 512;
    *pointer = device_memory().allocate(*pitch * height, "cuMemAllocPitch")->base;
  });
}

EMULATED CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return call(__func__, Needs::context, [&] {
    not_while_capturing("cuMemFree");
    run_everything(); // what still uses it comes first
    if (!pointer)
      return;
    const Allocation *a = device_memory().find(pointer);
    require(!a || !a->on_host, "cuMemFree of pinned host memory");
    device_memory().release(pointer);
  });
}

EMULATED CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream) {
  return call(__func__, Needs::context, [&] {
    require(bytes, "0 bytes");
    *pointer = device_memory().allocate(bytes, "cuMemAllocAsync")->base;
  });
}
EMULATED CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool, CUstream stream) {
  return cuMemAllocAsync(pointer, bytes, stream);
}

EMULATED CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return call(__func__, Needs::context, [&] {
    Node node;
    node.free_later = pointer;
    submit(stream_of(stream), std::move(node));
  });
}

EMULATED CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice) {
  return call(__func__, Needs::initialised, [&] { *pool = &driver().pool; });
}
EMULATED CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void *) {
  return call(__func__, Needs::initialised, [] {});
}
EMULATED CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) {
  return call(__func__, Needs::initialised, [] {});
}

EMULATED CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  return call(__func__, Needs::context,
              [&] { *total = settings().memory, *free_bytes = settings().memory - device_memory().used(); });
}

EMULATED CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  return call(__func__, Needs::context, [&] {
    require(bytes, "0 bytes");
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!p)
      throw std::bad_alloc();
    device_memory().adopt_host(p, bytes);
    *pointer = p;
  });
}
EMULATED CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

EMULATED CUresult cuMemFreeHost(void *pointer) {
  return call(__func__, Needs::context, [&] {
    run_everything();
    const Allocation *a = device_memory().find(host(pointer));
    require(a && a->on_host && a->base == host(pointer), "cuMemFreeHost of memory that cuMemHostAlloc did not give");
    device_memory().release(host(pointer));
    free(pointer);
  });
}

EMULATED CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned) {
  return call(__func__, Needs::context, [&] {
    require(bytes, "0 bytes");
    if (device_memory().find(host(pointer)))
      throw Error(Code(712), "this memory is registered already");
    device_memory().adopt_host(pointer, bytes);
  });
}
EMULATED CUresult cuMemHostUnregister(void *pointer) {
  return call(__func__, Needs::context, [&] {
    run_everything();
    device_memory().release(host(pointer));
  });
}

EMULATED CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned) {
  return call(__func__, Needs::context, [&] {
    require(!is_pageable(pointer), "no pinned memory");
    *device = host(pointer);
  });
}

EMULATED CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer) {
  return call(__func__, Needs::context, [&] {
    const Allocation *a = device_memory().find(pointer);
    require(a, "no memory that the driver knows");
    switch (attribute) {
    case 1: {
      Context *context = current_context();
      memcpy(data, &context, sizeof context);
      break;
    }
    case 2: {
      unsigned type = a->on_host ? memory_host : memory_device;
      memcpy(data, &type, sizeof type);
      break;
    }
    case 3:
    case 4:
      memcpy(data, &pointer, sizeof pointer);
      break;
    case 8:
      memset(data, 0, 1);
      break; // managed?
    case 9:
      memset(data, 0, 4);
      break; // the device
    case 11:
      memcpy(data, &a->base, 8);
      break; // where its allocation begins
    case 12:
      memcpy(data, &a->bytes, 8);
      break; // and its size
    default:
      throw Error(Code::not_supported, "attribute " + std::to_string(attribute) + " of a pointer");
    }
  });
}

EMULATED CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
  return call(__func__, Needs::context, [&] {
    const Allocation *a = device_memory().find(pointer);
    if (!a)
      throw Error(Code::not_found, device_memory().describe(pointer));
    if (base)
      *base = a->base;
    if (bytes)
      *bytes = a->bytes;
  });
}

// --- copies
EMULATED CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy_now(__func__, [=] { return copy_node(to, true, host(from), false, bytes); });
}
EMULATED CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copy_now(__func__, [=] { return copy_node(host(to), false, from, true, bytes); });
}
EMULATED CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_now(__func__, [=] { return copy_node(to, true, from, true, bytes); });
}
EMULATED CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_now(__func__, [=] { return copy_node(to, to >= device_base, from, from >= device_base, bytes); });
}
EMULATED CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return copy_async(__func__, stream, [=] { return copy_node(to, true, host(from), false, bytes); });
}
EMULATED CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_async(__func__, stream, [=] { return copy_node(host(to), false, from, true, bytes); });
}
EMULATED CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_async(__func__, stream, [=] { return copy_node(to, true, from, true, bytes); });
}
EMULATED CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_async(__func__, stream,
                    [=] { return copy_node(to, to >= device_base, from, from >= device_base, bytes); });
}

static CUDA_MEMCPY3D in_3d(const CUDA_MEMCPY2D &c) {
  CUDA_MEMCPY3D r = {};
  r.srcXInBytes = c.srcXInBytes, r.srcY = c.srcY, r.srcMemoryType = c.srcMemoryType;
  r.srcHost = c.srcHost, r.srcDevice = c.srcDevice, r.srcPitch = c.srcPitch ? c.srcPitch : c.WidthInBytes;
  r.dstXInBytes = c.dstXInBytes, r.dstY = c.dstY, r.dstMemoryType = c.dstMemoryType;
  r.dstHost = c.dstHost, r.dstDevice = c.dstDevice, r.dstPitch = c.dstPitch ? c.dstPitch : c.WidthInBytes;
  r.WidthInBytes = c.WidthInBytes, r.Height = c.Height, r.Depth = 1;
  return r;
}

EMULATED CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) {
  return copy_now(__func__, [=] { return copy_node(in_3d(*c)); });
}
EMULATED CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c) { return cuMemcpy2D_v2(c); }
EMULATED CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream) {
  return copy_async(__func__, stream, [=] { return copy_node(in_3d(*c)); });
}
EMULATED CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c) {
  return copy_now(__func__, [=] { return copy_node(*c); });
}
EMULATED CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream) {
  return copy_async(__func__, stream, [=] { return copy_node(*c); });
}

// --- filling
static CUresult fill(const char *name, CUstream stream, bool now, CUdeviceptr to, unsigned value, unsigned bytes,
                     size_t n, size_t height = 1, size_t pitch = 0) {
  return call(name, Needs::context, [&] {
    if (now)
      not_while_capturing(name);
    Node node = fill_node(to, value, bytes, n, height, pitch);
    submit(now ? nullptr : stream_of(stream), std::move(node));
  });
}

EMULATED CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n) {
  return fill(__func__, nullptr, true, to, v, 1, n);
}
EMULATED CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n) {
  return fill(__func__, nullptr, true, to, v, 2, n);
}
EMULATED CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n) {
  return fill(__func__, nullptr, true, to, v, 4, n);
}
EMULATED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
  return fill(__func__, s, false, to, v, 1, n);
}
EMULATED CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s) {
  return fill(__func__, s, false, to, v, 2, n);
}
EMULATED CUresult cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) {
  return fill(__func__, s, false, to, v, 4, n);
}
EMULATED CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h) {
  return fill(__func__, nullptr, true, to, v, 1, w, h, pitch);
}
EMULATED CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned v, size_t w, size_t h) {
  return fill(__func__, nullptr, true, to, v, 4, w, h, pitch);
}
