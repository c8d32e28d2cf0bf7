// What the threads of a block keep of a tile of a product in registers, and how they multiply what lies in shared
// memory: each a few elements by multiply-adds, or each warp a part of the tile on tensor cores.
#pragma once

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"

#include <memory>
#include <utility>

namespace heddle::contraction {

class ThreadTile : protected gpu::Arithmetic {
public:
  static constexpr int64_t threads = 256;

  virtual ~ThreadTile() = default;

  /// How many terms lie in shared memory at a time, and of which type they are there.
  virtual int64_t depth() const = 0;
  virtual mlir::Type element() const = 0;
  /// Numbers of shared memory that so many terms of a tile's rows, or columns, take, and the place of one of them.
  virtual int64_t numbers() const = 0;
  virtual mlir::Value place(mlir::Value line, mlir::Value term) = 0;

  /// How many sums a thread has.
  virtual int64_t sums() const = 0;
  /// The sums with what the terms in shared memory add, of rows and of columns.
  virtual llvm::SmallVector<mlir::Value> multiply(mlir::Value rows, mlir::Value columns, mlir::ValueRange sums) = 0;
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

/// Sums of f32 of products of bf16 on tensor cores: 2 x 4 warps.
std::unique_ptr<ThreadTile> tensor_core_tile(gpu::Program &program, gpu::Program::Thread &thread, int64_t tile);

} // namespace heddle::contraction
