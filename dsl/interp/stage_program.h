// One stage prepared for evaluation: its expression as a list of instructions over runs of one index, the
// lane. A loop nest over the other indices surrounds the run; an instruction stands at the outermost loop
// where everything it needs is known, so nothing is computed more often than necessary. A read whose
// position is affine in the lane is a strided (or no) copy.
//
//   y.sum[b, s, o] = sum[i](x[b, s, i] * w[o, i])     lane i; nest b, s, o, i
//     after s: (nothing)    after i: r0 = run of x at (b, s), r1 = run of w at (o); result += dot(r0, r1)
#pragma once

#include "dsl/errors/result.h"
#include "dsl/interp/interp.h"

#include <unordered_map>

namespace heddle::interp {

/// What the expressions of a stage may look at.
struct Scope {
  std::unordered_map<const Tensor *, std::shared_ptr<const Array>> tensors;
  std::vector<int64_t> dims;
  std::vector<int64_t> loops; // values of the enclosing loops' indices, outermost first
  bool rounds = true;
};

/// A position along one dimension: constant + sum of per_index[i] * index i + sum of factor * register.
struct Position {
  int64_t constant = 0;
  std::vector<int64_t> per_index;
  struct Term {
    int64_t factor;
    int reg;
  };
  std::vector<Term> terms;
  bool gathered = false; // its single term is a register that varies along the lane
};

struct Read {
  const Array *from;
  const Expr *expr;
  std::vector<Position> at;
  std::vector<int64_t> strides;
  bool gathered = false;
  /// Affine in the indices alone and inside for all of them: one flat position and no test per run.
  bool flat = false;
  int64_t flat_constant = 0;
  std::vector<int64_t> flat_per_index;
};

struct Instruction {
  Expr::Op op;
  Type type;
  int out;                                // register
  int args[6] = {-1, -1, -1, -1, -1, -1}; // registers
  int index = -1;                         // for Expr::index
  int read = -1;                          // number in `reads`
  double number = 0;                      // for constants; of philox: which word
};

struct StageProgram {
  static constexpr int64_t longest_run = 512; // doubles: a few registers fit the first-level cache

  const Stage *stage;
  std::vector<int64_t> extents; // of the space, then of the over
  int lane = -1;                // an index; -1 only where there is none
  bool lane_reduced = false;    // the lane is one of the over
  std::vector<int> nest;        // indices, outermost first; the lane's runs are one of these loops
  int first_reduced = 0;        // number of loops outside the accumulation
  /// levels[0] once, levels[k] at each iteration of loop nest[k - 1].
  std::vector<std::vector<Instruction>> levels;
  std::vector<Read> reads;
  std::vector<bool> along_lane; // by register: a run of values, or one value
  int value = -1;               // register of the stage's value
  /// The value is this product, left to the accumulation: sum += a * b.
  bool fused_product = false;
  int product[2] = {-1, -1};
  bool rounds = true; // real results, to the type of their tensor
};

/// Prepares `stage`, all of whose tensors are in `scope`.
Result<StageProgram> prepare(const Stage &stage, const Scope &scope);

/// Evaluates a prepared stage at every point of its space. Fails where a read that the checker proved inside
/// its tensor isn't: a bug in Heddle, worth a message that names the read.
Result<Array> evaluate(const StageProgram &program);

} // namespace heddle::interp
