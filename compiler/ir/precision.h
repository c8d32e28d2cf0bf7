// What products multiply, part by part of the model: `--precision`, and `--keep` for what lies beneath a path.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace heddle::ir {

namespace names {
/// module: {activation = f32}: the magnitude that 127 stands for, of those whose scale isn't found in each call.
inline constexpr llvm::StringLiteral scales = "heddle.scales";
/// module: [activation], of those that are quantized, by name.
inline constexpr llvm::StringLiteral quantized = "heddle.quantized";
/// product: its factors of f32 are rounded to tf32 as they are multiplied, where that is faster.
inline constexpr llvm::StringLiteral rounds = "heddle.rounds";
/// constant: kernels are given it, so that those that differ in it alone are one.
inline constexpr llvm::StringLiteral given = "heddle.given";
/// what widens a weight of a product: what terms 0 and 1, 2 and 3, … of it add up to at most, in magnitude.
inline constexpr llvm::StringLiteral pair_sum = "heddle.pair_sum";
} // namespace names

/// What the module's products multiply where nothing else is kept: "f32", "tf32", "bf16" or "int8".
std::string precision_of(mlir::ModuleOp module);

/// Whether `name` is the part of the model at `path`, or lies in it: "layers.3.attn.s" in "layers.3".
bool is_beneath(llvm::StringRef path, llvm::StringRef name);

/// The precision of each part: heddle.precision of the module, and heddle.keep = {path = precision}.
class Precisions {
public:
  explicit Precisions(mlir::ModuleOp module);

  /// Of an op, by the definition that it computes and the weights that it reads. Where several kept paths hold one of
  /// these, the longest one says; of equally long ones the wider precision.
  std::string of(mlir::Operation *op) const;

  /// The paths that hold none of the ops' definitions and weights.
  std::vector<std::string> unreached(llvm::ArrayRef<mlir::Operation *> ops) const;

  /// Whether any product may be computed so.
  bool has(llvm::StringRef precision) const;

private:
  std::string module_;
  std::vector<std::pair<std::string, std::string>> kept_; // path, precision
};

} // namespace heddle::ir
