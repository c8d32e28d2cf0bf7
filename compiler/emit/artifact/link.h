// Objects to a shared library, or to one object, in process.
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
  /// Symbols whose archive members are taken though no object refers to them.
  std::vector<std::string> needed = {};
};

/// Links with lld; the library's bytes. The C library and the maths library that this program itself runs with are
/// what the result needs; a symbol that neither they nor the objects define is an error.
Result<std::string> link_library(const LinkJob &job);

/// One relocatable object of these objects and archives, of which no other object sees more than the symbols `shown`:
/// what goes into a program beside others of its kind.
Result<std::string> link_object(const std::vector<std::string> &objects, const std::vector<std::string> &shown);

/// An archive with one member.
Result<std::string> archive_of(const std::string &member, const std::string &bytes);

} // namespace heddle
