// Arithmetic: independent chains of an instruction on all registers. Bandwidth: summing or copying a buffer, far larger
// than the caches or of a given size.
#include "compiler/tune/roof.h"

#include "compiler/tune/turns.h"
#include "runtime/cpu_features.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <immintrin.h>
#include <thread>
#include <vector>

namespace heddle {

// Latency 4 times 2 units, and some to spare: with 12 of them a Zen 5's vdpbf16ps reaches 92 % of what it does with 16.
static constexpr int chains_256 = 12, chains_512 = 16;

__attribute__((target("avx512f"))) static float fma_512(long rounds) {
  __m512 sum[chains_512], factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (auto &s : sum)
    s = factor;
  for (long i = 0; i < rounds; ++i)
    for (auto &s : sum)
      s = _mm512_fmadd_ps(s, factor, term);
  float out = 0;
  for (auto &s : sum)
    out += _mm512_reduce_add_ps(s);
  return out;
}

__attribute__((target("avx2,fma"))) static float fma_256(long rounds) {
  __m256 sum[chains_256], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (auto &s : sum)
    s = factor;
  for (long i = 0; i < rounds; ++i)
    for (auto &s : sum)
      s = _mm256_fmadd_ps(s, factor, term);
  float out = 0;
  for (auto &s : sum)
    out += _mm256_cvtss_f32(s);
  return out;
}

// In assembler, which has no other spelling on compilers and CPUs that know nothing of the instruction. What doesn't
// add by itself is followed by an addition.
#define HEDDLE_CHAINS_OF(name, isa, vector, chains, instructions)                                                      \
  __attribute__((target(isa))) static float name(long rounds) {                                                        \
    vector sum[chains] = {}, factor = {}, product;                                                                     \
    for (long i = 0; i < rounds; ++i)                                                                                  \
      for (auto &s : sum)                                                                                              \
        asm(instructions : "+v"(s), "=&v"(product) : "v"(factor));                                                     \
    float out = 0;                                                                                                     \
    for (auto &s : sum)                                                                                                \
      out += s[0];                                                                                                     \
    return out;                                                                                                        \
  }
HEDDLE_CHAINS_OF(dot_bf16, "avx512f", __m512, chains_512, "vdpbf16ps %2, %2, %0")
HEDDLE_CHAINS_OF(dot_u8s8, "avx512f", __m512, chains_512, "vpdpbusd %2, %2, %0")
HEDDLE_CHAINS_OF(dot_u8s8_avx, "avx2", __m256, chains_256, "%{vex%} vpdpbusd %2, %2, %0")
HEDDLE_CHAINS_OF(madd_u8s8, "avx2", __m256, chains_256,
                 "vpmaddubsw %2, %2, %1\n\tvpmaddwd %2, %1, %1\n\tvpaddd %1, %0, %0")
HEDDLE_CHAINS_OF(madd_512, "avx512f", __m512, chains_512, "vpmaddwd %2, %2, %1\n\tvpaddd %1, %0, %0")
HEDDLE_CHAINS_OF(madd_256, "avx2", __m256, chains_256, "vpmaddwd %2, %2, %1\n\tvpaddd %1, %0, %0")
#undef HEDDLE_CHAINS_OF

/// Tiles of 16 rows of 64 bytes, all of which are set up: numbers 0 to 3 are sums, 4 to 7 are multiplied two by two.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, first_row = 0, unused[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

static constexpr int tile_chains = 4;

/// Numbers of bf16 between 0.5 and 2, of either sign, for four tiles; as bytes they are of all sorts. Zeros would let a
/// processor multiply faster than it can: an Emerald Rapids lowers its clock for numbers, to 0.84 of what it does
/// otherwise.
struct alignas(64) TileNumbers {
  uint16_t numbers[4][512];
  constexpr TileNumbers() : numbers() {
    uint32_t bits = 1;
    for (auto &tile : numbers)
      for (uint16_t &number : tile) {
        bits = bits * 1664525 + 1013904223;
        number = uint16_t(0x3f00 | (bits >> 16 & 0x80ff));
      }
  }
};
static constexpr TileNumbers tile_numbers;

#define HEDDLE_TILES_OF(name, isa, multiply)                                                                           \
  __attribute__((target("amx-tile," isa))) static float name(long rounds) {                                            \
    TileConfiguration configuration;                                                                                   \
    _tile_loadconfig(&configuration);                                                                                  \
    _tile_zero(0), _tile_zero(1), _tile_zero(2), _tile_zero(3);                                                        \
    _tile_loadd(4, tile_numbers.numbers[0], 64), _tile_loadd(5, tile_numbers.numbers[1], 64);                          \
    _tile_loadd(6, tile_numbers.numbers[2], 64), _tile_loadd(7, tile_numbers.numbers[3], 64);                          \
    for (long i = 0; i < rounds; ++i)                                                                                  \
      multiply(0, 4, 6), multiply(1, 4, 7), multiply(2, 5, 6), multiply(3, 5, 7);                                      \
    _tile_release();                                                                                                   \
    return 0;                                                                                                          \
  }
HEDDLE_TILES_OF(tile_bf16, "amx-bf16", _tile_dpbf16ps)
HEDDLE_TILES_OF(tile_u8s8, "amx-int8", _tile_dpbusd)
#undef HEDDLE_TILES_OF

namespace {

/// How a micro-kernel's limit is measured.
struct Chains {
  const char *micro_kernel, *instruction, *type;
  uint32_t needs;    // HEDDLE_CPU_* of the code here
  uint32_t but_with; // and not with these: another row is for them
  float (*work)(long rounds);
  int instructions; // of a round
  double products;  // of an instruction
  int cycles;       // that an instruction takes at least: as many times fewer rounds take as long

