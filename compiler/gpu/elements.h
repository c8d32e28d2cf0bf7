// The elements of a kernel's tensors as scalar code: loads of what lies in memory, formulas of everything else. Whoever
// schedules a kernel says what lies in memory; the rest is computed where it is read.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::gpu {

/// A tensor in memory: dense and row-major.
struct Stored {
  mlir::Value address;                    // !llvm.ptr of its memory space
  llvm::SmallVector<mlir::Value> extents; // index values
  mlir::Type element;                     // of the tensor; an i1 takes a byte
};

/// Threads of a warp, a power of two of them, that compute elements together.
struct Lanes {
  int64_t count;
  mlir::Value number;                                         // of this one: an index value
  std::function<mlir::Value(mlir::Value, int32_t)> exchanged; // what the lane has whose number differs in these bits
};

/// What combines the terms of a reduction, where terms may be combined in any order and number; null otherwise.
mlir::Operation *combiner_of(mlir::linalg::LinalgOp op);

class Elements {
public:
  /// Code is made at the builder's place.
  Elements(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  /// Says what scalar, or what tensor in memory, a value of the kernel is.
  void define(mlir::Value value, mlir::Value code) { scalars_.map(value, code); }
  void define(mlir::Value tensor, Stored place) { stored_[tensor] = std::move(place); }
  mlir::Value scalar(mlir::Value value) const { return scalars_.lookup(value); }
  /// Repeats an op of the kernel on scalars.
  void repeat(mlir::Operation *op) { b.clone(*op, scalars_); }

  /// A tensor's element; null where this has no form in a kernel, which was reported.
  mlir::Value element(mlir::Value tensor, mlir::ValueRange place);
  /// Until `take_back` every element of the tensor that is asked for is this one.
  void give(mlir::Value tensor, mlir::Value element) { given_.map(tensor, element); }
  void take_back(mlir::Value tensor) { given_.erase(tensor); }
  /// From now on the tensor's elements are computed although it is stored: it is still being written.
  void hide(mlir::Value tensor) { hidden_.insert(tensor); }
  /// A value of an op's body at a place of all of its loops; null after an error.
  mlir::Value inner(mlir::linalg::LinalgOp op, mlir::Value value, mlir::ValueRange loops);
  /// Where in memory an element lies that an op's body reads, an argument of the body or a tensor.extract, at a place
  /// of all of its loops; nothing where the tensor isn't stored.
  std::optional<mlir::Value> address_of(mlir::linalg::LinalgOp op, mlir::Value read, mlir::ValueRange loops);
  /// What an op computes at a place of its parallel loops (outermost first): the elements of its results. Reductions go
  /// over all terms in order. Empty after an error.
  llvm::SmallVector<mlir::Value> compute(mlir::linalg::LinalgOp op, mlir::ValueRange parallel);
  /// What a reduction has after one more term, at a place of all of its loops; empty after an error.
  llvm::SmallVector<mlir::Value> next(mlir::linalg::LinalgOp op, mlir::ValueRange loops, mlir::ValueRange before);
  /// While one of these lives, an element is loaded or computed once for each place, given by the same values; all code
  /// must be made in one block.
  class Remembering {
  public:
    explicit Remembering(Elements &elements) : elements_(elements) { elements_.remembers_ = true; }
    ~Remembering() { elements_.remembers_ = false, elements_.remembered_.clear(); }
    Remembering(const Remembering &) = delete;

  private:
    Elements &elements_;
  };
  /// While one of these lives, nothing is remembered: what is made in a loop is not there behind it.
  class Forgetting {
  public:
    explicit Forgetting(Elements &elements) : elements_(elements), was_(std::exchange(elements.remembers_, false)) {}
    ~Forgetting() { elements_.remembers_ = was_; }
    Forgetting(const Forgetting &) = delete;

  private:
    Elements &elements_;
    const bool was_;
  };
  /// From now on these lanes share the terms of reductions that have a combiner; all of them have the result.
  void share(Lanes lanes) { lanes_ = std::move(lanes); }
  /// The place of result `number` at which compute's element belongs.
  llvm::SmallVector<mlir::Value> place_of(mlir::linalg::LinalgOp op, unsigned number, mlir::ValueRange parallel);

  mlir::Value load(const Stored &from, mlir::ValueRange place);
  void store(const Stored &to, mlir::ValueRange place, mlir::Value element);
  /// To a tensor that was defined as stored.
  void store(mlir::Value tensor, mlir::ValueRange place, mlir::Value element) {
    store(stored_.at(tensor), place, element);
  }
  /// The extents of an op's loops.
  llvm::SmallVector<mlir::Value> loop_extents(mlir::linalg::LinalgOp op);
  /// A formula over the kernel's sizes.
  mlir::Value size(mlir::AffineExpr formula, mlir::Operation *kernel);

private:
  mlir::Value address(const Stored &tensor, mlir::ValueRange place);
  llvm::SmallVector<mlir::Value> apply(mlir::AffineMap map, mlir::ValueRange loops);
  /// Writes what some values of an op's body come from, at a place of all of its loops, with what its results have
  /// there so far. Empty after an error.
  llvm::SmallVector<mlir::Value> body(mlir::linalg::LinalgOp op, mlir::ValueRange wanted, mlir::ValueRange loops,
                                      mlir::ValueRange before);
  /// A choice of a body, and what each of its arms alone needs.
  struct Choice {
    mlir::arith::SelectOp select;
    std::array<llvm::DenseSet<mlir::Value>, 2> arms;
  };
  bool reads(mlir::linalg::LinalgOp op, mlir::Value value) const;
  llvm::SmallVector<Choice> choices(mlir::linalg::LinalgOp op, mlir::ValueRange wanted,
                                    llvm::DenseSet<mlir::Value> &needed) const;
  /// Writes the values of a body that are needed for some of them; false after an error.
  bool write(mlir::linalg::LinalgOp op, mlir::ValueRange wanted, llvm::DenseSet<mlir::Value> needed,
             mlir::ValueRange loops, mlir::IRMapping &map);
  mlir::Value chosen(mlir::linalg::LinalgOp op, const Choice &choice, mlir::ValueRange loops,
                     const mlir::IRMapping &map);
  mlir::Value made(mlir::Value tensor, mlir::ValueRange place);
  mlir::Value extracted(mlir::Value tensor, mlir::ValueRange place);
  /// The nearest place in the tensor; empty after an error.
  llvm::SmallVector<mlir::Value> inside(mlir::Value tensor, mlir::ValueRange place);
  bool is_stored(mlir::Value tensor) const { return stored_.contains(tensor) && !hidden_.contains(tensor); }

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::IRMapping scalars_, given_;
  Lanes lanes_{1, {}, {}};
  bool remembers_ = false;
  std::map<std::pair<void *, std::vector<void *>>, mlir::Value> remembered_; // by tensor and place
  llvm::DenseSet<mlir::Value> hidden_;
  llvm::DenseMap<mlir::Value, Stored> stored_;
};

} // namespace heddle::gpu
