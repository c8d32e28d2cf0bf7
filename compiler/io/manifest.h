// <name>.json, which `heddle compile` writes beside a library, as far as commands use it. It is a file like any other:
// nothing of it is believed before it has been looked at.
#pragma once

#include "dsl/errors/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

struct Manifest {
  /// What an entry has one kernel do, over all its calls. Formulas over dims (manifest_formula.h).
  struct Work {
    std::string kernel;
    int64_t calls = 0;
    std::optional<std::string> operations = {}, weights_bytes = {}, values_bytes = {};
    /// What does the operations, where the manifest says: the first whose formulas are none of them negative.
    struct Multiplies {
      std::string micro_kernel;
      std::vector<std::string> when = {};
    };
    std::vector<Multiplies> multiplies = {};
  };
  struct Entry {
    std::string name;
    std::vector<std::string> inputs, results;
  };
  struct Target {
    std::string name;
    std::map<std::string, std::string> kernels;    // name to kind
    std::map<std::string, std::vector<Work>> work; // by entry
  };

  std::string path, text; // the whole file
  std::string name;       // of the library
  std::string build;      // 16 hexadecimal digits that tell libraries apart whose code differs
  std::vector<std::string> dims;
  std::vector<Entry> entries;
  std::vector<Target> targets; // from the most demanding one on

  /// The target of that name, or null.
  const Target *find(const std::string &target) const;
};

/// A file that is not there, no manifest, or damaged gets one message that names the first thing that is wrong.
Result<Manifest> read_manifest(const std::string &path);

} // namespace heddle
