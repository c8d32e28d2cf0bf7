// Graphs: captured from streams or built node by node, instantiated, updated, launched.
#include "tests/gpu/driver/api/driver.h"

#include <algorithm>

namespace ptx {

static Graph *new_graph(std::unique_ptr<Graph> graph) {
  driver().graphs.insert(graph.get());
  return graph.release();
}

static Node *add(CUgraph graph, const CUgraphNode *after, size_t count, Node node) {
  valid(driver().graphs, graph, "graph");
  auto made = std::make_unique<Node>(std::move(node));
  made->owner = graph;
  for (size_t i = 0; i < count; i++) {
    require(after[i]->owner == graph, "a dependency in another graph");
    made->after.push_back(after[i]);
  }
  graph->nodes.push_back(std::move(made));
  return graph->nodes.back().get();
}

static std::shared_ptr<std::vector<Node>> copies(const Graph &graph) {
  auto nodes = std::make_shared<std::vector<Node>>();
  for (auto &n : graph.nodes) {
    nodes->push_back(*n);
    if (n->child)
      nodes->back().type = Node::graph, nodes->back().nodes = copies(*n->child);
  }
  return nodes;
}

static void end_capture(Capture &capture) {
  for (Stream *s : driver().streams)
    if (s->capture == &capture)
      s->capture = nullptr, s->frontier.clear();
  for (Event *e : driver().events)
    if (e->capture == &capture)
      e->capture = nullptr, e->captured.clear();
}

/// All nodes that these depend on, and these.
static std::set<const Node *> reached(std::vector<Node *> open) {
  std::set<const Node *> seen;
  while (!open.empty()) {
    Node *n = open.back();
    open.pop_back();
    if (seen.insert(n).second)
      open.insert(open.end(), n->after.begin(), n->after.end());
  }
  return seen;
}

static Node kernel_node(const CUDA_KERNEL_NODE_PARAMS &p) {
  return launch_node(p.func,
                     {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes},
                     p.kernelParams, p.extra);
}

/// The node of an executable graph that a graph's node became; the launched copies stay as they are.
static Node &changeable(CUgraphExec exec, CUgraphNode node) {
  valid(driver().execs, exec, "executable graph");
  auto i = exec->position.find(node);
  require(i != exec->position.end(), "a node of another graph");
  if (exec->nodes.use_count() > 1)
    exec->nodes = std::make_shared<std::vector<Node>>(*exec->nodes);
  return (*exec->nodes)[i->second];
}

/// The driver's numbers for types of nodes.
static int type_number(const Node &n) {
  switch (n.type) {
  case Node::kernel:
    return 0;
  case Node::copy:
    return 1;
  case Node::set:
    return 2;
  case Node::host:
    return 3;
  case Node::graph:
    return 4;
  case Node::wait:
    return 6;
  case Node::record:
    return 7;
  default:
    return n.child ? 4 : 5;
  }
}

} // namespace ptx

using namespace ptx;

// --- capture
EMULATED CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return call(__func__, Needs::context, [&] {
    Stream *s = stream_of(stream);
    if (!s)
      throw Error(Code::stream_capture_unsupported, "the default stream can't be captured");
    if (s->capture)
      throw Error(Code::illegal_state, "the stream is captured already");
    auto capture = std::make_unique<Capture>();
    capture->graph = std::make_unique<Graph>();
    capture->origin = s, capture->mode = mode, capture->id = ++driver().captures_begun;
    s->capture = capture.get();
    driver().captures.push_back(std::move(capture));
  });
}

