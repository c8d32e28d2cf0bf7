// A call's inputs against an entry's declaration: the checks that the compiled library makes at its boundary,
// with the same meaning, and the values of the dims that follow from the inputs' extents.
#pragma once

#include "dsl/check/used_tensors.h"
#include "dsl/errors/result.h"
#include "dsl/interp/interp.h"

#include <unordered_map>

namespace heddle::interp {

/// What a state holds: its value, and by number the dims with which it was written (-1: not one of its own).
struct Held {
  std::shared_ptr<const Array> value;
  std::vector<int64_t> dims;
  std::string writer; // the entry
};
using States = std::unordered_map<const Tensor *, Held>;

struct Bound {
  std::vector<int64_t> dims; // 0 where neither input nor state binds it: then nothing of the entry has that dim
  std::unordered_map<const Tensor *, std::shared_ptr<const Array>> inputs;
};

/// Validates `inputs` for `entry`. `states` are those set by earlier calls; an entry that reads one takes its dims from
/// it, or must agree with it. A dim of a state with an initial value that nothing tells is its declared bound.
Result<Bound> bind_call(const Program &program, const Entry &entry, const std::map<std::string, Array> &inputs,
                        const States &states);

/// "[2, 3]"
std::string shape_text(const std::vector<int64_t> &shape);

} // namespace heddle::interp
