// A call's inputs against an entry's declaration: the checks that the compiled library makes at its boundary,
// with the same meaning, and the values of the dims that follow from the inputs' extents.
#pragma once

#include "dsl/errors/result.h"
#include "dsl/interp/interp.h"

#include <span>
#include <unordered_map>

namespace heddle::interp {

using States = std::unordered_map<const Tensor *, std::shared_ptr<const Array>>;

struct Bound {
  std::vector<int64_t> dims; // 0 where neither input nor state binds it: then nothing of the entry has that dim
  std::unordered_map<const Tensor *, std::shared_ptr<const Array>> inputs;
};

/// Validates `inputs` for `entry`. `states` are those set by earlier calls; an entry that reads one takes its
/// dims from it, or must agree with it.
Result<Bound> bind_call(const Program &program, const Entry &entry, const std::map<std::string, Array> &inputs,
                        const States &states);

/// Tensors that the steps read or update, and dims that any of their extents or expressions mention.
struct Uses {
  std::vector<const Tensor *> tensors; // in the order of their first use
  std::vector<bool> dims;
};
Uses uses_of(const Program &program, std::span<const Step> steps);

/// "[2, 3]"
std::string shape_text(const std::vector<int64_t> &shape);

} // namespace heddle::interp
