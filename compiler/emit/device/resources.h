// What launches take of a multiprocessor: shared memory as the PTX says, registers as NVIDIA's assembler does where
// there is one, and how many blocks fit.
#pragma once

#include "compiler/targets/target.h"
#include "dsl/errors/result.h"

#include <map>
#include <optional>
#include <string>

namespace heddle {

struct Resources {
  int64_t shared = 0;             // bytes of shared memory of a block
  bool tensor = false;            // multiplies on tensor cores
  std::optional<int> registers;   // of a thread, as assembled
  std::optional<int64_t> spilled; // bytes of a thread that registers had no room for: stores and loads
};

/// Of each launch in a text of PTX, by name; what only the assembler knows is left out.
std::map<std::string, Resources> resources_in(const std::string &ptx);

/// A text as machine code, and what the assembler says of its launches.
struct Assembled {
  std::string cubin;
  std::map<std::string, Resources> launches;
};
/// By the program `ptxas`; may be called from several threads at once.
Result<Assembled> assemble(const std::string &ptxas, const std::string &ptx, const Gpu &gpu);

/// How many blocks are on a multiprocessor at once, and which part of its warps that is. Registers that are not known
/// are taken to be no limit.
struct Occupancy {
  int64_t blocks;
  double warps;
};
Occupancy occupancy(const Gpu &gpu, int64_t threads, const Resources &resources);

} // namespace heddle
