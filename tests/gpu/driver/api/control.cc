// What tests may ask of the device (control.h).
#include "tests/gpu/driver/control.h"
#include "tests/gpu/driver/api/driver.h"
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/isa.h"
#include "tests/gpu/driver/settings.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

EMULATED const char *heddle_emulator_message() { return driver().message.c_str(); }

EMULATED void heddle_emulator_reset() {
  std::lock_guard lock(driver().mutex);
  abandon_work();
  driver().message.clear();
  driver().fail_in = 0;
}

EMULATED void heddle_emulator_get_usage(heddle_emulator_usage *usage) {
  Driver &d = driver();
  std::lock_guard lock(d.mutex);
  *usage = {};
  device_memory().count(usage->allocations, usage->pinned);
  for (Module *m : d.modules)
    usage->allocations -= m->owned.size();
  usage->bytes = device_memory().used();
  usage->modules = d.modules.size(), usage->streams = d.streams.size(), usage->events = d.events.size();
  usage->graphs = d.graphs.size() + d.execs.size();
}

EMULATED uint64_t heddle_emulator_calls() { return driver().calls; }

EMULATED void heddle_emulator_fail_call(uint64_t n, int code) {
  std::lock_guard lock(driver().mutex);
  driver().fail_in = n, driver().fail_code = code;
}

EMULATED int heddle_emulator_set(const char *name, uint64_t value) {
  Settings &s = settings();
  std::string setting = name;
  if (setting == "sm")
    s.sm = int(value);
  else if (setting == "threads")
    s.threads = unsigned(value);
  else if (setting == "sample")
    s.sample = unsigned(value);
  else if (setting == "blocks")
    s.blocks = unsigned(value);
  else if (setting == "checks")
    s.checks = value;
  else if (setting == "memory")
    s.memory = value;
  else if (setting == "limit")
    s.limit = value;
  else if (setting == "version")
    s.version = int(value);
  else if (setting == "devices")
    s.devices = int(value);
  else
    return 0;
  return 1;
}

static Totals totals_of(const std::string &kernel) {
  Totals sum;
  for (auto &[name, t] : driver().retired)
    if (kernel.empty() || kernel == name)
      sum += t;
  for (Kernel *k : driver().kernels)
    if (kernel.empty() || kernel == k->name)
      sum += totals(*k);
  return sum;
}

EMULATED int heddle_emulator_get_counter(const char *kernel, const char *name, heddle_emulator_counter *counter) {
  std::lock_guard lock(driver().mutex);
  Totals t = totals_of(kernel);
  for (int i = 0; i < int(Class::count); i++)
    if (!strcmp(class_name(Class(i)), name)) {
      const Counter &c = t.of[i];
      *counter = {c.warps, c.lanes, c.requests, c.cost, c.ideal};
      return 1;
    }
  return 0;
}

EMULATED uint64_t heddle_emulator_launches(const char *kernel) {
  std::lock_guard lock(driver().mutex);
  return totals_of(kernel).launches;
}

EMULATED void heddle_emulator_get_blocks(const char *kernel, uint64_t *launched, uint64_t *executed) {
  std::lock_guard lock(driver().mutex);
  Totals t = totals_of(kernel);
  *launched = t.blocks, *executed = t.executed;
}

EMULATED void heddle_emulator_clear_counters() {
  std::lock_guard lock(driver().mutex);
  driver().retired.clear();
  for (Kernel *k : driver().kernels) {
    k->launches = k->blocks = k->executed = 0;
    std::fill(k->counters.begin(), k->counters.end(), Counter{});
  }
}

EMULATED const char *heddle_emulator_instructions() {
  static const std::string &names = *[] {
    auto *all = new std::string;
    for (const Instruction &row : instruction_table().instructions())
      *all += row.name + "\n";
    return all;
  }();
  return names.c_str();
}
