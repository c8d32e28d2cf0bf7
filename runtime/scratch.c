// What kernels allocate while they run: each thread of a session has a slab and takes blocks from it in stack order.
// Before a run all slabs are made as large as its entry says that a thread needs, so that no kernel can fail. Where it
// doesn't say enough, slabs grow when their thread holds nothing, and what does not fit comes from malloc; after the
// run every slab is made as large as any thread could have needed, so that an equal run allocates nothing, whichever
// thread does which task.
#include "runtime/runtime.h"

#include <stdlib.h>

// Stands before every block. `used` is the slot's level before it was taken, so that popping restores it.
struct rt_block {
  rt_block *below;
  int64_t before;
  bool in_slab;
  bool free;
} __attribute__((aligned(RT_ALIGN)));

_Static_assert(RT_ALIGN == HEDDLE_SCRATCH_LINE && RT_ALIGN + sizeof(rt_block) == HEDDLE_SCRATCH_HEADER,
               "compiler/emit/kernels/scratch.cc counts the same");

// What every slab should hold.
static int64_t wanted(rt_scratch *scratch) {
  int64_t seen = scratch->outer + atomic_load_explicit(&scratch->inner, memory_order_relaxed);
  return seen > scratch->reserved ? seen : scratch->reserved;
}

// Replaces the slab of a thread that holds no block by one for `bytes`, and for all that is known to be needed. Where
// the system refuses, the old one stays.
static bool enlarge(rt_scratch *scratch, rt_slot *slot, int64_t bytes) {
  int64_t known = wanted(scratch);
  rt_memory larger;
  if (!rt_memory_get(&larger, bytes > known ? bytes : known, scratch->from))
    return false;
  rt_memory_release(&slot->slab);
  slot->slab = larger;
  atomic_fetch_add_explicit(&scratch->allocations, 1, memory_order_relaxed);
  return true;
}

bool rt_scratch_reserve(rt_scratch *scratch, int64_t bytes) {
  int64_t before = scratch->reserved;
  scratch->reserved = bytes > before ? bytes : before;
  for (int32_t i = 0; i < scratch->count; i++) {
    rt_slot *slot = &scratch->slots[i];
    if (bytes > slot->slab.bytes && !enlarge(scratch, slot, bytes)) {
      scratch->reserved = before; // later calls need not ask for so much
      return false;
    }
  }
  return true;
}

void *rt_scratch_take(rt_scratch *scratch, rt_slot *slot, size_t bytes) {
  // Kernels may read a few bytes beside a block: the header before it and the rounding plus one line after it allow.
  if (bytes > INT64_MAX / 4)
    return NULL;
  int64_t size = (int64_t)(bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN + HEDDLE_SCRATCH_HEADER;
  rt_block *block;
  if (slot->used == 0 && size > slot->slab.bytes)
    enlarge(scratch, slot, size);
  bool in_slab = slot->used + size <= slot->slab.bytes;
  if (in_slab) {
    block = (rt_block *)(slot->slab.data + slot->used);
  } else {
    block = aligned_alloc(RT_ALIGN, (size_t)size);
    if (!block)
      return NULL;
    atomic_fetch_add_explicit(&scratch->allocations, 1, memory_order_relaxed);
  }
  *block = (rt_block){.below = slot->top, .before = slot->used, .in_slab = in_slab};
  slot->top = block;
  slot->used += size;
  if (slot->base < 0) {
    scratch->outer = slot->used > scratch->outer ? slot->used : scratch->outer;
  } else {
    int64_t most = atomic_load_explicit(&scratch->inner, memory_order_relaxed);
    while (slot->used - slot->base > most &&
           !atomic_compare_exchange_weak_explicit(&scratch->inner, &most, slot->used - slot->base, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
  }
  return block + 1;
}

void rt_scratch_give(rt_slot *slot, void *pointer) {
  if (!pointer)
    return;
  ((rt_block *)pointer - 1)->free = true;
  while (slot->top && slot->top->free) {
    rt_block *block = slot->top;
    slot->top = block->below;
    slot->used = block->before;
    if (!block->in_slab)
      free(block);
  }
}

void rt_scratch_settle(rt_scratch *scratch) {
  int64_t most = wanted(scratch);
  for (int32_t i = 0; i < scratch->count; i++) {
    rt_slot *slot = &scratch->slots[i];
    while (slot->top) // a kernel that failed may have left blocks
      rt_scratch_give(slot, slot->top + 1);
    slot->used = 0;
    if (most > slot->slab.bytes)
      enlarge(scratch, slot, most);
  }
}

void rt_scratch_release(rt_scratch *scratch) {
  for (int32_t i = 0; i < scratch->count; i++)
    rt_memory_release(&scratch->slots[i].slab);
}
