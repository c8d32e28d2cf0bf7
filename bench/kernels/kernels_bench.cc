// Each kind of kernel at the sizes of BERT-base and ViT-B/16, on one thread, with its share of the machine's limits:
//   GFLOP/s and `of_peak`, the share of the best rate of the kernel's own instruction (FMA, dot product, tiles) seen
//   around the run
//   GB/s, counting every tensor once, and, where a kernel only moves data, `of_copy`: the share of a copy of as many
//   bytes
// Kernels are the texts of tests/lit/kernels, with other widths put in. Noise only ever slows a run: repeat
// (--benchmark_repetitions=N) and read the best.
#include "loaded_kernel.h"

#include "compiler/targets/target.h"
#include "compiler/tune/roof.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include <time.h>

namespace heddle::bench {

/// Seconds that this thread has computed: on a busy machine, other programs' turns don't count.
static double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// GFLOP/s of what the kernel multiplies with, for about a third of a millisecond; 0: this CPU has it not.
static double product_rate(const std::string &micro_kernel) {
  double start = thread_seconds(), operations = multiply(micro_kernel, 100000);
  return operations / (thread_seconds() - start) / 1e9;
}

static std::string text_of(const std::string &name, const std::vector<std::pair<std::string, std::string>> &replaced) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/tests/lit/kernels/" + name + ".mlir");
  std::stringstream text;
  text << file.rdbuf();
  std::string result = text.str();
  for (const auto &[what, by] : replaced)
    for (size_t at = result.find(what); at != std::string::npos; at = result.find(what, at + by.size()))
      result.replace(at, what.size(), by);
  return result;
}

struct Case {
  const char *name;
  const char *text;
  std::vector<std::pair<std::string, std::string>> replaced;
  std::vector<int64_t> sizes;
  double operations; // 0: bound by memory
  double bytes;
};

static double dense(double m, double n, double k) { return 2 * m * n * k; }
static double dense_bytes(double m, double n, double k) { return 4 * (m * k + n * k + m * n); }
static double heads(double b, double s) { return 4 * b * 12 * s * s * 64; }
static double heads_bytes(double b, double s) { return 4 * 4 * b * s * 768; }

static const std::vector<std::pair<std::string, std::string>> deep = {
    {"%a: tensor<?x768xf32>", "%a: tensor<?x3072xf32>"},
    {"(M) -> (M, 768)>},\n    %w", "(M) -> (M, 3072)>},\n    %w"},
    {"768x768xf32", "768x3072xf32"},
    {"(768, 768)", "(768, 3072)"},
    {"ins(%a, %w : tensor<?x768xf32>", "ins(%a, %w : tensor<?x3072xf32>"}};

/// Attention of bf16: what is multiplied is rounded, the weights, too.
static const std::vector<std::pair<std::string, std::string>> narrow = {
    {"%q: tensor<?x?x12x64xf32>", "%q: tensor<?x?x12x64xbf16>"},
    {"%k: tensor<?x?x12x64xf32>", "%k: tensor<?x?x12x64xbf16>"},
    {"%v: tensor<?x?x12x64xf32>", "%v: tensor<?x?x12x64xbf16>"},
    {"ins(%q, %k : tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>)",
     "ins(%q, %k : tensor<?x?x12x64xbf16>, tensor<?x?x12x64xbf16>)"},
    {"(%qv: f32, %kv: f32, %acc: f32):\n",
     "(%qn: bf16, %kn: bf16, %acc: f32):\n"
     "    %qv = arith.extf %qn : bf16 to f32\n    %kv = arith.extf %kn : bf16 to f32\n"},
    {"  // the weighted values\n",
     "  %en = tensor.empty(%B, %S, %S) : tensor<?x12x?x?xbf16>\n"
     "  %pn = linalg.generic {indexing_maps = [#bhij, #bhij], iterator_types = [\"parallel\", \"parallel\", "
     "\"parallel\", "
     "\"parallel\"]} ins(%p : tensor<?x12x?x?xf32>) outs(%en : tensor<?x12x?x?xbf16>) {\n"
     "  ^bb0(%pv: f32, %out: bf16):\n"
     "    %0 = arith.truncf %pv fastmath<contract> : f32 to bf16\n    linalg.yield %0 : bf16\n"
     "  } -> tensor<?x12x?x?xbf16>\n"},
    {"ins(%p, %v : tensor<?x12x?x?xf32>, tensor<?x?x12x64xf32>)",
     "ins(%pn, %v : tensor<?x12x?x?xbf16>, tensor<?x?x12x64xbf16>)"},
    {"(%pv: f32, %vv: f32, %acc: f32):\n",
     "(%pb: bf16, %vb: bf16, %acc: f32):\n"
     "    %pv = arith.extf %pb : bf16 to f32\n    %vv = arith.extf %vb : bf16 to f32\n"}};

