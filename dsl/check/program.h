// A checked program: what the interpreter evaluates and the compiler imports. Configs are folded, calls
// inlined, sub-modules resolved, loops over configs unrolled, and every reduction is a stage of its own.
// What remains per entry is a list of steps over tensors; in each stage one scalar expression is given
// for each point of an index space. Places of a definition that nothing reads are gone (unread_places.h), and with a
// single one that is read its index. Nothing here can fail: all rules of the language hold.
//
//   y[..s, o] = sum[i](x[..s, i] * weight[o, i]) + bias[o]     becomes, for x: real[B, S, 768],
//
//   stage y.sum  space (B, S, 512)  over (768)  reducer sum   value  x[#0, #1, #3] * weight[#2, #3]
//   stage y      space (B, S, 512)              reducer none  value  y.sum[#0, #1, #2] + bias[#2]
#pragma once

#include "dsl/check/size.h"
#include "dsl/errors/source.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle {

/// A configuration value, as `--set` and config.json give it. A nested object is a dotted key.
struct SettingValue {
  std::variant<bool, int64_t, double, std::string, std::vector<SettingValue>> what;
};

enum class Type { f32, f16, bf16, i32, i8, boolean };
/// As the language spells it.
const char *type_name(Type type);
/// Of real numbers; the others are whole or true and false.
bool is_floating(Type type);

struct Tensor {
  enum Kind { input, weight, state, stage, carried } kind;
  std::string name; // unique within the program: path of the module, then the author's name ("layers.3.attn.s")
  Type type;
  std::vector<Size> shape; // row-major; empty for a scalar
  Span span;
};

struct Expr {
  // clang-format off: the operations in groups
  enum Op {
    // leaves
    integer,    // `whole`, type i32
    real,       // `number` (may be infinite), a floating-point type
    boolean,    // `whole` 0 or 1
    index,      // value of index `position` of the stage: its space, then its over; i32
    loop_index, // value of the enclosing loop `position` (0 is the outermost); i32
    size,       // value of `extent`; i32
    read,       // element of `tensor` at `args` (one i32 expression per dimension)
    // arithmetic, operands of one type (integers: div is absent; floor_div and mod round down)
    add, sub, mul, div, floor_div, mod, power, negate, minimum, maximum, absolute,
    // comparison of two operands of one type; logic
    less, less_equal, greater, greater_equal, equal, not_equal, logical_and, logical_or, logical_not,
    select, // args[0] ? args[1] : args[2]; a read in an arm that isn't taken has no effect
    cast,   // args[0] converted to `type`
    // functions of one real
    exp, log, sqrt, sin, cos, tanh, erf, floor,
    // word `whole` (0 to 3) of Philox 4x32-10: args are the two words of a key and the four of a counter; all are i32
    philox,
  } op;
  // clang-format on
  Type type;
  std::vector<const Expr *> args;
  double number = 0;
  int64_t whole = 0;
  int position = -1;
  const Tensor *tensor = nullptr;
  Size extent; // of op size
  /// read: proven within the tensor at every point of the stage. Otherwise only where the selects around
  /// it (or the stage's users) take it; an evaluation elsewhere must not fault and its value is not used.
  bool always_inside = true;
  /// cast: the author wrote it, so that it rounds. What the checker converts is rounded where it is stored.
  bool rounds = false;
  /// Gradients take it for a constant: the author wrote `stop(…)` around it.
  bool stopped = false;
  Span span;
};

/// Every node of `e` once, operands first; without what reads are subscripted by where `inside_reads` is false.
std::vector<const Expr *> nodes_of(const Expr *e, bool inside_reads = true);
bool is_comparison(Expr::Op op);

struct Index {
  std::string name; // the author's
  Size extent;
};

enum class Reducer { none, sum, prod, max, min, argmax, argmin, any, all };

/// Defines `result` at each point of `space`. `where` conditions and outside values are already selects
/// in `value`; `mean` is a sum and a division. argmax and argmin give the first best position (i32).
/// A sum over no terms is 0, prod 1, max -inf, min inf, any false, all true.
struct Stage {
  const Tensor *result;
  std::vector<Index> space; // one per dimension of result, in its order
  Reducer reducer = Reducer::none;
  std::vector<Index> over; // empty when reducer is none
  const Expr *value;
  /// Its whole numbers have 64 bits, in which none of them overflows, as proofs know no overflow: requirements, and
  /// what an entry computes of single numbers. Those of other stages have 32.
  bool exact = false;
  bool backward = false; // a gradient is made by it
  Span span;
  /// The calls that led here, outermost first: for messages and profiles.
  std::vector<Span> calls;
};

