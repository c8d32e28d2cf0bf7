// Objects of kernels that this compiler has made before, in a folder of the user's: most kernels of a model that was
// changed in one place, and of other heads of the same model, are as they were. Whatever is wrong with the folder, a
// compilation does without it.
#pragma once

#include "compiler/emit/kernels/emit.h"

#include <optional>
#include <string>

namespace heddle {

class KernelCache {
public:
  /// Empty: nothing is found and nothing kept.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  /// The object that emit_kernels() would make with EmitOptions::nameless, and what makes it what it is: the kernels
  /// but for their names, the rows, the target and this program with the libraries that it has loaded.
  std::string key(llvm::ArrayRef<KernelRow> rows, const Target &target) const;
  std::optional<std::string> find(const std::string &key) const;
  void keep(const std::string &key, const std::string &object) const;

  /// Removes what has not been used for longest, beyond 1 GB or 30 days; looks no more than once in an hour.
  void prune() const;

private:
  std::string path(const std::string &key) const;

  std::string folder_;
};

} // namespace heddle