EMULATED CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return call(__func__, Needs::context, [&] {
    *graph = nullptr;
    Stream *s = stream_of(stream);
    if (!s || !s->capture)
      throw Error(Code::illegal_state, "the stream is not captured");
    Capture &capture = *s->capture;
    if (capture.origin != s)
      throw Error(Code::stream_capture_unmatched, "the capture began in another stream");
    std::set<const Node *> joined = reached(s->frontier);
    bool all = std::all_of(capture.graph->nodes.begin(), capture.graph->nodes.end(),
                           [&](auto &n) { return joined.count(n.get()); });
    std::unique_ptr<Graph> made = std::move(capture.graph);
    bool broken = capture.broken;
    end_capture(capture);
    std::erase_if(driver().captures, [&](auto &c) { return c.get() == &capture; });
    if (broken)
      throw Error(Code::stream_capture_invalidated, "a call during the capture was not allowed");
    if (!all)
      throw Error(Code::stream_capture_unjoined, "work of another stream was not waited for");
    *graph = new_graph(std::move(made));
  });
}

EMULATED CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  return call(__func__, Needs::context, [&] {
    Stream *s = stream_of(stream);
    *status = !s || !s->capture ? 0 : s->capture->broken ? 2 : 1;
  });
}

EMULATED CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, u64 *id, CUgraph *graph,
                                            const CUgraphNode **after, size_t *count) {
  return call(__func__, Needs::context, [&] {
    Stream *s = stream_of(stream);
    *status = !s || !s->capture ? 0 : s->capture->broken ? 2 : 1;
    if (*status != 1)
      return;
    if (id)
      *id = s->capture->id;
    if (graph)
      *graph = s->capture->graph.get();
    if (after)
      *after = s->frontier.data();
    if (count)
      *count = s->frontier.size();
  });
}

EMULATED CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  return call(__func__, Needs::context, [&] { *mode = 0; });
}

// --- building
EMULATED CUresult cuGraphCreate(CUgraph *graph, unsigned) {
  return call(__func__, Needs::context, [&] { *graph = new_graph(std::make_unique<Graph>()); });
}

EMULATED CUresult cuGraphDestroy(CUgraph graph) {
  return call(__func__, Needs::context, [&] {
    valid(driver().graphs, graph, "graph");
    driver().graphs.erase(graph);
    delete graph;
  });
}

EMULATED CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                          const CUDA_KERNEL_NODE_PARAMS *p) {
  return call(__func__, Needs::context, [&] { *node = add(graph, after, count, kernel_node(*p)); });
}

static CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1 &p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}

EMULATED CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                       const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  CUDA_KERNEL_NODE_PARAMS all = widened(*p);
  return cuGraphAddKernelNode_v2(node, graph, after, count, &all);
}

EMULATED CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                       const CUDA_MEMCPY3D *region, CUcontext) {
  return call(__func__, Needs::context, [&] { *node = add(graph, after, count, copy_node(*region)); });
}

EMULATED CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                       const CUDA_MEMSET_NODE_PARAMS *p, CUcontext) {
  return call(__func__, Needs::context, [&] {
    *node = add(graph, after, count, fill_node(p->dst, p->value, p->elementSize, p->width, p->height, p->pitch));
  });
}

EMULATED CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                     const CUDA_HOST_NODE_PARAMS *p) {
  return call(__func__, Needs::context, [&] {
    Node n;
    n.type = Node::host, n.call = *p;
    *node = add(graph, after, count, std::move(n));
  });
}

EMULATED CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
  return call(__func__, Needs::context, [&] { *node = add(graph, after, count, {}); });
}

EMULATED CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                           CUgraph child) {
  return call(__func__, Needs::context, [&] {
    Node n;
    n.child = valid(driver().graphs, child, "graph");
    *node = add(graph, after, count, std::move(n));
  });
}

EMULATED CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return call(__func__, Needs::context, [&] {
    auto &all = valid(driver().graphs, graph, "graph")->nodes;
    for (size_t i = 0; nodes && i < std::min(*count, all.size()); i++)
      nodes[i] = all[i].get();
    *count = nodes ? std::min(*count, all.size()) : all.size();
  });
}

EMULATED CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
  return call(__func__, Needs::context, [&] { *type = type_number(*node); });
}

