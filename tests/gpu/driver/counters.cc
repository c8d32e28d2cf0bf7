// Counters by class (counters.h).
#include "tests/gpu/driver/counters.h"
#include "tests/gpu/driver/program.h"

#include <cstdio>

namespace ptx {

const char *class_name(Class c) {
  static constexpr const char *names[] = {"integer", "floating",    "special_function", "move",        "predicate",
                                          "control", "load_global", "store_global",     "load_shared", "store_shared",
                                          "local",   "parameter",   "atomic",           "shuffle",     "matrix",
                                          "barrier", "async_copy",  "async_store"};
  return names[int(c)];
}

Totals totals(const Kernel &kernel) {
  Totals t;
  t.launches = kernel.launches, t.blocks = kernel.blocks, t.executed = kernel.executed;
  for (const Op &op : kernel.ops)
    t.of[int(op.count_as)] += kernel.counters[op.index];
  const Counter &copies = t.of[int(Class::async_copy)];
  t.of[int(Class::async_store)] = {0, 0, copies.stores, copies.store_cost, copies.store_ideal};
  return t;
}

std::string report(const std::string &name, const Totals &t) {
  Counter all;
  for (const Counter &c : t.of)
    all += c;
  char line[256];
  snprintf(line, sizeof line, "%s: %llu launches, %llu warp instructions, %.1f lanes in the mean\n", name.c_str(),
           (unsigned long long)t.launches, (unsigned long long)all.warps,
           all.warps ? double(all.lanes) / double(all.warps) : 0);
  std::string text = line;
  for (int i = 0; i < int(Class::count); i++) {
    const Counter &c = t.of[i];
    if (!c.warps && !c.requests)
      continue;
    snprintf(line, sizeof line, "  %-16s %12llu", class_name(Class(i)), (unsigned long long)c.warps);
    text += line;
    if (c.requests) {
      bool shared = i == int(Class::load_shared) || i == int(Class::store_shared) || i == int(Class::async_store);
      snprintf(line, sizeof line, "   %.2f %s per request, %.2f of the least", double(c.cost) / double(c.requests),
               shared ? "passes" : "sectors", double(c.cost) / double(c.ideal));
      text += line;
    }
    text += "\n";
  }
  return text;
}

} // namespace ptx
