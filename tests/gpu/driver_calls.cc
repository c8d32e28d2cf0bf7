// The driver's interface beyond launches: device, contexts, memory, streams, events, graphs, errors, failures on
// demand.
#include "tests/gpu/kernel.h"

#include <dlfcn.h>

#include <cstring>

namespace gpu_test {
namespace {

/// A driver function by its name, as a program without CUDA's headers calls it.
template <class... A> CUresult cu(const char *name, A... arguments) {
  static void *library = dlopen(HEDDLE_EMULATED_DRIVER, RTLD_NOW);
  void *f = dlsym(library, name);
  EXPECT_TRUE(f) << name;
  return f ? reinterpret_cast<CUresult (*)(A...)>(f)(arguments...) : -1;
}

/// Each test leaves nothing behind.
struct DriverCalls : Gpu {
  void SetUp() override {
    Gpu::SetUp();
    heddle_emulator_get_usage(&before);
  }
  void TearDown() override {
    Gpu::TearDown();
    heddle_emulator_usage after;
    heddle_emulator_get_usage(&after);
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.bytes, before.bytes);
    EXPECT_EQ(after.pinned, before.pinned);
    EXPECT_EQ(after.modules, before.modules);
    EXPECT_EQ(after.streams, before.streams);
    EXPECT_EQ(after.events, before.events);
    EXPECT_EQ(after.graphs, before.graphs);
  }

