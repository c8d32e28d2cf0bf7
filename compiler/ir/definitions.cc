// Fused locations list what was joined; names stand inside of call sites and of each other's places.
#include "compiler/ir/definitions.h"

#include "llvm/Support/Casting.h"

#include <algorithm>

namespace heddle::ir {

using namespace mlir;

static void walk(Location loc, std::vector<Definition> &out) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      walk(part, out);
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    walk(call.getCallee(), out);
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    auto place = dyn_cast<FileLineColLoc>(name.getChildLoc());
    if (!place)
      return walk(name.getChildLoc(), out);
    out.push_back({name.getName().str(), place.getFilename().str(), int(place.getLine())});
  }
}

std::vector<Definition> definitions_in(Location loc) {
  std::vector<Definition> out;
  walk(loc, out);
  return out;
}

std::string outer_name(const std::string &name, const std::vector<Definition> &definitions) {
  size_t dot = name.rfind('.');
  std::string outer = dot == std::string::npos ? "" : name.substr(0, dot);
  bool known =
      std::any_of(definitions.begin(), definitions.end(), [&](const Definition &other) { return other.name == outer; });
  return known ? outer : name;
}

std::vector<std::string> outer_names(const std::vector<Definition> &definitions) {
  std::vector<std::string> out;
  for (const Definition &definition : definitions)
    if (outer_name(definition.name, definitions) == definition.name &&
        std::find(out.begin(), out.end(), definition.name) == out.end())
      out.push_back(definition.name);
  return out;
}

std::string in_words(const std::vector<Definition> &definitions) {
  std::string out;
  for (const std::string &name : outer_names(definitions))
    out += (out.empty() ? "`" : ", `") + name + "`";
  if (!definitions.empty())
    out += " (" + definitions.front().path + ":" + std::to_string(definitions.front().line) + ")";
  return out;
}

} // namespace heddle::ir
