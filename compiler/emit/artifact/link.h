// Objects to a shared library, in process.
#pragma once

#include "dsl/errors/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct LinkJob {
  std::vector<std::string> objects; // paths of objects and archives, in order
  std::string version_script;       // path; says which symbols the library shows
  std::string soname;
  uint64_t build = 0; // the library's build id
};

/// Links with lld; the library's bytes. The C library and the maths library that this program itself runs with are
/// what the result needs; a symbol that neither they nor the objects define is an error.
Result<std::string> link_library(const LinkJob &job);

} // namespace heddle
