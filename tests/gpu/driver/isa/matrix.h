// What all tensor-core instructions share: values of elements and the product.
#pragma once

#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"

namespace ptx {

/// Kinds: F f16, B bf16, T tf32, s s8, u u8, f f32.
double element_value(char kind, u32 bits);

/// c[m, n] += a[m, k] b[k, n]
void multiply_add(const double *a, const double *b, double *c, int m, int n, int k);

} // namespace ptx
