// Where each weight lies in the packed weights file. The host program compiles the offsets in, the packer
// writes to them, and the id ties a library to its file.
#pragma once

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
    int64_t offset = 0; // in the payload, a multiple of 64
    int64_t bytes = 0;  // with the padding of its panels
  };
  std::vector<Item> items;            // in the order of the module
  std::map<std::string, int> numbers; // of the items by symbol
  int64_t payload_bytes = 0;
  std::array<uint8_t, 16> id{};
  uint64_t build = 0; // of the library: a hash of all that decides its code

  const Item &operator[](llvm::StringRef symbol) const { return items[numbers.at(symbol.str())]; }
};

/// The layout of a module's weights, in their order. `name` is the library's and goes into the id; `target`, as in
/// --target, into the build's number.
WeightsLayout lay_out_weights(mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef target);

} // namespace heddle
