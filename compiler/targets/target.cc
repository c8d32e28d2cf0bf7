// The table of targets and the resolution of names.
#include "compiler/targets/target.h"

#include "runtime/cpu_features.h"

namespace heddle {

static const Target table[] = {
#define HEDDLE_TARGET(name, lanes, registers, l1, l2, gigahertz, l2_rate, l3_rate, memory_rate, base, further)         \
  {name, lanes, registers, l1, l2, gigahertz, l2_rate, l3_rate, memory_rate, base, further},
#include "compiler/targets/targets.def"
#undef HEDDLE_TARGET
};

std::span<const Target> targets() { return table; }

std::string halide_name(uint32_t cpu_features) {
  static constexpr const char *names[] = {
#define HEDDLE_CPU_FEATURE(name, text, registers, c1, b7, c7, d7, a71, cx, halide) halide,
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
  };
  std::string out = "x86-64-linux";
  for (size_t i = 0; i < std::size(names); ++i)
    if ((cpu_features & 1u << i) && *names[i])
      out += std::string("-") + names[i];
  return out;
}

Result<Target> find_target(std::string_view name) {
  if (name == "native") {
    uint32_t host = heddle_host_cpu_features();
    const Target *best = nullptr;
    for (const Target &target : table)
      if ((target.cpu_features() & ~host) == 0)
        best = &target;
    if (!best)
      return Error{"this machine has no AVX2 with FMA and F16C, which the least demanding target (" + table[0].name +
                   ") needs; name a target to compile for another machine"};
    return *best;
  }
  for (const Target &target : table)
    if (target.name == name)
      return target;
  if (name.starts_with("cuda:"))
    return Error{"the target `" + std::string(name) + "` is not built yet; use one of the x86-64 targets"};
  std::string known = "native";
  for (const Target &target : table)
    known += ", " + target.name;
  return Error{"there is no target `" + std::string(name) + "`; the targets are " + known};
}

} // namespace heddle
