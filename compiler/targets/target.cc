// The table of targets and the resolution of names.
#include "compiler/targets/target.h"

#include "runtime/cpu_features.h"

#include <charconv>
#include <vector>

namespace heddle {

static const Target table[] = {
#define HEDDLE_TARGET(name, lanes, registers, l1, l2, gigahertz, l2_rate, l3_rate, memory_rate, dot_bf16, base,        \
                      further)                                                                                         \
  {name, lanes, registers, l1, l2, gigahertz, l2_rate, l3_rate, memory_rate, dot_bf16, base, further},
#include "compiler/targets/targets.def"
#undef HEDDLE_TARGET
};

static const Gpu gpus[] = {
#define HEDDLE_GPU(name, sm, ptx, driver, multiprocessors, shared, shared_most, flops, tensor_flops, memory_rate)      \
  {name, sm, ptx, driver, multiprocessors, shared, shared_most, flops, tensor_flops, memory_rate},
#include "compiler/targets/gpus.def"
#undef HEDDLE_GPU
};

std::span<const Target> targets() { return table; }

std::span<const Target> gpu_targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> out;
    for (const Gpu &gpu : gpus) {
      Target target = table[0]; // the host program's
      target.name = gpu.name;
      target.base = target.further = 0;
      target.gpu = &gpu;
      out.push_back(std::move(target));
    }
    return out;
  }();
  return all;
}

namespace {

/// How a row of runtime/cpu_features.def is called.
struct Words {
  const char *halide;
  uint32_t beyond; // other rows that Halide's words allow
  const char *llvm;
};

constexpr Words words[] = {
#define HEDDLE_CPU_FEATURE(name, text, registers, c1, b7, c7, d7, a71, cx, halide, beyond, llvm) {halide, beyond, llvm},
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
};

} // namespace

std::string halide_name(uint32_t cpu_features) {
  std::string out = "x86-64-linux";
  for (size_t i = 0; i < std::size(words); ++i)
    if (cpu_features & 1u << i)
      out += std::string("-") + words[i].halide;
  return out;
}

bool halide_allows_more(uint32_t cpu_features) {
  uint32_t allowed = 0;
  for (size_t i = 0; i < std::size(words); ++i)
    if (cpu_features & 1u << i)
      allowed |= words[i].beyond;
  return (allowed & ~cpu_features) != 0;
}

std::string llvm_features(uint32_t cpu_features) {
  std::string out = "+prefer-no-gather"; // on Intel's of these machines it is slower than loads
  for (size_t i = 0; i < std::size(words); ++i)
    if (cpu_features & 1u << i)
      out += std::string(",") + words[i].llvm;
  return out;
}

/// What to name in the place of a GPU that is none of the targets, such as `cuda:sm_90a`; empty where `name` is none.
static std::string instead_of_gpu(std::string_view name) {
  constexpr std::string_view begin = "cuda:sm_";
  if (!name.starts_with(begin))
    return "";
  std::string_view sm = name.substr(begin.size());
  int number = 0;
  auto [end, failed] = std::from_chars(sm.data(), sm.data() + sm.size(), number);
  std::string_view suffix(end, size_t(sm.data() + sm.size() - end));
  if (failed != std::errc() || suffix.size() > 1)
    return "";
  const Gpu *best = nullptr;
  for (const Gpu &gpu : gpus)
    if (gpu.sm <= number)
      best = &gpu;
  if (!best)
    return "; GPUs of compute capability 8.0 and later have one: cuda:sm_80";
  return "; code for `" + std::string(best->name) + "` runs on such a GPU" +
         (suffix.empty() ? "" : ", without the instructions that only sm_" + std::string(sm) + " has");
}

/// Whether this machine's vdpbf16ps takes longer than the multiply-adds that it stands for, as on Intel's CPUs, which
/// have AMX for bf16.
static bool is_slow_at_dot_bf16() {
  uint32_t a, b, c, d;
  return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}

/// The last row that this machine can run. Where Intel's AMX is hidden, as on many virtual machines, that is one
/// without AVX-512 BF16: products of bf16 take half as long there by multiply-adds.
static const Target *native_target() {
  uint32_t host = heddle_host_cpu_features();
  if (!(host & HEDDLE_CPU_AMX) && is_slow_at_dot_bf16())
    host &= ~HEDDLE_CPU_AVX512_BF16;
  const Target *best = nullptr;
  for (const Target &target : table)
    if ((target.cpu_features() & ~host) == 0)
      best = &target;
  return best;
}

Result<Target> find_target(std::string_view name) {
  if (name == "native") {
    const Target *best = native_target();
    if (!best)
      return Error{"this machine has no AVX2 with FMA and F16C, which the least demanding target (" + table[0].name +
                   ") needs; name a target to compile for another machine"};
    return *best;
  }
  std::string known = "native";
  for (std::span<const Target> some : {targets(), gpu_targets()})
    for (const Target &target : some) {
      if (target.name == name)
        return target;
      known += ", " + target.name;
    }
  if (std::string instead = instead_of_gpu(name); !instead.empty())
    return Error{"there is no target `" + std::string(name) + "`" + instead};
  return Error{"there is no target `" + std::string(name) + "`; the targets are " + known};
}

} // namespace heddle
