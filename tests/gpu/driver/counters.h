// What the emulator counts, for each instruction of a kernel and summed up by class. From these the use of a device is
// argued: sectors of 32 bytes per global request, passes per request of shared memory, tensor-core instructions.
#pragma once

#include "tests/gpu/driver/types.h"

#include <string>

namespace ptx {

enum class Class : u8 {
  integer,
  floating,
  special_function,
  move,
  predicate,
  control,
  load_global,
  store_global,
  load_shared,
  store_shared,
  local,
  parameter,
  atomic,
  shuffle,
  matrix,
  barrier,
  async_copy,
  async_store, // what async_copy costs where it writes: a part of it, no class of its own
  count,
};

const char *class_name(Class c);

struct Counter {
  u64 warps = 0;                                   // times a warp executed it
  u64 lanes = 0;                                   // lanes that took part
  u64 requests = 0;                                // accesses that were measured
  u64 cost = 0;                                    // of these, in sectors (global) or passes (shared)
  u64 ideal = 0;                                   // the least cost that as many bytes can have
  u64 stores = 0, store_cost = 0, store_ideal = 0; // of a copy the same for what it writes, in passes

  void operator+=(const Counter &other) {
    warps += other.warps, lanes += other.lanes, requests += other.requests, cost += other.cost, ideal += other.ideal;
    stores += other.stores, store_cost += other.store_cost, store_ideal += other.store_ideal;
  }
};

/// Of a kernel, by class.
struct Totals {
  u64 launches = 0;
  u64 blocks = 0, executed = 0; // of all launches, and those that were executed
  Counter of[int(Class::count)];

  void operator+=(const Totals &other) {
    launches += other.launches, blocks += other.blocks, executed += other.executed;
    for (int i = 0; i < int(Class::count); i++)
      of[i] += other.of[i];
  }
};

struct Kernel;
Totals totals(const Kernel &kernel);

/// A line for each class.
std::string report(const std::string &name, const Totals &totals);

} // namespace ptx
