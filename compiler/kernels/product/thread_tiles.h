// What the threads of a block keep of a tile of a product in registers, and how they multiply what lies in shared
// memory (staging.h): each a few elements by multiply-adds, or each warp a part of the tile on tensor cores.
#pragma once

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"

#include <functional>
#include <memory>
#include <utility>

namespace heddle::contraction {

class ThreadTile : protected gpu::Arithmetic {
public:
  /// Where a group of a line's terms lies in shared memory, for rows and for columns of the tile.
  using Place = std::function<mlir::Value(mlir::Value line, mlir::Value group)>;

  virtual ~ThreadTile() = default;

  /// What a thread's sums are at first.
  virtual llvm::SmallVector<mlir::Value> zeros() = 0;
  /// The sums with what the terms in shared memory add.
  virtual llvm::SmallVector<mlir::Value> multiply(const Place &rows, const Place &columns, mlir::ValueRange sums) = 0;
  /// The sums, when all is added up, as threads finish them, and the row and the column of each in the tile.
  virtual llvm::SmallVector<mlir::Value> finished(mlir::ValueRange sums) = 0;
  virtual std::pair<mlir::Value, mlir::Value> place_of(int64_t sum) = 0;

protected:
  ThreadTile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile)
      : Arithmetic(thread.b, thread.loc), program(program), thread(thread), tile(tile) {}

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const int64_t tile; // rows, and columns
};

/// Sums of f32 by multiply-adds, in the order of the terms: 16 x 16 threads, each with elements 16 apart in both
/// directions.
std::unique_ptr<ThreadTile> multiply_add_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile);

/// What an instruction of tensor cores multiplies: 16 rows with 8 columns, 32 bytes of terms of each.
struct TensorType {
  mlir::Type element;                               // as it is staged: bf16, f16, f32 or i8
  bool rounds = false;                              // f32, to 10 bits of a mantissa (tf32)
  bool left_has_sign = true, right_has_sign = true; // of i8
};
/// Sums of f32, or of i32, on tensor cores: 2 x 4 warps.
std::unique_ptr<ThreadTile> tensor_core_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile,
                                             const TensorType &type);

} // namespace heddle::contraction
