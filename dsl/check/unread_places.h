// Of a definition, only the places that something reads: where a classifier looks at the first token alone, the last
// layer's feed-forward sublayer is computed for that token, and so are its gradients.
#pragma once

#include "dsl/check/program.h"

namespace heddle::checking {

/// Cuts the dimensions of what the entry's stages define down to the places that are read, where these are a constant
/// number in a row, there in every call, and at most half of a dimension of constant extent. A dimension with one such
/// place is gone. Where that is the last one of a dimension that a call may have none of (a prompt's last token), one
/// of one place or none stays. What is not read at all must be gone already; `whole`, outputs, and what updates and
/// loops take as a whole stay as they are.
void leave_out_unread_places(Program &program, Entry &entry, const std::vector<const Tensor *> &whole);

} // namespace heddle::checking
