/* Functions that are compiled for x86 and for NVPTX, at -O1 to -O3, and must give equal bits on both (differential.cc).
   Each one makes the compiler use other instructions: shifts of 64 bits, switches, calls, arrays, loops, conversions.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define FLOAT(x) __builtin_bit_cast(float, (u32)(x))
#define DOUBLE(x) __builtin_bit_cast(double, (u64)(x))
#define BITS(x) ((u64) __builtin_bit_cast(u32, (float)(x)))
#define BITS64(x) __builtin_bit_cast(u64, (double)(x))
/* A number of ordinary size, of 24 bits. */
#define SMALL(x) ((float)((s32)(x) >> 8) * 0x1p-12f)

/* A table, a row for each function. */
/* clang-format off */
#define ALL(F) \
  F(add, a + b) \
  F(multiply, a *b + c) \
  F(high_product, (u64)(((unsigned __int128)a * b) >> 64)) \
  F(quotient32, (u32)a / ((u32)b | 1)) \
  F(remainder32, (u32)a % ((u32)b | 1)) \
  F(signed_quotient32, (u64)((s32)a / ((s32)(b >> 8) | 1))) \
  F(quotient64, a / (b | 1)) \
  F(signed_quotient64, (u64)((s64)a / ((s64)(b >> 1) | 1))) \
  F(signed_remainder64, (u64)((s64)a % ((s64)(b >> 1) | 1))) \
  F(by_seven, a / 7 + (u32)b / 7 + (u64)((s32)c / 7) + a % 10) \
  F(shift, a << (b & 63) ^ a >> (c & 63)) \
  F(shift32, (u32)a << (b & 31) ^ (u32)a >> (c & 31)) \
  F(arithmetic_shift, (u64)((s64)a >> (b & 63))) \
  F(rotate, a << (b & 63) | a >> (-b & 63)) \
  F(rotate32, (u32)a << (b & 31) | (u32)a >> (-b & 31)) \
  F(narrow, (u64)(s64)((s8)a + (s16)b) + (u8)c + (u16)a) \
  F(narrow_product, (u64)(s64)((s16)a * (s16)b) ^ (u8)(b * c)) \
  F(bits, (u64)__builtin_popcountll(a) + (u64)__builtin_clzll(b | 1) * 100 + (u64)__builtin_ctzll(c | 1ull << 63) * 10000) \
  F(bits32, (u64)__builtin_popcount((u32)a) + (u64)__builtin_clz((u32)b | 1)) \
  F(reversed, __builtin_bitreverse64(a) ^ __builtin_bitreverse32((u32)b)) \
  F(swapped, __builtin_bswap64(a) ^ __builtin_bswap32((u32)b)) \
  F(logic, (a & b) | (~a & c)) \
  F(logic3, (a ^ b ^ c) & (a | b)) \
  F(extremes, (a < b ? a : b) ^ ((s64)a > (s64)c ? a : c)) \
  F(extremes32, ((u32)a < (u32)b ? (u32)a : (u32)b) ^ (u32)((s32)a > (s32)c ? (s32)a : (s32)c)) \
  F(absolute, (u64)((s64)a < 0 ? -(s64)(a | 1) : (s64)a) ^ (u32)((s32)b < 0 ? -(b | 1) : b)) \
  F(compare, (u64)(a < b) + (u64)((s64)b <= (s64)c) * 2 + (u64)(a == c) * 4 + (u64)((u32)a > (u32)b) * 8) \
  F(float_sum, BITS(SMALL(a) + SMALL(b) * SMALL(c))) \
  F(float_product, BITS(SMALL(a) * SMALL(b) - SMALL(c))) \
  F(float_quotient, BITS(SMALL(a) / (SMALL(b) + 1e6f))) \
  F(float_root, BITS(__builtin_sqrtf(SMALL(a) * SMALL(a) + 1))) \
  F(float_fused, BITS(__builtin_fmaf(SMALL(a), SMALL(b), SMALL(c)))) \
  F(float_sign, BITS(__builtin_copysignf(SMALL(a), SMALL(b)))) \
  F(float_rounded, BITS(__builtin_floorf(SMALL(a)) + __builtin_ceilf(SMALL(b)) * 3 + __builtin_truncf(SMALL(c)) * 5)) \
  F(float_extremes, BITS(SMALL(a) < SMALL(b) ? SMALL(a) : SMALL(c))) \
  F(double_sum, BITS64((double)(s64)a + (double)b * (double)(s32)c)) \
  F(double_quotient, BITS64((double)(s64)a / ((double)b + 1))) \
  F(double_root, BITS64(__builtin_sqrt((double)a))) \
  F(to_float, BITS((float)(s32)a) ^ BITS((float)(u32)b) << 32) \
  F(to_float64, BITS((float)(s64)a) ^ BITS((float)b) << 32) \
  F(to_double, BITS64((double)(s64)a) ^ BITS64((double)b)) \
  F(from_float, (u64)(s64)(s32)SMALL(a) ^ (u64)(s64)SMALL(b) ^ (u64)(u32)__builtin_fabsf(SMALL( c))) \
  F(from_double, (u64)(s64)((double)(s32)a * 1.5) ^ (u64)(s32)((double)(s32)b * 0.25)) \
  F(narrowed, BITS((float)((double)a * 1e-3))) \
  F(half, BITS((float)(_Float16)SMALL(a) * (float)(_Float16)0.333f)) \
  F(through_half, BITS((float)(_Float16)(SMALL(a) * 0.01f))) \
  F(branches, branches(a, b, c)) \
  F(table, table(a, b)) \
  F(loop, loop(a, b)) \
  F(greatest_divisor, greatest_divisor(a, b)) \
  F(array, array(a, b)) \
  F(called, called(a, b) + called(c, a)) \
  F(hash, hash(a, b, c)) \
  F(collatz, collatz((u32)a % 1000 + 1)) \
  F(polynomial, polynomial(SMALL(a) * 1e-3f)) \
  F(structure, structure(a, b, c))