  heddle_emulator_usage before;
};

/// out[i] += value
std::string add_text() {
  return module_text(
      ".visible .entry add(.param .u64 out, .param .u32 value)\n{\n.reg .b64 %d<3>; .reg .b32 %r<4>;\n"
      "ld.param.u64 %d0, [out]; ld.param.u32 %r0, [value]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4;\n"
      "add.u64 %d1, %d1, %d0; ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r0; st.global.u32 [%d1], %r2; ret;\n}\n");
}

CUresult launch_add(CUfunction f, CUdeviceptr out, uint32_t value, CUstream stream) {
  void *parameters[] = {&out, &value};
  return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
}

TEST_F(DriverCalls, tell_about_the_device) {
  int version = 0, major = 0, minor = 0, shared = 0, count = 0;
  EXPECT_EQ(cu("cuDriverGetVersion", &version), 0);
  EXPECT_GE(version, 12080);
  EXPECT_EQ(cu("cuDeviceGetCount", &count), 0);
  EXPECT_EQ(count, 1);
  for (auto [sm, bytes] : {std::pair{80, 166912}, {90, 232448}}) {
    heddle_emulator_set("sm", uint64_t(sm));
    EXPECT_EQ(cu("cuDeviceGetAttribute", &major, 75, 0), 0);
    EXPECT_EQ(cu("cuDeviceGetAttribute", &minor, 76, 0), 0);
    EXPECT_EQ(cu("cuDeviceGetAttribute", &shared, 97, 0), 0);
    EXPECT_EQ(major * 10 + minor, sm);
    EXPECT_EQ(shared, bytes);
  }
  heddle_emulator_set("sm", 80);
  char name[64];
  EXPECT_EQ(cu("cuDeviceGetName", +name, 64, 0), 0);
  EXPECT_STREQ(name, "Emulated GPU sm_80");
  int device = 0;
  EXPECT_EQ(cu("cuDeviceGet", &device, 1), 101);
  const char *text = nullptr;
  EXPECT_EQ(cu("cuGetErrorString", 700, &text), 0);
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  EXPECT_EQ(cu("cuGetErrorName", 2, &text), 0);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(cu("cuGetErrorName", 12345, &text), 1);
  void *function = nullptr;
  EXPECT_EQ(cu("cuGetProcAddress_v2", "cuMemAlloc", &function, 12000, uint64_t(0), (int *)nullptr), 0);
  EXPECT_EQ(function, reinterpret_cast<void *>(&cuMemAlloc_v2));
  EXPECT_EQ(cu("cuGetProcAddress_v2", "cuNothing", &function, 12000, uint64_t(0), (int *)nullptr), 500);
}

TEST_F(DriverCalls, allocate_and_free) {
  CUdeviceptr p = 0;
  EXPECT_EQ(cuMemAlloc_v2(&p, 0), 1);
  heddle_emulator_set("memory", before.bytes + (1 << 20)); // other tests in this process may have left some
  EXPECT_EQ(cuMemAlloc_v2(&p, (1 << 20) + 1), 2);
  EXPECT_NE(std::string(heddle_emulator_message()).find("1048577 bytes are not to be had"), std::string::npos);
  EXPECT_EQ(cuMemAlloc_v2(&p, 1 << 20), 0);
  size_t free_bytes = 1, total = 0;
  EXPECT_EQ(cu("cuMemGetInfo_v2", &free_bytes, &total), 0);
  EXPECT_EQ(free_bytes, 0u);
  EXPECT_EQ(total, before.bytes + (1u << 20));
  EXPECT_EQ(cuMemFree_v2(p), 0);
  heddle_emulator_set("memory", 8ull << 30);
  EXPECT_EQ(cuMemFree_v2(p), 1);
  EXPECT_NE(std::string(heddle_emulator_message()).find("freed cuMemAlloc"), std::string::npos);
  EXPECT_EQ(cuMemFree_v2(p + 4), 1);
  EXPECT_EQ(cuMemFree_v2(0), 0);
}

TEST_F(DriverCalls, copy_and_fill) {
  Buffer<uint32_t> a(16), b(16);
  uint32_t words[16];
  EXPECT_EQ(cu("cuMemsetD32_v2", a.address, 7u, size_t(16)), 0);
  EXPECT_EQ(cu("cuMemsetD8_v2", a.address + 4, (unsigned char)(1), size_t(4)), 0);
  EXPECT_EQ(cu("cuMemsetD16_v2", a.address + 8, (unsigned short)(2), size_t(2)), 0);
  EXPECT_EQ(cu("cuMemcpyDtoD_v2", b.address, a.address, size_t(64)), 0);
  EXPECT_EQ(cuMemcpyDtoH_v2(words, b.address, 64), 0);
  EXPECT_EQ(words[0], 7u);
  EXPECT_EQ(words[1], 0x01010101u);
  EXPECT_EQ(words[2], 0x00020002u);
  EXPECT_EQ(cuMemcpyDtoH_v2(words, b.address, 65), 1);
  EXPECT_NE(std::string(heddle_emulator_message()).find("65 bytes at"), std::string::npos);
  // A part of an array of two dims, 2 x 3 words out of rows of 4 into rows of 5.
  CUDA_MEMCPY2D part = {};
  uint32_t from[16], to[20] = {};
  for (uint32_t i = 0; i < 16; i++)
    from[i] = i;
  ASSERT_EQ(cuMemcpyHtoD_v2(a.address, from, 64), 0);
  part.srcMemoryType = memory_device, part.srcDevice = a.address, part.srcPitch = 16, part.srcXInBytes = 4,
  part.srcY = 1;
  part.dstMemoryType = memory_host, part.dstHost = to, part.dstPitch = 20, part.dstXInBytes = 8;
  part.WidthInBytes = 12, part.Height = 2;
  EXPECT_EQ(cu("cuMemcpy2D_v2", &part), 0);
  EXPECT_EQ((std::vector<uint32_t>(to, to + 10)), (std::vector<uint32_t>{0, 0, 5, 6, 7, 0, 0, 9, 10, 11}));
}

TEST_F(DriverCalls, pin_memory_that_kernels_reach) {
  Program program(add_text());
  void *pinned = nullptr;
  ASSERT_EQ(cu("cuMemHostAlloc", &pinned, size_t(128), 0u), 0);
  memset(pinned, 0, 128);
  CUdeviceptr device = 0;
  EXPECT_EQ(cu("cuMemHostGetDevicePointer_v2", &device, pinned, 0u), 0);
  ASSERT_EQ(launch_add(program.kernel("add"), device, 5, nullptr), 0);
  EXPECT_EQ(cuCtxSynchronize(), 0) << heddle_emulator_message();
  EXPECT_EQ(static_cast<uint32_t *>(pinned)[31], 5u);
  unsigned type = 0;
  EXPECT_EQ(cu("cuPointerGetAttribute", (void *)&type, 2, device), 0);
  EXPECT_EQ(type, 1u);
  EXPECT_EQ(cu("cuMemFreeHost", pinned), 0);
  EXPECT_EQ(cu("cuMemFreeHost", pinned), 1);
  std::vector<uint32_t> mine(32);
  EXPECT_EQ(cu("cuMemHostRegister_v2", (void *)mine.data(), size_t(128), 0u), 0);
  ASSERT_EQ(launch_add(program.kernel("add"), CUdeviceptr(mine.data()), 6, nullptr), 0);
  EXPECT_EQ(cuCtxSynchronize(), 0) << heddle_emulator_message();
  EXPECT_EQ(mine[0], 6u);
  EXPECT_EQ(cu("cuMemHostUnregister", (void *)mine.data()), 0);
}

/// Work in a stream is done when it is waited for, not before: who forgets to wait sees old values.
TEST_F(DriverCalls, put_work_off_until_it_is_waited_for) {
  Program program(add_text());
  CUfunction add = program.kernel("add");
  CUstream stream = nullptr;
  ASSERT_EQ(cu("cuStreamCreate", &stream, 1u), 0);
  void *memory = nullptr;
  ASSERT_EQ(cu("cuMemHostAlloc", &memory, size_t(128), 0u), 0);
  auto *pinned = static_cast<uint32_t *>(memory);
  memset(pinned, 0, 128);
  {
    Buffer<uint32_t> a(32);
    EXPECT_EQ(cu("cuMemcpyHtoDAsync_v2", a.address, (const void *)pinned, size_t(128), stream), 0);
    EXPECT_EQ(launch_add(add, a.address, 1, stream), 0);
    EXPECT_EQ(cu("cuMemcpyDtoHAsync_v2", (void *)pinned, a.address, size_t(128), stream), 0);
    EXPECT_EQ(pinned[3], 0u);
    EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
    EXPECT_EQ(pinned[3], 1u);
    // Asking again and again sees it end.
    EXPECT_EQ(launch_add(add, a.address, 1, stream), 0);
    EXPECT_EQ(cu("cuMemcpyDtoHAsync_v2", (void *)pinned, a.address, size_t(128), stream), 0);
    EXPECT_EQ(cu("cuStreamQuery", stream), 600);
    EXPECT_EQ(cu("cuStreamQuery", stream), 0);
    EXPECT_EQ(pinned[3], 2u);
    // Pageable memory may be changed as soon as the call has returned.
    std::vector<uint32_t> pageable(32, 50);
    EXPECT_EQ(cu("cuMemcpyHtoDAsync_v2", a.address, (const void *)pageable.data(), size_t(128), stream), 0);
    pageable.assign(32, 0);
    EXPECT_EQ(cu("cuMemcpyDtoHAsync_v2", (void *)pageable.data(), a.address, size_t(128), stream), 0);
    EXPECT_EQ(pageable[31], 50u);
  }
  EXPECT_EQ(cu("cuMemFreeHost", memory), 0);
  EXPECT_EQ(cu("cuStreamDestroy_v2", stream), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 400);
}

TEST_F(DriverCalls, order_streams_by_events) {
  Program program(add_text());
  CUfunction add = program.kernel("add");
  CUstream first = nullptr, second = nullptr;
  CUevent event = nullptr, end = nullptr;
  ASSERT_EQ(cu("cuStreamCreate", &first, 1u) | cu("cuStreamCreate", &second, 1u) | cu("cuEventCreate", &event, 0u) |
                cu("cuEventCreate", &end, 0u),
            0);
  Buffer<uint32_t> a(32);
  EXPECT_EQ(cu("cuMemsetD32Async", a.address, 5u, size_t(32), first), 0);
  EXPECT_EQ(cu("cuEventRecord", event, first), 0);
  EXPECT_EQ(cu("cuStreamWaitEvent", second, event, 0u), 0);
  EXPECT_EQ(launch_add(add, a.address, 2, second), 0);
  EXPECT_EQ(cu("cuEventRecord", end, second), 0);
  float milliseconds = -1;
  EXPECT_EQ(cu("cuEventElapsedTime", &milliseconds, event, end), 600);
  EXPECT_EQ(cu("cuEventSynchronize", end), 0);
  EXPECT_EQ(cu("cuEventElapsedTime", &milliseconds, event, end), 0);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(a.read()[9], 7u);
  // Without the wait the kernel comes first, and reads what is not there yet: a fault, where a device might get lucky.
  Buffer<uint32_t> b(32);
  EXPECT_EQ(cu("cuMemsetD32Async", b.address, 5u, size_t(32), first), 0);
  EXPECT_EQ(launch_add(add, b.address, 2, second), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", second), 719);
  heddle_emulator_reset();
  EXPECT_EQ(cu("cuEventDestroy_v2", event) | cu("cuEventDestroy_v2", end) | cu("cuStreamDestroy_v2", first) |
                cu("cuStreamDestroy_v2", second),
            0);
}

TEST_F(DriverCalls, free_in_order_of_the_stream) {
  Program program(add_text());
  CUstream stream = nullptr;
  ASSERT_EQ(cu("cuStreamCreate", &stream, 1u), 0);
  CUdeviceptr p = 0;
  EXPECT_EQ(cu("cuMemAllocAsync", &p, size_t(128), stream), 0);
  EXPECT_EQ(cu("cuMemsetD32Async", p, 1u, size_t(32), stream), 0);
  EXPECT_EQ(launch_add(program.kernel("add"), p, 2, stream), 0);
  EXPECT_EQ(cu("cuMemFreeAsync", p, stream), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0) << heddle_emulator_message();
  EXPECT_EQ(launch_add(program.kernel("add"), p, 2, stream), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 700);
  heddle_emulator_reset();
  EXPECT_EQ(cu("cuStreamDestroy_v2", stream), 0);
}

TEST_F(DriverCalls, capture_change_and_launch_graphs) {
  Program program(add_text());
  CUfunction add = program.kernel("add");
  CUstream stream = nullptr, side = nullptr;
  CUevent fork = nullptr, join = nullptr;
  ASSERT_EQ(cu("cuStreamCreate", &stream, 1u) | cu("cuStreamCreate", &side, 1u) | cu("cuEventCreate", &fork, 0u) |
                cu("cuEventCreate", &join, 0u),
            0);
  Buffer<uint32_t> a(std::vector<uint32_t>(32)), b(std::vector<uint32_t>(32));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cu("cuStreamBeginCapture_v2", stream, 0), 0);
  int status = 0;
  EXPECT_EQ(cu("cuStreamIsCapturing", stream, &status), 0);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(launch_add(add, a.address, 1, stream), 0);
  EXPECT_EQ(cu("cuEventRecord", fork, stream), 0);
  EXPECT_EQ(cu("cuStreamWaitEvent", side, fork, 0u), 0);
  EXPECT_EQ(launch_add(add, b.address, 10, side), 0);
  EXPECT_EQ(cu("cuEventRecord", join, side), 0);
  EXPECT_EQ(launch_add(add, a.address, 100, stream), 0);
  EXPECT_EQ(cu("cuStreamWaitEvent", stream, join, 0u), 0);
  ASSERT_EQ(cu("cuStreamEndCapture", stream, &graph), 0) << heddle_emulator_message();
  EXPECT_EQ(a.read()[0], 0u); // nothing has run
  ASSERT_EQ(cu("cuGraphInstantiateWithFlags", &exec, graph, uint64_t(0)), 0);
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(cu("cuGraphLaunch", exec, stream), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(a.read()[0], 303u);
  EXPECT_EQ(b.read()[31], 30u);

  size_t count = 8;
  CUgraphNode nodes[8];
  EXPECT_EQ(cu("cuGraphGetNodes", graph, +nodes, &count), 0);
  ASSERT_EQ(count, 3u);
  int type = -1;
  EXPECT_EQ(cu("cuGraphNodeGetType", nodes[0], &type), 0);
  EXPECT_EQ(type, 0);
  CUDA_KERNEL_NODE_PARAMS p = {};
  EXPECT_EQ(cu("cuGraphKernelNodeGetParams_v2", nodes[0], &p), 0);
  EXPECT_EQ(p.blockDimX, 32u);
  uint32_t value = 7;
  void *parameters[] = {&b.address, &value};
  p.kernelParams = parameters;
  // A launch that was made before keeps its parameters.
  EXPECT_EQ(cu("cuGraphLaunch", exec, stream), 0);
  EXPECT_EQ(cu("cuGraphExecKernelNodeSetParams_v2", exec, nodes[0], (const CUDA_KERNEL_NODE_PARAMS *)&p), 0);
  EXPECT_EQ(cu("cuGraphLaunch", exec, stream), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(a.read()[0], 303u + 101 + 100);
  EXPECT_EQ(b.read()[31], 30u + 10 + 17);

  // Updated by another graph of the same form; not by one of another form.
  CUgraph other = nullptr;
  ASSERT_EQ(cu("cuStreamBeginCapture_v2", stream, 2), 0);
  EXPECT_EQ(launch_add(add, a.address, 1000, stream), 0);
  ASSERT_EQ(cu("cuStreamEndCapture", stream, &other), 0);
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_EQ(cu("cuGraphExecUpdate_v2", exec, other, &info), 910);
  EXPECT_EQ(info.result, 2);
  EXPECT_EQ(cu("cuGraphExecUpdate_v2", exec, graph, &info), 0);
  EXPECT_EQ(cu("cuGraphDestroy", graph) | cu("cuGraphDestroy", other) | cu("cuGraphExecDestroy", exec), 0);
  EXPECT_EQ(cu("cuEventDestroy_v2", fork) | cu("cuEventDestroy_v2", join) | cu("cuStreamDestroy_v2", stream) |
                cu("cuStreamDestroy_v2", side),
            0);
}

TEST_F(DriverCalls, refuse_what_a_capture_does_not_allow) {
  Program program(add_text());
  CUstream stream = nullptr, side = nullptr;
  CUevent fork = nullptr;
  CUgraph graph = nullptr;
  ASSERT_EQ(cu("cuStreamCreate", &stream, 1u) | cu("cuStreamCreate", &side, 1u) | cu("cuEventCreate", &fork, 0u), 0);
  Buffer<uint32_t> a(32);
  ASSERT_EQ(cu("cuStreamBeginCapture_v2", stream, 0), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 900);
  EXPECT_EQ(cu("cuStreamEndCapture", stream, &graph), 901);
  EXPECT_EQ(graph, nullptr);
  ASSERT_EQ(cu("cuStreamBeginCapture_v2", stream, 0), 0);
  EXPECT_EQ(cu("cuEventRecord", fork, stream), 0);
  EXPECT_EQ(cu("cuStreamWaitEvent", side, fork, 0u), 0);
  EXPECT_EQ(launch_add(program.kernel("add"), a.address, 1, side), 0);
  EXPECT_EQ(cu("cuStreamEndCapture", stream, &graph), 904); // the side stream was not joined
  EXPECT_EQ(cu("cuStreamEndCapture", stream, &graph), 401);
  EXPECT_EQ(cu("cuEventDestroy_v2", fork) | cu("cuStreamDestroy_v2", stream) | cu("cuStreamDestroy_v2", side), 0);
}

TEST_F(DriverCalls, build_graphs_node_by_node) {
  Program program(add_text());
  Buffer<uint32_t> a(32);
  CUgraph graph = nullptr;
  CUgraphNode set = nullptr, kernel = nullptr, copy = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<uint32_t> host(32);
  ASSERT_EQ(cu("cuGraphCreate", &graph, 0u), 0);
  CUDA_MEMSET_NODE_PARAMS fill = {a.address, 0, 40, 4, 32, 1};
  EXPECT_EQ(cu("cuGraphAddMemsetNode", &set, graph, (const CUgraphNode *)nullptr, size_t(0),
               (const CUDA_MEMSET_NODE_PARAMS *)&fill, context),
            0);
  uint32_t value = 2;
  void *parameters[] = {&a.address, &value};
  CUDA_KERNEL_NODE_PARAMS p = {program.kernel("add"), 1, 1, 1, 32, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
  EXPECT_EQ(cu("cuGraphAddKernelNode_v2", &kernel, graph, (const CUgraphNode *)&set, size_t(1),
               (const CUDA_KERNEL_NODE_PARAMS *)&p),
            0);
  CUDA_MEMCPY3D region = {};
  region.srcMemoryType = memory_device, region.srcDevice = a.address;
  region.dstMemoryType = memory_host, region.dstHost = host.data();
  region.WidthInBytes = 128, region.Height = 1, region.Depth = 1;
  EXPECT_EQ(cu("cuGraphAddMemcpyNode", &copy, graph, (const CUgraphNode *)&kernel, size_t(1),
               (const CUDA_MEMCPY3D *)&region, context),
            0);
  ASSERT_EQ(cu("cuGraphInstantiateWithFlags", &exec, graph, uint64_t(0)), 0);
  EXPECT_EQ(cu("cuGraphLaunch", exec, CUstream(nullptr)), 0);
  EXPECT_EQ(cuCtxSynchronize(), 0) << heddle_emulator_message();
  EXPECT_EQ(host[31], 42u);

  // Nodes told other things; a copy of several rows can't be.
  value = 5, fill.value = 60, region.WidthInBytes = 64;
  CUDA_KERNEL_NODE_PARAMS_v1 old = {program.kernel("add"), 1, 1, 1, 32, 1, 1, 0, parameters, nullptr};
  EXPECT_EQ(cu("cuGraphExecKernelNodeSetParams", exec, kernel, (const CUDA_KERNEL_NODE_PARAMS_v1 *)&old), 0);
  EXPECT_EQ(cu("cuGraphExecMemsetNodeSetParams", exec, set, (const CUDA_MEMSET_NODE_PARAMS *)&fill, context), 0);
  EXPECT_EQ(cu("cuGraphExecMemcpyNodeSetParams", exec, copy, (const CUDA_MEMCPY3D *)&region, context), 0);
  EXPECT_EQ(cu("cuGraphLaunch", exec, CUstream(nullptr)) | cuCtxSynchronize(), 0);
  EXPECT_EQ(host[15], 65u);
  EXPECT_EQ(host[16], 42u);
  region.Height = 2;
  EXPECT_EQ(cu("cuGraphExecMemcpyNodeSetParams", exec, copy, (const CUDA_MEMCPY3D *)&region, context), 1);
  EXPECT_EQ(cu("cuGraphAddKernelNode", &kernel, graph, (const CUgraphNode *)&copy, size_t(1),
               (const CUDA_KERNEL_NODE_PARAMS_v1 *)&old),
            0);
  EXPECT_EQ(cu("cuGraphDestroy", graph) | cu("cuGraphExecDestroy", exec), 0);
}

TEST_F(DriverCalls, check_launches) {
  Program program(kernel(1, "", ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[100];\n"));
  CUfunction f = program.kernel("k");
  Buffer<uint32_t> a(32);
  auto launch = [&](unsigned grid_y, unsigned threads, unsigned shared) {
    return launch_blocks(f, {1, grid_y, 1}, {threads, 1, 1}, shared, a.address);
  };
  EXPECT_EQ(launch(1, 1025, 0), 1);
  EXPECT_EQ(launch(65536, 1, 0), 1);
  EXPECT_EQ(launch(0, 1, 0), 1);
  EXPECT_EQ(launch(1, 32, 48 * 1024), 0) << heddle_emulator_message();
  EXPECT_EQ(launch(1, 32, 48 * 1024 + 1), 1);
  EXPECT_EQ(cu("cuFuncSetAttribute", f, 8, 100 * 1024), 0);
  EXPECT_EQ(launch(1, 32, 100 * 1024), 0);
  EXPECT_EQ(cu("cuFuncSetAttribute", f, 8, 166912), 1); // with the static part too much
  int bytes = 0;
  EXPECT_EQ(cu("cuFuncGetAttribute", &bytes, 1, f), 0);
  EXPECT_EQ(bytes, 100);
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), 1); // no parameters
}

TEST_F(DriverCalls, load_modules) {
  CUmodule m = nullptr;
  EXPECT_EQ(cuModuleLoadData(&m, "\x7f\x45\x4c\x46 a cubin"), 209);
  EXPECT_EQ(cuModuleLoadData(&m, module_text("", "sm_90").c_str()), 218);
  EXPECT_EQ(cuModuleLoadData(&m, ".version 99.0\n.target sm_80\n"), 222);
  char log[200] = "";
  int options[] = {5, 6};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  EXPECT_EQ(cu("cuModuleLoadDataEx", &m, (const void *)".version 8.0\n.target sm_80\nnonsense", 2u, +options, +values),
            218);
  EXPECT_STREQ(log, "PTX line 3: 'nonsense' is not read outside functions");
  Program program(module_text(".visible .global .align 8 .b32 table[4] = {1, 2, 3};\n.visible .entry k() { ret; }\n"));
  CUfunction f = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&f, program.module, "nothing"), 500);
  CUdeviceptr address = 0;
  size_t bytes = 0;
  EXPECT_EQ(cu("cuModuleGetGlobal_v2", &address, &bytes, program.module, "table"), 0);
  EXPECT_EQ(bytes, 16u);
  uint32_t words[4];
  EXPECT_EQ(cuMemcpyDtoH_v2(words, address, 16), 0);
  EXPECT_EQ(words[2], 3u);
  EXPECT_EQ(words[3], 0u);
}

TEST_F(DriverCalls, fail_when_a_test_wants_them_to) {
  CUdeviceptr p = 0;
  heddle_emulator_fail_call(2, 2);
  EXPECT_EQ(cuMemAlloc_v2(&p, 16), 0);
  CUdeviceptr q = 1;
  EXPECT_EQ(cuMemAlloc_v2(&q, 16), 2);
  EXPECT_EQ(q, 1u);
  EXPECT_STREQ(heddle_emulator_message(), "cuMemAlloc_v2: made to fail by a test");
  EXPECT_EQ(cuMemAlloc_v2(&q, 16), 0);
  uint64_t before = heddle_emulator_calls();
  EXPECT_EQ(cuMemFree_v2(p) | cuMemFree_v2(q), 0);
  EXPECT_EQ(heddle_emulator_calls(), before + 2);
}

TEST_F(DriverCalls, play_a_lost_device_an_old_driver_and_none) {
  CUdeviceptr p = 0;
  heddle_emulator_fail_call(1, 719);
  EXPECT_EQ(cuMemAlloc_v2(&p, 16), 719);
  EXPECT_EQ(cuMemAlloc_v2(&p, 16), 719);
  EXPECT_EQ(cuCtxSynchronize(), 719);
  heddle_emulator_reset();
  EXPECT_EQ(cuCtxSynchronize(), 0);
  for (auto [version, newest] :
       {std::pair{11040, "7.4"}, {12000, "8.0"}, {12080, "8.7"}, {12090, "8.8"}, {13000, "9.0"}}) {
    heddle_emulator_set("version", uint64_t(version));
    int told = 0;
    EXPECT_EQ(cu("cuDriverGetVersion", &told), 0);
    EXPECT_EQ(told, version);
    CUmodule m = nullptr;
    EXPECT_EQ(cuModuleLoadData(&m, ".version 9.9\n.target sm_80\n"), 222);
    EXPECT_EQ(std::string(heddle_emulator_message()),
              std::string("cuModuleLoadDataEx: PTX 9.9; the driver has ") + newest);
  }
  heddle_emulator_set("devices", 0);
  EXPECT_EQ(cuInit(0), 100);
  heddle_emulator_set("devices", 1);
}

TEST_F(DriverCalls, need_a_context) {
  EXPECT_EQ(cuCtxSetCurrent(nullptr), 0);
  CUdeviceptr p = 0;
  EXPECT_EQ(cuMemAlloc_v2(&p, 16), 201);
  CUcontext made = nullptr, popped = nullptr;
  EXPECT_EQ(cu("cuCtxCreate_v2", &made, 0u, 0), 0);
  EXPECT_EQ(cuMemAlloc_v2(&p, 16), 0);
  EXPECT_EQ(cuMemFree_v2(p), 0);
  EXPECT_EQ(cu("cuCtxPopCurrent_v2", &popped), 0);
  EXPECT_EQ(popped, made);
  EXPECT_EQ(cu("cuCtxDestroy_v2", made), 0);
  EXPECT_EQ(cu("cuCtxDestroy_v2", made), 400);
}

} // namespace
} // namespace gpu_test
