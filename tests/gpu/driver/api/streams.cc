// Streams and events. Work is put off until somebody waits for it or a call needs its results.
#include "tests/gpu/driver/api/driver.h"
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/settings.h"

#include <chrono>
#include <cstring>

namespace ptx {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static const CUstream legacy_default = reinterpret_cast<CUstream>(1),
                      per_thread_default = reinterpret_cast<CUstream>(2);

Stream *stream_of(CUstream handle) {
  if (!handle || handle == legacy_default)
    return nullptr;
  if (handle == per_thread_default)
    return &driver().per_thread;
  return valid(driver().streams, handle, "stream");
}

namespace {

const u8 *source_of(const Node &node, size_t at, size_t bytes) {
  const CUDA_MEMCPY3D &r = node.region;
  if (!node.staged.empty())
    return node.staged.data() + at;
  if (r.srcMemoryType == memory_host)
    return static_cast<const u8 *>(r.srcHost) + at;
  return device_memory().reach(r.srcDevice + at, bytes, false, "copy");
}

void copy(const Node &node) {
  const CUDA_MEMCPY3D &r = node.region;
  for (size_t z = 0; z < r.Depth; z++)
    for (size_t y = 0; y < r.Height; y++) {
      size_t from = r.srcXInBytes + (r.srcY + y + (r.srcZ + z) * r.srcHeight) * r.srcPitch;
      size_t to = r.dstXInBytes + (r.dstY + y + (r.dstZ + z) * r.dstHeight) * r.dstPitch;
      const u8 *source = source_of(node, from, r.WidthInBytes);
      u8 *target = r.dstMemoryType == memory_host
                       ? static_cast<u8 *>(r.dstHost) + to
                       : device_memory().reach(r.dstDevice + to, r.WidthInBytes, true, "copy");
      memmove(target, source, r.WidthInBytes);
    }
}

void fill(const Node &node) {
  const CUDA_MEMSET_NODE_PARAMS &f = node.fill;
  for (size_t y = 0; y < f.height; y++) {
    size_t bytes = f.width * f.elementSize;
    u8 *to = device_memory().reach(f.dst + y * f.pitch, bytes, true, "memset");
    for (size_t i = 0; i < bytes; i += f.elementSize)
      memcpy(to + i, &f.value, f.elementSize);
  }
}

/// Everything in this stream up to the record of this ticket.
void run_until(Stream &stream, const Event &event, u64 ticket) {
  while (event.done < ticket && !stream.work.empty()) {
    Node node = std::move(stream.work.front());
    stream.work.pop_front();
    execute(node);
  }
}

} // namespace

void execute(const Node &node) {
  switch (node.type) {
  case Node::kernel: {
    valid(driver().kernels, node.function, "kernel");
    launch(*node.function, node.shape, node.parameters.data());
    break;
  }
  case Node::copy:
    copy(node);
    break;
  case Node::set:
    fill(node);
    break;
  case Node::host:
    node.call.fn(node.call.userData);
    break;
  case Node::record:
    if (driver().events.count(node.event))
      node.event->done = node.ticket, node.event->time = now();
    break;
  case Node::wait:
    if (driver().events.count(node.event) && node.event->stream)
      run_until(*node.event->stream, *node.event, node.ticket);
    break;
  case Node::graph:
    for (const Node &n : *node.nodes)
      execute(n);
    break;
  case Node::empty:
    break;
  }
  if (node.free_later)
    device_memory().release(node.free_later);
}

void run_all(Stream &stream) {
  while (!stream.work.empty()) {
    Node node = std::move(stream.work.front());
    stream.work.pop_front();
    execute(node);
  }
}

void run_everything() {
  for (Stream *s : driver().streams)
    run_all(*s);
  run_all(driver().per_thread);
}

void complete(Event &event) {
  if (event.stream)
    run_until(*event.stream, event, event.ticket);
}

void not_while_capturing(const char *what, Stream *stream) {
  for (Stream *s : driver().streams)
    if (s->capture && (!stream || s == stream) && (stream || s->capture->mode != 2)) {
      s->capture->broken = true;
      throw Error(Code::stream_capture_unsupported, std::string(what) + " while a stream is captured");
    }
}

void submit(Stream *stream, Node node) {
  if (stream && stream->capture) {
    if (stream->capture->broken)
      throw Error(Code::stream_capture_invalidated, "the capture has failed before");
    node.staged.clear(); // a graph reads the host's memory when it is launched
    auto made = std::make_unique<Node>(std::move(node));
    made->after = stream->frontier;
    made->owner = stream->capture->graph.get();
    stream->frontier = {made.get()};
    stream->capture->graph->nodes.push_back(std::move(made));
    return;
  }
  if (!stream) {
    // The default stream waits for the others and they wait for it: it is done at once.
    not_while_capturing("work in the default stream");
    for (Stream *s : driver().streams)
      if (s->waits_for_default)
        run_all(*s);
    run_all(driver().per_thread);
    try {
      execute(node);
    } catch (const Error &error) {
      // A launch doesn't wait for its kernel: the next call tells of its fault.
      if (error.code < Code::illegal_address || error.code > Code::launch_failed || settings().blocking)
        throw;
      driver().sticky = error.code;
      driver().message = error.what();
      fprintf(stderr, "emulated GPU: %s\n", error.what());
    }
    return;
  }
  bool to_pageable = node.type == Node::copy && node.region.dstMemoryType == memory_host &&
                     !device_memory().find(u64(node.region.dstHost));
  stream->work.push_back(std::move(node));
  if (to_pageable || settings().blocking)
    run_all(*stream);
}

} // namespace ptx

