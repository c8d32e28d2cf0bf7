// How the rows or columns of a tile come to shared memory, some terms of each line at a time: in groups of 16 bytes, of
// which a line has four. These change places from line to line, so that eight lines reach different banks, whether
// threads write them, read groups of neighbouring lines or matrices (ldmatrix). Groups that lie in memory as they are
// staged are copied while threads compute (cp.async); of others each thread makes its own, and writes them when it has
// computed. Where only the run tells whether a group lies so (its pitch is a run-time size, or it is the last one of a
// line that is no whole number of groups), threads ask of each.
#pragma once

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"
#include "compiler/kernels/product/nest.h"

namespace heddle::contraction {

/// Bytes of a group of terms, groups of a line, bytes of a line.
inline constexpr int64_t group_bytes = 16, groups = 4, line_bytes = groups * group_bytes;
/// Threads of a block.
inline constexpr int64_t threads_of_tile = 256;

/// Terms of a type that a line holds.
inline int64_t terms_of_line(mlir::Type element) { return line_bytes / (int64_t(element.getIntOrFloatBitWidth()) / 8); }

/// Which of a product's lines a block brings.
struct Lines {
  const Factor *factor;
  llvm::ArrayRef<unsigned> loops; // that number them
  int64_t count;                  // at a time
  mlir::Value first, end;         // of them; those from `end` on are 0
};

/// Which groups of a factor the device copies: those that begin at a multiple of their bytes, and end in their line.
enum class Copied { none, where_aligned, all };

class Staging : gpu::Arithmetic {
public:
  /// `loops`: values of the product's loops that all lines have in common, null where they have not. `extents`: of all
  /// loops. `buffers`: places for so many lines of shared memory.
  Staging(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest, mlir::Type element, Lines lines,
          mlir::ValueRange loops, mlir::ValueRange extents, mlir::Value buffers);

  /// Begins to bring the lines' terms from `first_term` on to a buffer. Failure was reported.
  mlir::LogicalResult fetch(mlir::Value first_term, mlir::Value term_count, mlir::Value buffer);
  /// Writes what threads fetched themselves.
  void put(mlir::Value buffer);
  /// Where a group lies in a buffer, in bytes.
  mlir::Value place(mlir::Value buffer, mlir::Value line, mlir::Value group);

  static Copied copies(const Nest &nest, const Factor &factor, mlir::Type element);

private:
  /// A group that this thread brings.
  struct Group {
    mlir::Value line, number, inside; // of the line among the tile's, in the line, whether the line is one
    llvm::SmallVector<mlir::Value> loops;
  };
  /// What a thread has made of a group, and whether it has: a condition, null where it always has.
  struct Made {
    mlir::Value terms, is_made;
  };
  mlir::FailureOr<Made> bring(const Group &group, mlir::Value term, mlir::Value term_count, mlir::Value buffer);
  mlir::Value lies_whole(mlir::Value from, mlir::Value last_loop, mlir::Value is_read);
  mlir::Value term_or_zero(const Group &group, mlir::Value term, mlir::Value term_count);
  mlir::Value gathered(const Group &group, mlir::Value term, mlir::Value term_count, mlir::Value asked);
  llvm::SmallVector<mlir::Value> at_term(const Group &group, mlir::Value term);
  void where(mlir::Value condition, llvm::function_ref<void()> write);

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const Nest &nest;
  const mlir::Type element;
  const Lines lines;
  const llvm::SmallVector<mlir::Value> extents;
  const mlir::Value buffers;
  const int64_t of_group; // terms
  mlir::Value value;      // of the body
  PlainRead plain;        // of what is copied
  Copied copied;
  bool led_by_data; // where nothing is copied from, data are not read either
  llvm::SmallVector<Group> own;
  mlir::Value has_own; // whether this thread has them; null: all have
  llvm::SmallVector<Made> made;
};

} // namespace heddle::contraction
