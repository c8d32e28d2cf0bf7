// A kernel under one schedule: compiled, linked to a runtime of its own, loaded, with buffers of given sizes.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <HalideRuntime.h>

#include <memory>
#include <string>
#include <vector>

namespace heddle::tune {

class Candidate {
public:
  Candidate();
  ~Candidate();

  /// Compiles, links, loads. From several threads at once for different candidates.
  Status compile(const std::string &text, const Target &target, int threads);
  /// Makes buffers, inputs filled with numbers that depend on the place in the tensor alone.
  Status prepare(const std::vector<int64_t> &sizes, const std::vector<int64_t> &scalars);

  /// One call; the kernel's status.
  int run();
  /// Overwrites the results with what no kernel computes.
  void spoil_results();
  /// Where results differ from another candidate's of the same kernel; empty: nowhere that counts.
  std::string difference(const Candidate &reference) const;

private:
  struct Memory;
  Status add_buffer(mlir::Type type, mlir::Attribute extents, mlir::Attribute layout, bool is_result);

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<int32_t> numbers_; // sizes and scalars, four bytes each
  std::vector<int64_t> sizes_;
  std::vector<void *> arguments_;
  size_t results_ = 0; // the last ones of memory_
  void *library_ = nullptr, *session_ = nullptr;
  int (*kernel_)(void **) = nullptr;
  int (*call_)(void *, int (*)(void **), void **) = nullptr;
};

} // namespace heddle::tune