struct Step;

/// for index in extent with carried { steps }, over a run-time size or an unrollable constant.
/// On entry each carried tensor holds `start`; after each iteration it takes `next`. Afterwards readers read the
/// carried tensor itself: its value is the last one.
/// `collected` tensors get dimension `axis` from the loop: iteration t writes slice t of `whole` from `slice`.
struct Loop {
  struct Carried {
    const Tensor *carried, *start, *next;
  };
  struct Collected {
    const Tensor *whole, *slice;
    int axis;
  };
  Index index;
  std::vector<Carried> carried;
  std::vector<Collected> collected;
  std::vector<Step> steps;
  Span span;
};

/// state <- value. All updates of an entry take effect at its end; reads of the state see the old value. Updates of
/// one entry never overlap, nor do those that one makes in different iterations of a loop, so their order means
/// nothing.
///
///   k[2, h, seen + t] <- new[h, t]    place  {2, 1, not in value}  {0, H, in value}  {seen, T, in value}
struct Update {
  /// Along one dimension of the state the value takes the places from `offset` to `offset + extent - 1`, proven to be
  /// places of the state from the entry's requirements (of no place, where extent is 0, offset may be any).
  struct Along {
    const Expr *offset; // i32, without indices: of whole numbers, dims, loop indices, elements of tensors (seen[])
    Size extent;
    bool in_value; // whether this is a dimension of `value`, too; else the offset is one place, and extent is 1
  };
  const Tensor *state, *value; // value is a stage's result
  std::vector<Along> place;    // one per dimension of the state; empty: the value is the whole new state
  Span span;
};

/// May stand in a loop. The entry fails with `message` unless `condition` (a boolean scalar tensor) holds.
struct Require {
  const Tensor *condition;
  std::string message;
  Span span;
};

struct Step {
  std::variant<Stage, Loop, Update, Require> what;
};

struct Dim {
  std::string name;
  std::optional<int64_t> most; // its declared bound
  Span span;
};

struct Weight {
  const Tensor *tensor;           // the shape that the program sees
  std::vector<std::string> names; // paths in the weights file, in the order in which they are tried
  std::vector<int64_t> stored;    // shape in the file: same element count, row-major view
};

/// Without a first value (`initial`, `begins`) an entry that reads the state fails until some entry has updated all of
/// it.
struct State {
  const Tensor *tensor;
  std::optional<double> initial;     // of every element
  std::optional<int64_t> below = {}; // index(N): every value lies in 0 .. N - 1
  const Tensor *begins = nullptr;    // a param that entries update: the weight that it is at first

  bool has_first() const { return initial || begins; }
};

struct Input {
  std::string name;
  const Tensor *tensor;
  std::optional<Size> below;     // index(N): every value must lie in 0 .. N - 1
  std::optional<double> initial; // the value of every element where the caller gives none
};

struct Output {
  std::string name;
  const Tensor *tensor;
};

struct Entry {
  std::string name;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Step> steps; // only what the outputs, updates and requirements need
  Span span;
};

struct Program {
  std::string name; // of the model
  /// A `config` with the value that it has, and where that came from.
  struct Setting {
    std::string name, key; // key: what it was found under
    SettingValue value;
    enum From { initial, config, asked } from; // its default; config.json; the command line
  };

  std::vector<Setting> settings;
  std::vector<Dim> dims;
  std::vector<Weight> weights; // only those that some entry reads
  std::vector<State> states;
  std::vector<Entry> entries;
  /// Subscripts such as `y * X + x` or `min(y * 65536, X - 1)` are what proofs take them for because these products,
  /// and sums of such, are whole numbers of 32 bits: a call for which one of them is not must be refused.
  std::vector<Size> products;

  std::vector<std::string> dim_names() const;

  // owners of everything pointed to above
  std::deque<Tensor> tensors;
  std::deque<Expr> exprs;
};

} // namespace heddle
