// The environment is read here and nowhere below the driver.
#include "compiler/driver/ptxas.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

namespace heddle {

Result<std::string> find_ptxas() {
  if (const char *named = std::getenv("HEDDLE_PTXAS"); named && *named) {
    if (std::string_view(named) == "none")
      return std::string();
    if (llvm::sys::fs::can_execute(named))
      return std::string(named);
    return Error{std::string("HEDDLE_PTXAS=") + named +
                 ": there is no such program; name NVIDIA's assembler, ptxas, or take the variable away"};
  }
  auto found = llvm::sys::findProgramByName("ptxas");
  return found ? *found : std::string();
}

} // namespace heddle