using namespace ptx;

EMULATED CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return call(__func__, Needs::context, [&] {
    auto *s = new Stream;
    s->waits_for_default = !(flags & 1);
    driver().streams.insert(s);
    *stream = s;
  });
}

EMULATED CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}

EMULATED CUresult cuStreamDestroy_v2(CUstream stream) {
  return call(__func__, Needs::context, [&] {
    valid(driver().streams, stream, "stream");
    run_all(*stream);
    for (Event *e : driver().events)
      if (e->stream == stream)
        e->stream = nullptr;
    driver().streams.erase(stream);
    delete stream;
  });
}

EMULATED CUresult cuStreamSynchronize(CUstream stream) {
  return call(__func__, Needs::context, [&] {
    Stream *s = stream_of(stream);
    if (!s)
      return run_everything();
    not_while_capturing("cuStreamSynchronize", s);
    run_all(*s);
  });
}

EMULATED CUresult cuStreamQuery(CUstream stream) {
  return call(__func__, Needs::context, [&] {
    Stream *s = stream_of(stream);
    if (!s || s->work.empty())
      return;
    not_while_capturing("cuStreamQuery", s);
    Node node = std::move(s->work.front()); // so that who asks again and again sees it end
    s->work.pop_front();
    execute(node);
    if (!s->work.empty())
      throw Error(Code::not_ready, "work is left");
  });
}

EMULATED CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  return call(__func__, Needs::context, [&] {
    Stream *s = stream_of(stream);
    *flags = s && !s->waits_for_default;
  });
}

EMULATED CUresult cuStreamGetPriority(CUstream, int *priority) {
  return call(__func__, Needs::context, [&] { *priority = 0; });
}

EMULATED CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  return call(__func__, Needs::context, [&] {
    require(function, "no function");
    Node node;
    node.type = Node::host;
    node.call = {function, data};
    submit(stream_of(stream), std::move(node));
  });
}

// --- events
EMULATED CUresult cuEventCreate(CUevent *event, unsigned) {
  return call(__func__, Needs::context, [&] {
    *event = new Event;
    driver().events.insert(*event);
  });
}

EMULATED CUresult cuEventDestroy_v2(CUevent event) {
  return call(__func__, Needs::context, [&] {
    valid(driver().events, event, "event");
    complete(*event);
    driver().events.erase(event);
    delete event;
  });
}

EMULATED CUresult cuEventRecord(CUevent event, CUstream stream) {
  return call(__func__, Needs::context, [&] {
    valid(driver().events, event, "event");
    Stream *s = stream_of(stream);
    if (s && s->capture) {
      event->capture = s->capture;
      event->captured = s->frontier;
      return;
    }
    event->capture = nullptr;
    event->stream = s;
    Node node;
    node.type = Node::record;
    node.event = event;
    node.ticket = ++event->ticket;
    submit(s, std::move(node));
  });
}
EMULATED CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}

EMULATED CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return call(__func__, Needs::context, [&] {
    valid(driver().events, event, "event");
    Stream *s = stream_of(stream);
    if (event->capture) {
      if (!s || (s->capture && s->capture != event->capture))
        throw Error(Code::stream_capture_unsupported, "a wait for an event of another capture");
      s->capture = event->capture; // it takes part from here on
      s->frontier.insert(s->frontier.end(), event->captured.begin(), event->captured.end());
      return;
    }
    Node node;
    node.type = Node::wait;
    node.event = event;
    node.ticket = event->ticket;
    submit(s, std::move(node));
  });
}

EMULATED CUresult cuEventSynchronize(CUevent event) {
  return call(__func__, Needs::context, [&] { complete(*valid(driver().events, event, "event")); });
}

EMULATED CUresult cuEventQuery(CUevent event) {
  return call(__func__, Needs::context, [&] {
    valid(driver().events, event, "event");
    if (event->done >= event->ticket || !event->stream)
      return;
    Stream &s = *event->stream;
    Node node = std::move(s.work.front());
    s.work.pop_front();
    execute(node);
    if (event->done < event->ticket)
      throw Error(Code::not_ready, "work is left");
  });
}

EMULATED CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  return call(__func__, Needs::context, [&] {
    valid(driver().events, from, "event");
    valid(driver().events, to, "event");
    if (!from->ticket || !to->ticket)
      throw Error(Code::invalid_handle, "an event that was never recorded");
    if (from->done < from->ticket || to->done < to->ticket)
      throw Error(Code::not_ready, "work is left");
    *milliseconds = float((to->time - from->time) * 1e3);
  });
}
EMULATED CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime(milliseconds, from, to);
}
