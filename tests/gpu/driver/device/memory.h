// Device memory: allocations at addresses that no host pointer has, with gaps between them and never used twice, so
// that every stray address is in no allocation or in one that was freed. Each byte knows whether it was ever written.
#pragma once

#include "tests/gpu/driver/fault.h"
#include "tests/gpu/driver/types.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

struct Allocation {
  u64 base = 0, bytes = 0;
  u8 *data = nullptr;
  std::string name;
  bool live = true, read_only = false, on_host = false;
  std::unique_ptr<u8[]> storage;
  std::unique_ptr<u8[]> written; // 1 for each byte that has a value; all of them have one on the host

  u64 end() const { return base + bytes; }
  bool holds(u64 address, u64 n) const { return address >= base && n <= bytes && address - base <= bytes - n; }
  /// A value for these bytes is about to be stored.
  void write(u64 at, u64 n) { memset(&written[at], 1, n); }
};

class DeviceMemory {
public:
  /// Throws out_of_memory beyond what the device has.
  Allocation *allocate(u64 bytes, std::string name, u64 align = 512);
  /// Memory of the host that kernels may use, too: pinned memory.
  Allocation *adopt_host(void *pointer, u64 bytes);
  void release(u64 address);

  /// The live allocation that this address is in.
  Allocation *find(u64 address) const;
  /// Where a driver call reads or writes; throws invalid_value.
  u8 *reach(u64 address, u64 bytes, bool write, const char *call);
  /// "0xa00000000400 (24 bytes past the end of cuMemAlloc, 1000 bytes at 0xa…)"
  std::string describe(u64 address) const;

  u64 used() const { return in_use; }
  void count(u64 &on_device, u64 &pinned) const;

private:
  std::map<u64, std::unique_ptr<Allocation>> allocations; // freed ones, too, for messages
  u64 next = device_base, in_use = 0;
};

DeviceMemory &device_memory();

} // namespace ptx
