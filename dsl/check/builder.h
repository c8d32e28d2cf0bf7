// Makes scalar expressions with everything foldable folded: constants, whole-number arithmetic on run-time sizes,
// selects with a known condition. Operands must already have the types that the operation needs; `convert` and
// `common_type` are how callers get there.
#pragma once

#include "dsl/check/program.h"

#include <functional>

namespace heddle::checking {

bool is_integer(Type type);

class Builder {
public:
  Builder() = default;
  /// What it makes belongs to `exprs`.
  explicit Builder(std::deque<Expr> &exprs) : exprs_(exprs) {}

  const Expr *integer(int64_t value);
  const Expr *real(double value, Type type);
  const Expr *boolean(bool value);
  const Expr *of_size(const Size &size);
  const Expr *index(int variable);
  const Expr *loop_index(int depth);
  const Expr *read(const Tensor *tensor, std::vector<const Expr *> at, bool always_inside, Span span);
  const Expr *select(const Expr *condition, const Expr *yes, const Expr *no);
  const Expr *convert(const Expr *value, Type type);
  /// A conversion that the author wrote: it rounds, even to the type that `value` has.
  const Expr *cast(const Expr *value, Type type);
  /// `value`, which gradients take for a constant.
  const Expr *stopped(const Expr *value);
  /// Word `word` of Philox 4x32-10.
  const Expr *philox(int word, std::vector<const Expr *> key_and_counter);
  /// An operation whose operands have one type; null where folding fails (a division by zero, a whole number too
  /// large).
  const Expr *apply(Expr::Op op, Type type, std::vector<const Expr *> args, Span span);
  /// Any node with other arguments.
  const Expr *with_args(const Expr *node, std::vector<const Expr *> args);
  /// `e` with every node replaced by what `f` makes of it, operands first: `now` is the node with its new operands.
  /// Null: that stays.
  const Expr *rewritten(const Expr *e, const std::function<const Expr *(const Expr *node, const Expr *now)> &f);

private:
  const Expr *keep(Expr e);
  const Expr *fold_whole(Expr::Op op, const std::vector<const Expr *> &args, bool &failed);
  const Expr *fold_real(Expr::Op op, Type type, const std::vector<const Expr *> &args);

  std::deque<Expr> own_, &exprs_ = own_;
};

/// The value of a constant expression (a boolean is 0 or 1).
std::optional<double> constant(const Expr *e);
std::optional<int64_t> whole_constant(const Expr *e);
std::optional<bool> truth(const Expr *e);
/// A whole number that only dims decide.
std::optional<Size> as_size(const Expr *e);

/// The type both operands of an arithmetic operation are brought to.
Type common_type(Type a, Type b);

} // namespace heddle::checking
