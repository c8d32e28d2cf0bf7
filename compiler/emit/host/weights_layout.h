// Where each weight lies in the packed weights file. The host program compiles the offsets in, the packer
// writes to them, and the id ties a library to its file.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle {

struct WeightsLayout {
  struct Item {
    std::string symbol;
    int64_t offset = 0;  // in the payload, a multiple of 64
    int64_t bytes = 0;   // with the padding of its panels
    bool shared = false; // lies there for a module before this one, in the same layout
  };
  std::vector<Item> items;            // in the order of the module
  std::map<std::string, int> numbers; // of the items by symbol
  int64_t payload_bytes = 0;          // of all modules
  std::array<uint8_t, 16> id{};
  uint64_t build = 0; // of the library: a hash of all that decides its code

  const Item &operator[](llvm::StringRef symbol) const { return items[numbers.at(symbol.str())]; }
};

/// A model compiled for a target.
struct TargetModule {
  mlir::ModuleOp module; // after plan_memory
  Target target;
};

/// One file for the modules that a model was compiled to: a layout for each, with one payload, id and build. Weights
/// lie in the order of the modules; what several of them want in the same layout is there once. `name` is the library's
/// and goes into the id, the targets into the build's number.
std::vector<WeightsLayout> lay_out_weights(llvm::ArrayRef<TargetModule> modules, llvm::StringRef name);

} // namespace heddle