/* clang-format on */

static u64 branches(u64 a, u64 b, u64 c) {
  switch (a % 9) {
  case 0:
    return b + c;
  case 1:
    return b - c;
  case 2:
    return b * c;
  case 3:
    return b ^ c;
  case 4:
    return b & c;
  case 5:
    return b | c;
  case 7:
    return ~b;
  default:
    return a & 64 ? b : c;
  }
}

static const u16 numbers[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
static u64 table(u64 a, u64 b) { return numbers[a & 15] * 1000u + numbers[b & 15]; }

static u64 loop(u64 a, u64 b) {
  u64 sum = b;
  for (u32 i = 0; i < (a & 31); i++)
    sum = i & 1 ? sum * 3 + i : sum ^ (sum >> 7);
  return sum;
}

static u64 greatest_divisor(u64 a, u64 b) {
  a >>= 40, b >>= 44;
  while (b) {
    u64 r = a % b;
    a = b, b = r;
  }
  return a;
}

static u64 array(u64 a, u64 b) { /* local memory */
  u32 v[16];
  for (int i = 0; i < 16; i++)
    v[i] = (u32)(a >> i) * 2654435761u;
  for (int i = 0; i < 16; i++) {
    u32 j = (b >> (4 * i)) & 15, t = v[i];
    v[i] = v[j], v[j] = t;
  }
  u64 sum = 0;
  for (int i = 0; i < 16; i++)
    sum = sum * 31 + v[i];
  return sum;
}

__attribute__((noinline)) static u64 called(u64 a, u64 b) { return a > b ? a - b * 3 : (b ^ a) + 7; }

static u64 hash(u64 a, u64 b, u64 c) {
  u64 h = 1469598103934665603ull;
  u64 all[3] = {a, b, c};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 8; j++)
      h = (h ^ (u8)(all[i] >> (8 * j))) * 1099511628211ull;
  return h;
}

static u64 collatz(u32 n) {
  u64 steps = 0;
  while (n != 1 && steps < 500) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    steps++;
  }
  return steps;
}

static u64 polynomial(float x) {
  float y = 0.25f;
  for (int i = 0; i < 8; i++)
    y = y * x + (float)i;
  return BITS(y);
}

struct Parts {
  u8 tag;
  u32 number;
  u64 wide;
};
__attribute__((noinline)) static struct Parts parts_of(u64 a, u64 b) {
  struct Parts p = {(u8)a, (u32)(b >> 16), a ^ b};
  return p;
}
static u64 structure(u64 a, u64 b, u64 c) {
  struct Parts p = parts_of(a, b), q = parts_of(b, c);
  return p.tag + q.number + (p.wide ^ q.wide);
}

#ifdef __NVPTX__
#define KERNEL(name, expression)                                                                                       \
  __attribute__((nvptx_kernel)) void name##_kernel(const u64 *x, const u64 *y, const u64 *z, u64 *out) {               \
    u32 i = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();             \
    u64 a = x[i], b = y[i], c = z[i];                                                                                  \
    (void)b, (void)c;                                                                                                  \
    out[i] = expression;                                                                                               \
  }
ALL(KERNEL)
#else
#define ON_X86(name, expression)                                                                                       \
  static u64 name##_(u64 a, u64 b, u64 c) {                                                                            \
    (void)b, (void)c;                                                                                                  \
    return expression;                                                                                                 \
  }
ALL(ON_X86)
#define ROW(name, expression) {#name, name##_},
const struct {
  const char *name;
  u64 (*function)(u64, u64, u64);
} differential_functions[] = {ALL(ROW){0, 0}};
#endif
