// What a library offers to its callers, read from a planned module: the header, the manifest and the C functions
// are generated from this.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle {

struct InterfaceValue {
  std::string name = {};
  int abi_type = 0;                      // HEDDLE_T_*
  std::vector<std::string> extents = {}; // "B", "768", "B * S"; "?" for one computed in more than a product
  bool optional = false;
  double initial = 0;
  std::optional<std::string> below = {}; // index inputs
};

struct InterfaceUse {
  std::string state;
  bool reads = false, updates = false, in_place = false;
};

struct InterfaceEntry {
  std::string name;
  std::string symbol = {};    // its C function: <model>_<entry>, or what is free
  std::vector<int> dims = {}; // of its inputs, by number: the size parameters of its C function
  std::vector<InterfaceValue> inputs = {}, results = {};
  std::vector<InterfaceUse> uses = {};
  std::vector<std::string> requirements = {}; // what is said where one doesn't hold
  uint32_t signature = 0; // of its C function's parameters: equal where a caller of one may call the other
};

struct InterfaceState {
  std::string name = {};
  std::string symbol = {}; // its number in the header: <model>_state_<name>, or what is free
  int abi_type = 0;
  std::vector<std::string> extents = {};
  std::optional<double> initial = {};
  std::string parameter = {}; // as which tensor of the weights file it begins; empty: it is no parameter
};

struct ModelInterface {
  std::string name;                   // of the library
  std::vector<std::string> dims = {}; // in the order of heddle_run_dense
  std::vector<int64_t> most = {};     // their bounds, or -1
  std::vector<InterfaceEntry> entries = {};
  std::vector<InterfaceState> states = {};
  std::vector<std::pair<std::string, int64_t>> tokens = {}; // ids that the configuration tells
};

ModelInterface model_interface(mlir::ModuleOp module, const std::string &name);

/// Names and ids of the module's tokens.
std::vector<std::pair<std::string, int64_t>> module_tokens(mlir::ModuleOp module);

/// "f32", as the manifest and messages name it; "float", as C does.
const char *abi_type_name(int abi_type);
const char *c_type_name(int abi_type);

/// The exported symbols: the functions of the entries and <name>_heddle_api.
std::vector<std::string> exported_symbols(const ModelInterface &model);

} // namespace heddle