/// A row of words and one of positions read, one written; the table of types stays in the cache.
static double lookup_bytes(double tokens) { return 3 * 4 * tokens * 768; }
static const std::vector<std::pair<std::string, std::string>> plain_tables = {
    {", heddle.layout = #heddle.layout<(n, k) -> (n floordiv 48, k, n mod 48)>", ""}};

/// Products of bf16 and of whole numbers of 8 bits, in the layout that the target takes first.
static const std::vector<std::pair<std::string, std::string>> of_bf16 = {
    {", heddle.layout = #heddle.layout<(n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)>", ""}};
static const std::vector<std::pair<std::string, std::string>> of_bytes = {
    of_bf16[0],
    {"768xbf16>", "768xi8>"},
    {"(%xn: bf16, %wn: bf16", "(%xn: i8, %wn: i8"},
    {"%acc: f32)", "%acc: i32)"},
    {"arith.extf %xn : bf16 to f32", "arith.extui %xn : i8 to i32"},
    {"arith.extf %wn : bf16 to f32", "arith.extsi %wn : i8 to i32"},
    {"arith.mulf %xv, %wv : f32", "arith.muli %xv, %wv : i32"},
    {"arith.addf %acc, %0 : f32\n    linalg.yield %1 : f32\n  } -> tensor<?x3072xf32>",
     "arith.addi %acc, %0 : i32\n    linalg.yield %1 : i32\n  } -> tensor<?x3072xi32>"},
    {"%f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3072xf32>) -> tensor<?x3072xf32>",
     "%none = arith.constant 0 : i32\n  %ei = tensor.empty(%M) : tensor<?x3072xi32>\n"
     "  %f = linalg.fill ins(%none : i32) outs(%ei : tensor<?x3072xi32>) -> tensor<?x3072xi32>"},
    {"outs(%f : tensor<?x3072xf32>)", "outs(%f : tensor<?x3072xi32>)"},
    {"ins(%p, %b : tensor<?x3072xf32>", "ins(%p, %b : tensor<?x3072xi32>"},
    {"(%pv: f32, %bv: f32", "(%pi: i32, %bv: f32"},
    {"%half = ", "%pv = arith.sitofp %pi : i32 to f32\n    %half = "}};

static std::vector<std::pair<std::string, std::string>>
with_columns(std::vector<std::pair<std::string, std::string>> replaced, const std::string &columns) {
  replaced.push_back({"3072", columns});
  return replaced;
}

