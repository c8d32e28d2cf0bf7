#include "compiler/halide/loops.h"

namespace heddle {

using namespace Halide::Internal;

std::string name_of(const For *loop) {
  const std::string moved = ".rebased";
  return ends_with(loop->name, moved) ? loop->name.substr(0, loop->name.size() - moved.size()) : loop->name;
}

bool is_loop(const For *loop, const std::string &end) { return !end.empty() && ends_with(name_of(loop), end); }

} // namespace heddle
