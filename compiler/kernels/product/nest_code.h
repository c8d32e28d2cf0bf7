// What all code for products on a GPU begins with: a block has a tile of one product, and finds out which.
#pragma once

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"
#include "compiler/kernels/product/nest.h"

namespace heddle::contraction {

class NestCode : protected gpu::Arithmetic {
protected:
  NestCode(gpu::Program &program, gpu::Program::Thread &thread, llvm::ArrayRef<Nest> nests);

  /// Finds the block's tile of so many rows and columns, and writes code for each product, which is executed where the
  /// tile is its own.
  mlir::LogicalResult write_tiles(int64_t rows, int64_t columns,
                                  llvm::function_ref<mlir::LogicalResult(const Nest &)> write);
  /// Iterations of these loops together.
  mlir::Value count_of(llvm::ArrayRef<unsigned> some);
  /// Gives these loops the digits of a number.
  void place(llvm::SmallVector<mlir::Value> &at, llvm::ArrayRef<unsigned> some, mlir::Value number);

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const llvm::ArrayRef<Nest> nests;
  gpu::Elements &elements;
  llvm::SmallVector<mlir::Value> loops, extents; // values and extents
  mlir::Value row_count, column_count, first_row, first_column;
};

} // namespace heddle::contraction
