// `y[b, i] = …`: a stage for each tensor on the left.
#pragma once

#include "dsl/check/ranges.h"

namespace heddle::checking {

class Expressions;

class Definitions : Services {
public:
  Definitions(Context &context, Expressions &expressions, Ranges &ranges)
      : Services(context), expressions_(expressions), ranges_(ranges) {}

  void define(const syntax::Stmt &s, Frame &frame);

private:
  /// Where on the left side a definition stands: the constant places, and the loop that gives the last one.
  struct Slot {
    std::vector<std::optional<int64_t>> places;
    int loop_axis = -1, loop_depth = -1;
    Scope *slices = nullptr;
  };
  bool slot_of(const syntax::Target &target, const Tree &right, Frame &frame, Slot &slot, std::vector<Binder> &binders);
  void put_defined(const syntax::Target &target, const Tensor *tensor, const Slot &slot, Frame &frame);

  Expressions &expressions_;
  Ranges &ranges_;
};

} // namespace heddle::checking
