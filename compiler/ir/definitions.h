// The model's definitions that an op or a kernel computes, as its location names them. Places carry them through all
// passes: import names each op after its definition, and what passes join is fused.
#pragma once

#include "mlir/IR/Location.h"

#include <string>
#include <vector>

namespace heddle::ir {

struct Definition {
  std::string name; // "layers.3.attn.s"; a reduction inside of one is named after it: "layers.3.attn.s.sum"
  std::string path; // where it stands
  int line;         // from 1
};

/// Those that a location names, in order.
std::vector<Definition> definitions_in(mlir::Location loc);

/// "y" of "y.sum", where "y" is among them too; else the name as it is.
std::string outer_name(const std::string &name, const std::vector<Definition> &definitions);
/// Their names, each once, without the reductions inside of those that are there, too.
std::vector<std::string> outer_names(const std::vector<Definition> &definitions);
/// "`x`, `y` (model.heddle:12)": the outer names, and where the first definition stands; empty where there is none.
std::string in_words(const std::vector<Definition> &definitions);

} // namespace heddle::ir