  bool is_there() const {
    static const uint32_t host = heddle_host_cpu_features();
    return (needs & ~host) == 0 && (but_with & host) == 0 && heddle_is_permitted(needs);
  }
};

constexpr Chains all_chains[] = {
    {"fma", "vfmadd", "f32", HEDDLE_CPU_AVX512, 0, fma_512, chains_512, 16, 1},
    {"fma", "vfmadd", "f32", HEDDLE_CPU_AVX2, HEDDLE_CPU_AVX512, fma_256, chains_256, 8, 1},
    {"dot_bf16", "vdpbf16ps", "bf16", HEDDLE_CPU_AVX512_BF16, 0, dot_bf16, chains_512, 32, 1},
    {"dot_u8s8", "vpdpbusd", "int8", HEDDLE_CPU_AVX512_VNNI, 0, dot_u8s8, chains_512, 64, 1},
    {"dot_u8s8_avx", "vpdpbusd", "int8", HEDDLE_CPU_AVX_VNNI, 0, dot_u8s8_avx, chains_256, 32, 1},
    {"madd_u8s8", "vpmaddubsw", "int8", HEDDLE_CPU_AVX2, 0, madd_u8s8, chains_256, 32, 1},
    {"madd_i16", "vpmaddwd", "int8", HEDDLE_CPU_AVX512, 0, madd_512, chains_512, 32, 1},
    {"madd_i16", "vpmaddwd", "int8", HEDDLE_CPU_AVX2, HEDDLE_CPU_AVX512, madd_256, chains_256, 16, 1},
    {"tile_bf16", "tdpbf16ps", "bf16", HEDDLE_CPU_AMX, 0, tile_bf16, tile_chains, 16 * 16 * 32, 16},
    {"tile_f32", "tdpbf16ps", "f32", HEDDLE_CPU_AMX, 0, tile_bf16, tile_chains, 16 * 16 * 32 / 6., 16}, // six for one
    {"tile_u8s8", "tdpbusd", "int8", HEDDLE_CPU_AMX, 0, tile_u8s8, tile_chains, 16 * 16 * 64, 16},
};

/// Does so many rounds' work; how many operations that is.
double work(const Chains &kind, long rounds) {
  rounds = std::max(rounds / kind.cycles, 1L);
  [[maybe_unused]] volatile float sink = kind.work(rounds); // so that it is done
  return 2.0 * double(rounds) * kind.instructions * kind.products;
}

} // namespace

// Reads in four places at a time: from several, a core's prefetchers bring more than from one (on Zen 3 a quarter
// more).
constexpr size_t places = 4;

__attribute__((target("avx512f"))) static long read_512(const std::vector<long> &data) {
  __m512i sum[places] = {};
  const __m512i *at = reinterpret_cast<const __m512i *>(data.data());
  size_t each = data.size() / 8 / places;
  for (size_t i = 0; i < each; ++i)
    for (size_t j = 0; j < places; ++j)
      sum[j] = _mm512_add_epi64(sum[j], _mm512_loadu_si512(at + j * each + i));
  return _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]), _mm512_add_epi64(sum[2], sum[3])));
}