static const Case cases[] = {
    {"dense 768 to 768, residual, 1 row",
     "contraction_residual",
     {},
     {1},
     dense(1, 768, 768),
     dense_bytes(1, 768, 768)},
    {"dense 768 to 768, residual, 128 rows",
     "contraction_residual",
     {},
     {128},
     dense(128, 768, 768),
     dense_bytes(128, 768, 768)},
    {"dense 768 to 768, residual, 197 rows",
     "contraction_residual",
     {},
     {197},
     dense(197, 768, 768),
     dense_bytes(197, 768, 768)},
    {"dense 768 to 3072, gelu, 128 rows",
     "contraction_bias_gelu",
     {},
     {128},
     dense(128, 3072, 768),
     dense_bytes(128, 3072, 768)},
    {"dense 768 to 3072, gelu, 197 rows",
     "contraction_bias_gelu",
     {},
     {197},
     dense(197, 3072, 768),
     dense_bytes(197, 3072, 768)},
    {"dense 3072 to 768, residual, 128 rows",
     "contraction_residual",
     deep,
     {128},
     dense(128, 768, 3072),
     dense_bytes(128, 768, 3072)},
    {"dense 3072 to 768, residual, 197 rows",
     "contraction_residual",
     deep,
     {197},
     dense(197, 768, 3072),
     dense_bytes(197, 768, 3072)},
    {"dense 768 to 768, residual, 1576 rows",
     "contraction_residual",
     {},
     {1576},
     dense(1576, 768, 768),
     dense_bytes(1576, 768, 768)},
    {"patches of 16x16x3 to 768", "patch_embedding", {}, {1}, dense(196, 768, 768), dense_bytes(196, 768, 768)},
    {"product of bf16, 768 to 768, gelu, 192 rows",
     "contraction_tiles",
     with_columns(of_bf16, "768"),
     {192},
     dense(192, 768, 768),
     dense_bytes(192, 768, 768) / 2},
    {"product of bf16, 768 to 3072, gelu, 192 rows",
     "contraction_tiles",
     of_bf16,
     {192},
     dense(192, 3072, 768),
     dense_bytes(192, 3072, 768) / 2},
    {"product of bf16, 768 to 3072, gelu, 197 rows",
     "contraction_tiles",
     of_bf16,
     {197},
     dense(197, 3072, 768),
     dense_bytes(197, 3072, 768) / 2},
    {"product of int8, 768 to 768, gelu, 192 rows",
     "contraction_tiles",
     with_columns(of_bytes, "768"),
     {192},
     dense(192, 768, 768),
     dense_bytes(192, 768, 768) / 4},
    {"product of int8, 768 to 3072, gelu, 192 rows",
     "contraction_tiles",
     of_bytes,
     {192},
     dense(192, 3072, 768),
     dense_bytes(192, 3072, 768) / 4},
    {"attention, 128 keys", "attention_mask", {}, {1, 128}, heads(1, 128), heads_bytes(1, 128)},
    {"attention, 197 keys", "attention_mask", {}, {1, 197}, heads(1, 197), heads_bytes(1, 197)},
    {"attention, 384 keys", "attention_mask", {}, {1, 384}, heads(1, 384), heads_bytes(1, 384)},
    {"attention, 1024 keys", "attention_mask", {}, {1, 1024}, heads(1, 1024), heads_bytes(1, 1024)},
    {"attention, 4096 keys", "attention_mask", {}, {1, 4096}, heads(1, 4096), heads_bytes(1, 4096)},
    {"attention, 64 keys", "attention_mask", {}, {1, 64}, heads(1, 64), heads_bytes(1, 64)},
    {"attention, 512 keys", "attention_mask", {}, {1, 512}, heads(1, 512), heads_bytes(1, 512)},
    {"attention of bf16, 64 keys", "attention_mask", narrow, {1, 64}, heads(1, 64), heads_bytes(1, 64)},
    {"attention of bf16, 128 keys", "attention_mask", narrow, {1, 128}, heads(1, 128), heads_bytes(1, 128)},
    {"attention of bf16, 197 keys", "attention_mask", narrow, {1, 197}, heads(1, 197), heads_bytes(1, 197)},
    {"attention of bf16, 384 keys", "attention_mask", narrow, {1, 384}, heads(1, 384), heads_bytes(1, 384)},
    {"attention of bf16, 512 keys", "attention_mask", narrow, {1, 512}, heads(1, 512), heads_bytes(1, 512)},
    {"attention of bf16, 1024 keys", "attention_mask", narrow, {1, 1024}, heads(1, 1024), heads_bytes(1, 1024)},
    {"attention of bf16, 4096 keys", "attention_mask", narrow, {1, 4096}, heads(1, 4096), heads_bytes(1, 4096)},
    {"lookup of 3 tables, 128 tokens, rows", "lookup_sum", plain_tables, {1, 128}, 0, lookup_bytes(128)},
    {"lookup of 3 tables, 128 tokens, panels", "lookup_sum", {}, {1, 128}, 0, lookup_bytes(128)},
    {"lookup of 3 tables, 8 x 512 tokens, rows", "lookup_sum", plain_tables, {8, 512}, 0, lookup_bytes(8 * 512)},
    {"bias, gelu, gate, 128 rows", "pointwise_gelu", {}, {128}, 0, 3 * 4 * 128 * 768},
    {"bias, gelu, gate, 1576 rows", "pointwise_gelu", {}, {1576}, 0, 3 * 4 * 1576 * 768},
    {"layer norm, 197 rows", "layer_norm", {}, {197}, 0, 2 * 4 * 197 * 768},
    {"layer norm, 1576 rows", "layer_norm", {}, {1576}, 0, 2 * 4 * 1576 * 768},
};

/// GB/s, reads and writes together, of a copy that moves as many bytes.
static double copy_rate(double bytes) {
  size_t half = size_t(bytes / 2);
  std::vector<char> from(half, 1), to(half);
  std::memcpy(to.data(), from.data(), half);
  double start = thread_seconds();
  std::memcpy(to.data(), from.data(), half);
  asm volatile("" : : "r"(to.data()) : "memory");
  return bytes / (thread_seconds() - start) / 1e9;
}

static void run(benchmark::State &state, const Case &c) {
  Result<Target> target = find_target("native");
  LoadedKernel kernel;
  std::string wrong = target ? kernel.load(text_of(c.text, c.replaced), c.sizes, *target) : target.error().message;
  if (!wrong.empty())
    return state.SkipWithError(wrong.c_str());
  kernel.run();
  double best = 1e9, peak = 0;
  for (auto _ : state) {
    peak = std::max(peak, c.operations > 0 ? product_rate(kernel.micro_kernel()) : copy_rate(c.bytes));
    double start = thread_seconds();
    kernel.run();
    double taken = (thread_seconds() - start);
    best = std::min(best, taken);
    state.SetIterationTime(taken);
  }
  state.SetLabel(kernel.description());
  state.counters["best_us"] = best * 1e6;
  if (c.operations > 0) {
    state.counters["GFLOP/s"] = c.operations / best / 1e9;
    if (peak > 0)
      state.counters["of_peak"] = c.operations / best / 1e9 / peak;
  }
  state.counters["GB/s"] = c.bytes / best / 1e9;
  if (c.operations == 0)
    state.counters["of_copy"] = c.bytes / best / 1e9 / peak;
  state.counters["compile_ms"] = kernel.compile_seconds() * 1e3;
}

static const bool registered = [] {
  for (const Case &c : cases)
    benchmark::RegisterBenchmark(c.name, [&c](benchmark::State &state) { run(state, c); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  return true;
}();

} // namespace heddle::bench
