// Large blocks straight from the system, or from an allocator of the caller's: arenas, states, scratch slabs and copied
// weights. Blocks of the system's from 2 MiB on are aligned to huge pages and ask for them. A margin before and after
// is readable, because kernels may load (never use) an element beside an empty tensor.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)

static bool get_from(rt_memory *memory, int64_t bytes, const heddle_allocator *from) {
  size_t size = (size_t)bytes + 3 * RT_ALIGN;
  uint8_t *block = from->get(from->context, size);
  if (!block)
    return false;
  uintptr_t first = ((uintptr_t)block + 2 * RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN;
  *memory = (rt_memory){.data = (uint8_t *)first, .bytes = bytes, .map = block, .mapped = size, .from = *from};
  memset(memory->data, 0, (size_t)bytes);
  return true;
}

bool rt_memory_get(rt_memory *memory, int64_t bytes, const heddle_allocator *from) {
  *memory = (rt_memory){0};
  if (bytes <= 0)
    bytes = RT_ALIGN;
  if (bytes > INT64_MAX / 2)
    return false;
  if (from->get)
    return get_from(memory, bytes, from);
  size_t alignment = (size_t)bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
  size_t size = ((size_t)bytes + RT_ALIGN + PAGE - 1) / PAGE * PAGE + alignment;
  uint8_t *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return false;
  uintptr_t first = ((uintptr_t)map + RT_ALIGN + alignment - 1) / alignment * alignment;
  memory->data = (uint8_t *)first;
  memory->bytes = bytes;
  memory->map = map;
  memory->mapped = size;
  if (alignment == HUGE_PAGE)
    madvise(memory->data, (size_t)bytes, MADV_HUGEPAGE); // advice: where the system has none, pages stay small
  return true;
}

bool rt_memory_get_unwritten(rt_memory *memory, int64_t bytes) {
  *memory = (rt_memory){0};
  size_t size = (size_t)bytes + RT_ALIGN;
  void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return false;
  *memory = (rt_memory){.data = map, .bytes = bytes, .map = map, .mapped = size};
  return true;
}

void rt_memory_clear(rt_memory *memory) {
  // Whole pages that are given back are zero when they are next touched, and cost nothing until then.
  if (!memory->from.get && memory->bytes >= (int64_t)HUGE_PAGE &&
      madvise(memory->map, memory->mapped, MADV_DONTNEED) == 0)
    return;
  memset(memory->data, 0, (size_t)memory->bytes);
}

void rt_memory_release(rt_memory *memory) {
  if (memory->device)
    (memory->pinned ? memory->device->api->give_pinned : memory->device->api->give)(memory->device, memory->map);
  else if (memory->from.get)
    memory->from.give(memory->from.context, memory->map, memory->mapped);
  else if (memory->map)
    munmap(memory->map, memory->mapped);
  *memory = (rt_memory){0};
}

heddle_status rt_take_allocator(heddle_allocator *to, const heddle_allocator *from) {
  if (from && (!from->get || !from->give))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "an allocator needs both callbacks `get` and `give`");
  *to = from ? *from : (heddle_allocator){0};
  return HEDDLE_OK;
}