__attribute__((target("avx2"))) static long read_256(const std::vector<long> &data) {
  __m256i sum[places] = {};
  const __m256i *at = reinterpret_cast<const __m256i *>(data.data());
  size_t each = data.size() / 4 / places;
  for (size_t i = 0; i < each; ++i)
    for (size_t j = 0; j < places; ++j)
      sum[j] = _mm256_add_epi64(sum[j], _mm256_loadu_si256(at + j * each + i));
  return _mm256_extract_epi64(_mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3])), 0);
}

static constexpr int samples = 5; // the second of them counts

static long read_all(const std::vector<long> &data) {
  return __builtin_cpu_supports("avx512f") ? read_512(data) : read_256(data);
}

/// Seconds that `work` takes when each of `threads` threads does it, of some samples.
static double seconds(int threads, int samples, const std::function<void(int)> &work) {
  std::vector<double> taken;
  for (int sample = 0; sample < samples; ++sample) {
    auto begin = std::chrono::steady_clock::now();
    std::vector<std::jthread> helpers; // where one cannot be made, those before it end first
    for (int i = 1; i < threads; ++i)
      helpers.emplace_back(work, i);
    work(0);
    helpers.clear();
    taken.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return tune::undisturbed_seconds(std::move(taken));
}

Roof measure_roof(int threads) {
  volatile long sink_bytes = 0;
  constexpr long rounds = 2000000;
  Roof out;
  for (const Chains &kind : all_chains)
    if (kind.is_there()) {
      std::atomic<double> operations = 0; // of a thread
      double taken = seconds(threads, samples, [&](int) { operations = work(kind, rounds); });
      out.products.push_back({kind.micro_kernel, kind.instruction, kind.type, operations * threads / taken / 1e9});
    }
  constexpr size_t words = (128 << 20) / sizeof(long) / 2; // 64 MB each
  std::vector<std::vector<long>> data(threads, std::vector<long>(words, 1));
  double read = seconds(threads, samples, [&](int i) { sink_bytes = read_all(data[i]); });
  out.gigabytes = 8.0 * words * threads / read / 1e9;
  return out;
}

double multiply(std::string_view micro_kernel, long rounds) {
  for (const Chains &kind : all_chains)
    if (kind.micro_kernel == micro_kernel && kind.is_there())
      return work(kind, rounds);
  return 0;
}

const Roof::Products *Roof::find(std::string_view micro_kernel) const {
  for (const Products &one : products)
    if (one.micro_kernel == micro_kernel)
      return &one;
  return nullptr;
}

void Roof::raise(const Roof &other) {
  gigabytes = std::max(gigabytes, other.gigabytes);
  if (products.empty())
    products = other.products;
  for (Products &one : products)
    if (const Products *found = other.find(one.micro_kernel))
      one.gflops = std::max(one.gflops, found->gflops);
}

/// Rounds over so many bytes that starting threads doesn't count.
static long rounds_over(size_t bytes) { return std::max<long>(1, long((48 << 20) / std::max<size_t>(bytes, 1))); }
static constexpr size_t smallest = 4096; // per thread

static double read_with(int threads, size_t bytes) {
  size_t each = std::max(bytes / size_t(threads), smallest);
  std::vector<std::vector<long>> data(threads, std::vector<long>(each / sizeof(long), 1));
  long rounds = rounds_over(each);
  volatile long sink = 0;
  double taken = seconds(threads, 1, [&](int i) {
    for (long round = 0; round < rounds; ++round)
      sink = read_all(data[i]);
  });
  return double(each) * threads * rounds / taken / 1e9;
}

static double copy_with(int threads, size_t bytes) {
  size_t each = std::max(bytes / 2 / size_t(threads), smallest);
  std::vector<std::vector<char>> from(threads, std::vector<char>(each, 1)), to = from;
  long rounds = rounds_over(2 * each);
  double taken = seconds(threads, 1, [&](int i) {
    for (long round = 0; round < rounds; ++round) {
      std::memcpy(to[i].data(), from[i].data(), each);
      asm volatile("" : : "r"(to[i].data()) : "memory"); // every round counts
    }
  });
  return 2.0 * each * threads * rounds / taken / 1e9;
}

// Of a little data one thread reads more than several do.
double read_gigabytes(int threads, size_t bytes) {
  double alone = read_with(1, bytes);
  return threads == 1 ? alone : std::max(alone, read_with(threads, bytes));
}
double copy_gigabytes(int threads, size_t bytes) {
  double alone = copy_with(1, bytes);
  return threads == 1 ? alone : std::max(alone, copy_with(threads, bytes));
}

} // namespace heddle
