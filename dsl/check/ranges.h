// What an index ranges over: what is written (`i in N`, `n in (y in Y, x in X)`), or what its bare uses as a subscript
// say. Binds the index to that range.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;
class Subscripts;

/// An index (or a pack of them) that has been bound.
struct Binder {
  std::string name;
  bool pack = false;
  std::vector<int> variables;
  std::vector<std::string> pieces = {}; // of a merged index: their names
};

class Ranges : Services {
public:
  Ranges(Context &context, Expressions &expressions, Subscripts &subscripts)
      : Services(context), expressions_(expressions), subscripts_(subscripts) {}

  /// The extents over which index (or pack) `name` ranges, from its bare uses in `uses`; reports when there is none.
  std::optional<std::vector<Extent>> inferred(const syntax::Name &name, bool pack,
                                              const std::vector<const Tree *> &uses, Frame &frame);
  /// What `in` says: `N`, or the product of the pieces' extents.
  std::optional<Extent> range_of(const syntax::Place &place, Frame &frame);
  /// `first .. end`: its first value and the number of values.
  std::optional<std::pair<Size, Size>> range(const Tree &first, const Tree &end, Frame &frame);
  std::optional<Binder> bind_index(const syntax::Name &name, bool pack, const std::vector<Extent> &extents,
                                   Frame &frame);
  /// Binds y and x of `n in (y in Y, x in X)`; false after a report.
  bool bind_pieces(const syntax::Place &place, Binder &binder, Frame &frame);
  void release(const Binder &binder, Frame &frame);

private:
  struct Use {
    std::vector<Extent> extents;
    Span span;
  };
  std::optional<std::vector<Extent>> shape_of(const Tree &e, Frame &frame);
  void bare_uses(const Tree &e, const std::string &name, bool pack, Frame &frame, std::vector<Use> &out);
  void report_no_range(const syntax::Name &name, Frame &frame);

  Expressions &expressions_;
  Subscripts &subscripts_;
  Span reused_;                   // where the last search for a range met the index's name again
  const Tree *guarded_ = nullptr; // a bare use of that name that the same search passed over
};

} // namespace heddle::checking