/// kernelParams is not given back: the driver keeps values, not pointers.
EMULATED CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p) {
  return call(__func__, Needs::context, [&] {
    require(node->type == Node::kernel, "the node launches no kernel");
    const Dim3 g = node->shape.grid, b = node->shape.block;
    *p = {node->function, g.x, g.y, g.z, b.x, b.y, b.z, node->shape.dynamic_shared, nullptr, nullptr, nullptr, nullptr};
  });
}

EMULATED CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p) {
  return call(__func__, Needs::context, [&] {
    require(node->type == Node::kernel, "the node launches no kernel");
    Node changed = kernel_node(*p);
    changed.after = node->after, changed.owner = node->owner;
    *node = std::move(changed);
  });
}

// --- executing
EMULATED CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, u64) {
  return call(__func__, Needs::context, [&] {
    valid(driver().graphs, graph, "graph");
    auto *made = new GraphExec;
    made->nodes = copies(*graph);
    for (size_t i = 0; i < graph->nodes.size(); i++)
      made->position[graph->nodes[i].get()] = i;
    driver().execs.insert(made);
    *exec = made;
  });
}
EMULATED CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *, char *, size_t) {
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}

EMULATED CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return call(__func__, Needs::context, [&] {
    valid(driver().execs, exec, "executable graph");
    driver().execs.erase(exec);
    delete exec;
  });
}

EMULATED CUresult cuGraphUpload(CUgraphExec exec, CUstream) {
  return call(__func__, Needs::context, [&] { valid(driver().execs, exec, "executable graph"); });
}

EMULATED CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return call(__func__, Needs::context, [&] {
    Node node;
    node.type = Node::graph;
    node.nodes = valid(driver().execs, exec, "executable graph")->nodes;
    submit(stream_of(stream), std::move(node));
  });
}

EMULATED CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_KERNEL_NODE_PARAMS *p) {
  return call(__func__, Needs::context, [&] {
    Node &target = changeable(exec, node);
    require(target.type == Node::kernel, "the node launches no kernel");
    target = kernel_node(*p);
  });
}

EMULATED CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  CUDA_KERNEL_NODE_PARAMS all = widened(*p);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &all);
}

EMULATED CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *region,
                                                 CUcontext) {
  return call(__func__, Needs::context, [&] {
    Node &target = changeable(exec, node);
    require(target.type == Node::copy, "the node copies nothing");
    for (const CUDA_MEMCPY3D *r : {static_cast<const CUDA_MEMCPY3D *>(&target.region), region})
      require(r->Height == 1 && r->Depth == 1 && r->WidthInBytes > 0, "only copies of one row can be changed");
    target = copy_node(*region);
  });
}

EMULATED CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p,
                                                 CUcontext) {
  return call(__func__, Needs::context, [&] {
    Node &target = changeable(exec, node);
    require(target.type == Node::set, "the node fills nothing");
    require(target.fill.height == 1 && p->height == 1 && p->width > 0, "only fills of one row can be changed");
    target = fill_node(p->dst, p->value, p->elementSize, p->width, p->height, p->pitch);
  });
}

EMULATED CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result) {
  return call(__func__, Needs::context, [&] {
    valid(driver().execs, exec, "executable graph");
    valid(driver().graphs, graph, "graph");
    *result = {};
    auto fits = [&] {
      if (graph->nodes.size() != exec->nodes->size())
        return false;
      for (size_t i = 0; i < graph->nodes.size(); i++)
        if (type_number(*graph->nodes[i]) != type_number((*exec->nodes)[i]) ||
            graph->nodes[i]->after.size() != (*exec->nodes)[i].after.size())
          return false;
      return true;
    };
    if (!fits()) {
      result->result = 2; // CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
      throw Error(Code::graph_exec_update_failure, "the graph has other nodes");
    }
    exec->nodes = copies(*graph);
    exec->position.clear();
    for (size_t i = 0; i < graph->nodes.size(); i++)
      exec->position[graph->nodes[i].get()] = i;
  });
}
