// The part of the printer below statements: expressions, places and types.
#pragma once

#include "dsl/syntax/layout.h"

namespace heddle::syntax {

// Where a line may end, loosest first.
enum Break { at_else, at_or, at_and, at_compare, at_add, at_mul, at_power, at_equals, at_comma, at_bracket };

class ExpressionPrinter {
public:
  explicit ExpressionPrinter(Layout &out) : out_(out) {}

  void expr(const Expr &e, bool space = true);
  void args(const std::vector<ExprPtr> &list);
  void places(const std::vector<Place> &list);
  void place(const Place &p, bool space);
  void names(const std::vector<Name> &list);
  /// Between the items of a list: before item `i`.
  void comma(size_t i);
  /// `= value`, on a line of its own if it must
  void equals(const Expr &value);
  void shape(const std::vector<Place> &list, bool space);
  void type(const Type &t, bool space = true);
  void formal(const Formal &f, bool space);
  void formals(const std::vector<Formal> &list);

private:
  void operand(const Expr &e, int least, bool space = true);
  void bare(const Expr &e, bool space);
  void condition(const Expr &e, bool space);
  void subscripts(const Expr &e, std::string_view before_outside);
  void in_parens(const Expr &e);
  void put(std::string_view text, bool space) { space ? out_.word(text) : out_.tight(text); }

  Layout &out_;
};

} // namespace heddle::syntax
