#include "compiler/driver/version_text.h"

#include "compiler/driver/commit.h" // made by the build
#include "compiler/version.h"

#include "llvm/Config/llvm-config.h"

#include <HalideRuntime.h>

namespace heddle {

#define HEDDLE_TEXT_OF(number) #number
#define HEDDLE_TEXT(macro) HEDDLE_TEXT_OF(macro)

std::string version_text() {
  std::string out = std::string("heddle ") + version + " (";
  if (*commit)
    out += std::string("commit ") + commit + ", ";
  return out + "LLVM " LLVM_VERSION_STRING ", Halide " HEDDLE_TEXT(HALIDE_VERSION_MAJOR) "." HEDDLE_TEXT(
                   HALIDE_VERSION_MINOR) "." HEDDLE_TEXT(HALIDE_VERSION_PATCH) ")";
}

} // namespace heddle
