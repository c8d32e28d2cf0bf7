// What a signature says: arguments fit it and bind its sizes, results are what it promises.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Conversions;
class Expressions;

class Signatures : Services {
public:
  Signatures(Context &context, Conversions &conversions, Expressions &expressions)
      : Services(context), conversions_(conversions), expressions_(expressions) {}

  /// Binds a parameter to its argument: the first round binds sizes, the last one tells whether all shapes agree.
  bool bind_formal(const syntax::Formal &formal, Entity arg, const Tree &at, Frame &callee, bool last_round);
  /// Whether a declared shape is `actual`; `named`: that with the extents' names as declared. `may_bind`: sizes and
  /// packs that mean nothing yet.
  bool check_shape(const std::vector<syntax::Place> &declared, const std::vector<Extent> &actual, Frame &frame,
                   bool may_bind, std::vector<Extent> &named);
  /// Whether a result has its type's numbers: those of an `index(N)` must be known to be less than N.
  bool check_range(const syntax::Type &type, const Entity &value, Frame &frame, Span at);
  /// What a function gives that has been run, as its signature promises.
  Entity results(const syntax::Function &f, Frame &callee);
  /// Reports sizes that bind nothing: they stand in one place only.
  void check_size_names(const syntax::Function &f, FileScope *home, Instance *self);

private:
  /// Whether all its numbers are known to be indices below `range`.
  bool are_below(const Entity &value, const Size &range, Span at);

  Conversions &conversions_;
  Expressions &expressions_;
  std::set<const syntax::Function *> size_names_checked_;
};

} // namespace heddle::checking
