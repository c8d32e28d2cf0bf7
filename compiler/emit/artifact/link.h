// Objects to a shared library, in process.
#pragma once

#include "dsl/errors/result.h"

#include <string>
#include <vector>

namespace heddle {

struct LinkJob {
  std::vector<std::string> objects; // paths of objects and archives, in order
  std::vector<std::string> exports; // the only symbols that the library shows
  std::string soname;
  std::string output;  // path
  std::string scratch; // a folder for the version script
};

/// Links with lld. The C library and the maths library that this program itself runs with are what the
/// result needs; a symbol that neither they nor the objects define is an error.
Status link_library(const LinkJob &job);

} // namespace heddle
