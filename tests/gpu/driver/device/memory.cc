// Device memory (memory.h).
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/settings.h"

namespace ptx {

std::string hex(u64 value) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
  return text;
}

DeviceMemory &device_memory() {
  static DeviceMemory &memory = *new DeviceMemory; // never destroyed: programs free device memory in destructors
  return memory;
}

Allocation *DeviceMemory::allocate(u64 bytes, std::string name, u64 align) {
  constexpr u64 gap = 4096; // red zone: an index that is off by a row or a tile stays in it
  if (bytes > settings().memory || in_use + bytes > settings().memory)
    throw Error(Code::out_of_memory, std::to_string(bytes) + " bytes are not to be had: " + std::to_string(in_use) +
                                         " of " + std::to_string(settings().memory) + " are in use");
  align = std::max<u64>(align, 512);
  auto a = std::make_unique<Allocation>();
  a->base = (next + align - 1) / align * align;
  a->bytes = bytes;
  a->name = std::move(name);
  a->storage.reset(new u8[bytes]);
  a->data = a->storage.get();
  memset(a->data, 0xcd, bytes);
  a->written.reset(new u8[bytes]());
  next = a->end() + gap;
  in_use += bytes;
  Allocation *result = a.get();
  allocations[result->base] = std::move(a);
  return result;
}

Allocation *DeviceMemory::adopt_host(void *pointer, u64 bytes) {
  auto a = std::make_unique<Allocation>();
  a->base = u64(pointer);
  a->bytes = bytes;
  a->data = static_cast<u8 *>(pointer);
  a->name = "pinned host memory";
  a->on_host = true;
  a->written.reset(new u8[bytes]);
  memset(a->written.get(), 1, bytes);
  Allocation *result = a.get();
  allocations[result->base] = std::move(a);
  return result;
}

void DeviceMemory::release(u64 address) {
  auto i = allocations.find(address);
  if (i == allocations.end() || !i->second->live)
    throw Error(Code::invalid_value, "free of " + describe(address));
  Allocation &a = *i->second;
  if (a.on_host) { // the host may use this address again for anything
    allocations.erase(i);
    return;
  }
  a.live = false;
  a.storage.reset();
  a.written.reset();
  a.data = nullptr;
  in_use -= a.bytes;
}

Allocation *DeviceMemory::find(u64 address) const {
  auto i = allocations.upper_bound(address);
  if (i == allocations.begin())
    return nullptr;
  Allocation *a = std::prev(i)->second.get();
  return a->live && address < a->end() ? a : nullptr;
}

u8 *DeviceMemory::reach(u64 address, u64 bytes, bool write, const char *call) {
  Allocation *a = find(address);
  if (!a || !a->holds(address, bytes))
    throw Error(Code::invalid_value, std::string(call) + (write ? " to " : " from ") + std::to_string(bytes) +
                                         " bytes at " + describe(address));
  if (write)
    a->write(address - a->base, bytes);
  return a->data + (address - a->base);
}

std::string DeviceMemory::describe(u64 address) const {
  auto i = allocations.upper_bound(address);
  if (i == allocations.begin())
    return hex(address) + " (not in device memory)";
  const Allocation &a = *std::prev(i)->second;
  u64 at = address - a.base;
  std::string place =
      at < a.bytes ? std::to_string(at) + " bytes into " : std::to_string(at - a.bytes) + " bytes past the end of ";
  return hex(address) + " (" + place + (a.live ? "" : "freed ") + a.name + ", " + std::to_string(a.bytes) +
         " bytes at " + hex(a.base) + ")";
}

void DeviceMemory::count(u64 &on_device, u64 &pinned) const {
  for (auto &[base, a] : allocations)
    (a->on_host ? pinned : on_device) += a->live;
}

} // namespace ptx
