// The driver's state and the frame that each of its calls runs in: one lock, the count of calls, injected failures,
// the fault that makes a context unusable. Work in streams is done as late as the rules allow, so that a missing
// synchronisation shows.
#pragma once

#include "tests/gpu/driver/api/cuda.h"
#include "tests/gpu/driver/counters.h"
#include "tests/gpu/driver/device/block.h"
#include "tests/gpu/driver/fault.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace ptx {

/// A launch, a copy, …: an element of a stream's queue and of a graph.
struct Node {
  enum Type : u8 { kernel, copy, set, host, empty, record, wait, graph } type = empty;
  Kernel *function = nullptr;
  LaunchShape shape;
  std::vector<u8> parameters;
  CUDA_MEMCPY3D region = {};
  std::vector<u8> staged; // the source, where it is pageable memory of the host
  CUDA_MEMSET_NODE_PARAMS fill = {};
  CUDA_HOST_NODE_PARAMS call = {};
  Event *event = nullptr;
  u64 ticket = 0;                                 // of a recorded event
  std::shared_ptr<const std::vector<Node>> nodes; // of a graph
  std::vector<Node *> after;                      // in a graph: what it depends on
  Graph *owner = nullptr;
  Graph *child = nullptr;
  u64 free_later = 0; // cuMemFreeAsync
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes; // each behind all it depends on
};

struct GraphExec {
  std::shared_ptr<std::vector<Node>> nodes;
  std::map<const Node *, size_t> position; // of a graph's node
};

struct Capture {
  std::unique_ptr<Graph> graph;
  Stream *origin = nullptr;
  int mode = 0;
  bool broken = false;
  u64 id = 0;
};

struct Stream {
  bool waits_for_default = true;
  std::deque<Node> work;
  Capture *capture = nullptr;
  std::vector<Node *> frontier; // of the capture: what the next node depends on
};

struct Event {
  Stream *stream = nullptr; // where it was recorded last
  u64 ticket = 0, done = 0; // complete where done >= ticket
  double time = 0;
  Capture *capture = nullptr;
  std::vector<Node *> captured;
};

struct Context {
  int flags = 0;
};

struct MemoryPool {};

struct Driver {
  std::recursive_mutex mutex;
  bool initialised = false;
  u64 calls = 0, fail_in = 0;
  int fail_code = 0;
  Code sticky = Code::success; // a fault on the device: the context is lost
  std::string message;
  Context primary;
  int primary_uses = 0;
  std::set<Context *> contexts;
  std::set<Module *> modules;
  std::set<Kernel *> kernels;
  std::set<Stream *> streams;
  std::set<Event *> events;
  std::set<Graph *> graphs;
  std::set<GraphExec *> execs;
  std::vector<std::unique_ptr<Capture>> captures;
  std::map<std::string, Totals> retired; // counters of kernels whose module is gone
  u64 captures_begun = 0;
  Stream per_thread;
  MemoryPool pool;
};

Driver &driver();

/// Runs the body of a driver call. `needs`: what must hold before.
enum class Needs : u8 { nothing, initialised, context };
CUresult call(const char *name, Needs needs, const std::function<void()> &body);
Context *current_context(); // of this thread; null: none

template <class T> T *valid(const std::set<T *> &known, T *handle, const char *what) {
  if (!known.count(handle))
    throw Error(Code::invalid_handle, std::string("no ") + what + ", or one that was destroyed");
  return handle;
}
/// A context is destroyed: what its streams still had to do is gone, and so is its fault. (Memory stays: whoever leaks
/// it shall be seen to.)
void abandon_work();
void require(bool holds, const char *what); // invalid_value

// --- streams (streams.cc)
Stream *stream_of(CUstream handle); // null: the default stream
/// Puts work into a stream, or into the graph that it is captured into.
void submit(Stream *stream, Node node);
void run_all(Stream &stream);
void run_everything();
void complete(Event &event);
/// A call that would wait is not allowed while a stream is captured.
void not_while_capturing(const char *what, Stream *stream = nullptr);
void execute(const Node &node);

// --- nodes from the arguments of calls
Node launch_node(CUfunction function, LaunchShape shape, void **parameters, void **extra);
Node copy_node(u64 to, bool to_device, u64 from, bool from_device, size_t bytes);
Node copy_node(const CUDA_MEMCPY3D &region);
Node fill_node(u64 to, unsigned value, unsigned element_bytes, size_t width, size_t height = 1, size_t pitch = 0);

} // namespace ptx
