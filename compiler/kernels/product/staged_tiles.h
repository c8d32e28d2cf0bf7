// Products on a GPU, staged: variants of the kinds contraction and convolution.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle::contraction {

extern const Variant staged_tiles, tensor_tiles;

} // namespace heddle::contraction
