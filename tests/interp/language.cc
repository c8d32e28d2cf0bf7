// The meaning of programs as authors write them: text through parser, checker and evaluator, against the same
// formula written as loops in C++.
#include "text.h"

namespace heddle {
namespace {

TEST(Language, softmax_of_a_row_without_terms_is_zero) {
  Text t(R"(dim B, N
            model T { entry run(x: real[B, N], ok: bool[B, N]) -> y: real[B, N] {
              s[b, n] = if ok[b, n] then x[b, n] else -inf
              return softmax(s)
            } })");
  Array got = t({{"x", array({3, 3}, {1, 2, 3, 4, 5, 6, 800, 801, 1})},
                 {"ok", array({3, 3}, {1, 0, 1, 0, 0, 0, 1, 1, 1}, Type::boolean)}});
  double e = std::exp(2), f = std::exp(1);
  expect_near(got, {3, 3}, {1 / (1 + e), 0, e / (1 + e), 0, 0, 0, 1 / (1 + f), f / (1 + f), 0});
}

TEST(Language, a_pack_may_stand_for_no_dimension) {
  Text t(R"(dim N
            model T {
              fn spread(x: real[..S, N]) -> (real[..S], real[..S, N]) {
                m[..s] = max[n](x[..s, n])
                d[..s, n] = x[..s, n] - m[..s]
                return m, d
              }
              entry run(x: real[N]) -> y: real[N], top: real, below: real[N] {
                let m, d = spread(x)
                return softmax(x), m, d
              }
            })");
  std::map<std::string, Array> row{{"x", array({2}, {3, 1})}};
  double e = std::exp(2);
  expect_near(t(row), {2}, {e / (1 + e), 1 / (1 + e)});
  expect_near(t(row, "top"), {}, {3});
  expect_near(t(row, "below"), {2}, {0, -2});
}

TEST(Language, a_read_may_lie_wholly_outside) {
  Text t(R"(dim N
            model T { entry run(x: real[N]) -> y: real[N], z: real[N] {
              y[n in N] = x[n - 40 | 7]
              z[n in N] = x[40 - n | 8]
              return y, z
            } })");
  std::map<std::string, Array> row{{"x", array({3}, {1, 2, 3})}};
  expect_near(t(row), {3}, {7, 7, 7});
  expect_near(t(row, "z"), {3}, {8, 8, 8});
}

TEST(Language, the_extremes_of_no_whole_numbers_are_those_of_their_type) {
  Text t(R"(dim N
            model T { entry run(x: i32[N]) -> y: i32, z: i32 { return max[n](x[n]), min[n](x[n]) } })");
  std::map<std::string, Array> none{{"x", array({0}, {}, Type::i32)}};
  EXPECT_EQ(t(none).data, (std::vector<double>{-2147483648.0}));
  EXPECT_EQ(t(none, "z").data, (std::vector<double>{2147483647.0}));
}

TEST(Language, a_layer_is_its_formula) {
  Text t(R"(dim B, S
            model T {
              sub dense = Linear(7, 5)
              sub norm  = LayerNorm(5, 0.01)
              entry run(x: real[B, S, 7]) -> y: real[B, S, 5] { return norm(gelu(dense(x))) }
            })",
         {{"dense.weight", {5, 7}}, {"dense.bias", {5}}, {"norm.weight", {5}}, {"norm.bias", {5}}});
  Array x = pattern({2, 3, 7}, 40), w = *t.weight("dense.weight"), b = *t.weight("dense.bias");
  Array scale = *t.weight("norm.weight"), shift = *t.weight("norm.bias");
  std::vector<double> want;
  for (int row = 0; row < 6; ++row) {
    std::vector<double> z(5);
    double mean = 0, variance = 0;
    for (int o = 0; o < 5; ++o) {
      double sum = b.data[o];
      for (int i = 0; i < 7; ++i)
        sum += x.data[row * 7 + i] * w.data[o * 7 + i];
      z[o] = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
      mean += z[o] / 5;
    }
    for (double value : z)
      variance += (value - mean) * (value - mean) / 5;
    for (int o = 0; o < 5; ++o)
      want.push_back((z[o] - mean) / std::sqrt(variance + 0.01) * scale.data[o] + shift.data[o]);
  }
  expect_near(t({{"x", x}}), {2, 3, 5}, want);
}

TEST(Language, attention_with_relative_positions_reads_at_a_difference) {
  Text t(R"(dim B, T
            let H = 2  let E = 3
            model M { entry run(q: real[B, T, H, E], k: real[B, T, H, E], v: real[B, T, H, E], r: real[T, H, E]) -> y: real[B, T, H, E] {
              s[b, h, i in T, j in T] = if j <= i then sum[e](q[b, i, h, e] * (k[b, j, h, e] + r[i - j, h, e])) / sqrt(E) else -inf
              return attend(s, v)
            } })");
  const int B = 2, T = 5, H = 2, E = 3;
  Array q = pattern({B, T, H, E}, 3), k = pattern({B, T, H, E}, 4), v = pattern({B, T, H, E}, 5),
        r = pattern({T, H, E}, 6);
  auto at = [&](const Array &a, int b, int i, int h, int e) { return a.data[((b * T + i) * H + h) * E + e]; };
  std::vector<double> want;
  for (int b = 0; b < B; ++b)
    for (int i = 0; i < T; ++i)
      for (int h = 0; h < H; ++h)
        for (int e = 0; e < E; ++e) {
          double total = 0, sum = 0;
          for (int j = 0; j <= i; ++j) {
            double s = 0;
            for (int d = 0; d < E; ++d)
              s += at(q, b, i, h, d) * (at(k, b, j, h, d) + at(r, 0, i - j, h, d));
            double p = std::exp(s / std::sqrt(3.0));
            total += p;
            sum += p * at(v, b, j, h, e);
          }
          want.push_back(sum / total);
        }
  expect_near(t({{"q", q}, {"k", k}, {"v", v}, {"r", r}}), {B, T, H, E}, want);
}

TEST(Language, padding_stands_in_the_subscript) {
  Text t(R"(dim B
            model T {
              sub conv = Conv(2, 3, 3, 2, 1)
              sub pool = MaxPool(3, 2, 1)
              entry run(x: real[B, 2, 7, 6]) -> y: real[B, 3, 4, 3], z: real[B, 2, 4, 3] { return conv(x), pool(x) }
            })",
         {{"conv.weight", {3, 2, 3, 3}}});
  Array x = pattern({2, 2, 7, 6}, 8), w = *t.weight("conv.weight");
  std::vector<double> want, most;
  for (int b = 0; b < 2; ++b)
    for (int o = 0; o < 3; ++o)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 3; ++j) {
          double sum = 0, largest = -INFINITY;
          for (int c = 0; c < 2; ++c)
            for (int u = 0; u < 3; ++u)
              for (int v = 0; v < 3; ++v) {
                int row = 2 * i + u - 1, column = 2 * j + v - 1;
                if (row < 0 || row >= 7 || column < 0 || column >= 6)
                  continue;
                double value = x.data[((b * 2 + c) * 7 + row) * 6 + column];
                sum += value * w.data[((o * 2 + c) * 3 + u) * 3 + v];
                if (c == o)
                  largest = std::max(largest, value);
              }
          want.push_back(sum);
          if (o < 2)
            most.push_back(largest);
        }
  expect_near(t({{"x", x}}), {2, 3, 4, 3}, want);
  expect_near(t({{"x", x}}, "z"), {2, 2, 4, 3}, most);
}

TEST(Language, a_where_drops_terms) {
  Text t(R"(dim N
            model T { entry run(x: real[N], ok: bool[N]) -> y: real, most: real, place: i32, some: bool {
              return sum[n where ok[n]](x[n]), max[n where ok[n]](x[n]), argmax[n](x[n]), any[n](x[n] > 2 and ok[n])
            } })");
  std::map<std::string, Array> some{{"x", array({4}, {1, 9, 4, 9})}, {"ok", array({4}, {1, 0, 1, 0}, Type::boolean)}};
  EXPECT_EQ(t(some).data, (std::vector<double>{5}));
  EXPECT_EQ(t(some, "most").data, (std::vector<double>{4}));
  EXPECT_EQ(t(some, "place").data, (std::vector<double>{1}));
  EXPECT_EQ(t(some, "some").data, (std::vector<double>{1}));
  some["ok"] = array({4}, {0, 0, 0, 0}, Type::boolean);
  EXPECT_EQ(t(some).data, (std::vector<double>{0}));
  EXPECT_EQ(t(some, "most").data, (std::vector<double>{-INFINITY}));
}

TEST(Language, a_stored_view_splits_heads_without_moving_anything) {
  Text t(R"(dim B
            model T {
              param qkv as "attn.qkv.weight": real[3, 2, 2, 4] stored [12, 4]
              entry run(x: real[B, 4]) -> y: real[B, 2, 2] {
                y[b, h, e] = sum[d](x[b, d] * qkv[1, h, e, d])
                return y
              }
            })",
         {{"attn.qkv.weight", {12, 4}}});
  Array x = pattern({1, 4}, 9), w = *t.weight("attn.qkv.weight");
  std::vector<double> want(4);
  for (int o = 0; o < 4; ++o)
    for (int d = 0; d < 4; ++d)
      want[o] += x.data[d] * w.data[(4 + o) * 4 + d];
  expect_near(t({{"x", x}}), {1, 2, 2}, want);
}

TEST(Language, a_concatenation_is_a_condition) {
  Text t(R"(dim B, M, T
            model C { entry run(old: real[B, M], new: real[B, T]) -> y: real[B, M + T] {
              y[b, j in M + T] = if j < M then old[b, j] else new[b, j - M]
              return y
            } })");
  EXPECT_EQ(t({{"old", array({2, 1}, {1, 2})}, {"new", array({2, 2}, {3, 4, 5, 6})}}).data,
            (std::vector<double>{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(t({{"old", array({2, 0}, {})}, {"new", array({2, 2}, {3, 4, 5, 6})}}).data,
            (std::vector<double>{3, 4, 5, 6}));
}

TEST(Language, loops_over_layers_use_each_layers_weights) {
  Text t(R"(dim B
            model T {
              sub layer[2] as "h" = Linear(3, 3)
              entry run(x: real[B, 3]) -> y: real[B, 3] {
                for l in 2 with x { x = relu(layer[l](x)) }
                return x
              }
            })",
         {{"h.0.weight", {3, 3}}, {"h.0.bias", {3}}, {"h.1.weight", {3, 3}}, {"h.1.bias", {3}}});
  Array x = pattern({4, 3}, 11);
  std::vector<double> want = x.data;
  for (const char *layer : {"h.0", "h.1"}) {
    Array w = *t.weight(std::string(layer) + ".weight"), b = *t.weight(std::string(layer) + ".bias");
    std::vector<double> next;
    for (int row = 0; row < 4; ++row)
      for (int o = 0; o < 3; ++o) {
        double sum = b.data[o];
        for (int i = 0; i < 3; ++i)
          sum += want[row * 3 + i] * w.data[o * 3 + i];
        next.push_back(std::max(sum, 0.0));
      }
    want = next;
  }
  expect_near(t({{"x", x}}), {4, 3}, want);
}

TEST(Language, narrow_types_round_where_they_are_declared) {
  Text t(R"(dim N
            model T { entry run(x: f32[N]) -> y: f32[N] {
              let narrow = bf16(x)
              y[n] = f32(narrow[n]) * 2
              return y
            } })");
  EXPECT_EQ(t({{"x", array({2}, {1 + 0x1p-9, 3})}}).data, (std::vector<double>{2, 6}));
}

TEST(Language, a_recurrence_runs_over_any_number_of_steps) {
  Text t(R"(dim B, T
            model R {
              param w: real[3, 3]
              entry run(x: real[B, T, 3]) -> y: real[B, T, 3], last: real[B, 3] {
                h[b in B, d in 3] = 0
                for t in T with h {
                  z[b, d] = tanh(x[b, t, d] + sum[e](h[b, e] * w[d, e]))
                  h = z
                  y[b, t, d] = z[b, d]
                }
                return y, h
              }
            })",
         {{"w", {3, 3}}});
  Array w = *t.weight("w");
  for (int steps : {1, 4}) {
    Array x = pattern({2, steps, 3}, 21);
    std::vector<double> want(x.data.size()), last;
    for (int b = 0; b < 2; ++b) {
      std::vector<double> h(3);
      for (int s = 0; s < steps; ++s) {
        std::vector<double> next(3);
        for (int d = 0; d < 3; ++d) {
          double sum = x.data[(b * steps + s) * 3 + d];
          for (int e = 0; e < 3; ++e)
            sum += h[e] * w.data[d * 3 + e];
          next[d] = want[(b * steps + s) * 3 + d] = std::tanh(sum);
        }
        h = next;
      }
      last.insert(last.end(), h.begin(), h.end());
    }
    expect_near(t({{"x", x}}), {2, steps, 3}, want);
    expect_near(t({{"x", x}}, "last"), {2, 3}, last);
  }
}

TEST(Language, a_memory_shifts_by_the_length_of_each_call) {
  Text t(R"(dim B, T
            model M {
              state past: real[B, 4] = 0
              state seen: i32 = 0
              entry run(x: real[B, T]) -> y: real[B, 4], n: i32 {
                past[b, m] <- if m + T < 4 then past[b, m + T] else x[b, m + T - 4]
                seen <- min(seen + T, 4)
                return past, seen
              }
            })");
  EXPECT_EQ(t({{"x", array({1, 3}, {1, 2, 3})}}).data, (std::vector<double>{0, 0, 0, 0})); // the old value
  EXPECT_EQ(t({{"x", array({1, 2}, {4, 5})}}).data, (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(t({{"x", array({1, 6}, {6, 7, 8, 9, 10, 11})}}, "n").data, (std::vector<double>{4}));
  EXPECT_EQ(t({{"x", array({1, 1}, {12})}}).data, (std::vector<double>{8, 9, 10, 11}));
}

TEST(Language, a_cache_is_appended_to_at_the_place_that_it_counts) {
  Text t(R"(dim B <= 4, T <= 8, P <= 6
            model M {
              state k: real[2, B, P] = 0
              state seen: i32 = 0
              entry run(x: real[B, T]) -> y: real[B], n: i32 {
                require 0 <= seen and seen + T <= P else "the cache is full"
                for l in 2 { k[l, b, seen + t] <- x[b, t] + 10 * l }
                seen <- seen + T
                y[b] = sum[l, p](k[l, b, p])
                return y, seen
              }
              entry reorder(from: index(B)[B]) { k[l, b, ..p] <- k[l, from[b], ..p] }
            })");
  EXPECT_EQ(t({{"x", array({2, 2}, {1, 2, 3, 4})}}).data, (std::vector<double>{0, 0})); // the old value
  EXPECT_EQ(t({{"x", array({2, 3}, {5, 5, 5, 6, 6, 6})}}).data, (std::vector<double>{26, 34}));
  EXPECT_EQ(t({{"x", array({2, 0}, {})}}).data, (std::vector<double>{86, 100}));
  EXPECT_EQ(t.message({{"x", array({2, 2}, {0, 0, 0, 0})}}), "entry 'run': the cache is full");
  t.run("reorder", {{"from", array({2}, {1, 1}, Type::i32)}});
  EXPECT_EQ(t({{"x", array({2, 1}, {0, 0})}}).data, (std::vector<double>{100, 100}));
  EXPECT_EQ(t.message({{"x", array({3, 0}, {})}}),
            "entry 'run', state 'k': holds B = 2 since entry 'run', but B = 3 in input 'x'; reset the session, or keep "
            "to what it holds");
}

TEST(Language, a_state_is_updated_place_by_place_in_the_turns_of_a_loop) {
  Text t(R"(dim T <= 8
            model M {
              state k: real[2, T] = 5
              entry run(x: real[T]) -> y: real[2, T] {
                for t in T { k[0, t] <- x[t] k[1, T - 1 - t] <- k[0, t] - x[t] }
                return k
              }
            })");
  EXPECT_EQ(t({{"x", array({3}, {1, 2, 3})}}).data, (std::vector<double>{5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(t({{"x", array({3}, {0, 0, 0})}}).data, (std::vector<double>{1, 2, 3, 2, 3, 4}));
}

TEST(Language, a_state_without_an_initial_value_waits_for_the_entry_that_sets_it) {
  Text t(R"(dim S <= 8
            model M {
              state mem: real[S]
              entry encode(x: real[S]) { mem <- 2 * x }
              entry run() -> y: real { return sum[s](mem[s]) }
            })");
  EXPECT_EQ(t.message({}), "entry 'run' reads state 'mem', which has no value yet; run entry 'encode' first");
  t.run("encode", {{"x", array({3}, {1, 2, 3})}});
  EXPECT_EQ(t({}).data, (std::vector<double>{12}));
  t.run("encode", {{"x", array({2}, {1, 2})}}); // another size: all of it is new
  EXPECT_EQ(t({}).data, (std::vector<double>{6}));
}

TEST(Language, an_if_at_run_time_joins_what_its_arms_define) {
  Text t(R"(dim T
            model M {
              state last: real[T] = 0
              state calls: i32 = 0
              entry run(x: real[T], n: i32) -> y: real[T], s: real, old: real[T], k: i32 {
                if n > 0 {
                  let h = 2 * x
                  z = h
                  w = n
                  last <- x
                  require n < 9 else "n is small"
                } else if n < 0 {
                  z = x + 1
                  w = 0.5
                } else {
                  z = x
                  w = 0
                  calls <- calls + 1
                }
                let s = 0.0
                for t in T with s { if t >= n { s = s + x[t] } }
                y[t] = z[t] * w
                return y, s, last, calls
              }
            })");
  auto call = [&](double n, const std::string &output) {
    return t({{"x", array({3}, {1, 2, 3})}, {"n", array({}, {n}, Type::i32)}}, output).data;
  };
  EXPECT_EQ(call(2, "y"), (std::vector<double>{4, 8, 12}));
  EXPECT_EQ(call(-1, "old"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(call(-1, "y"), (std::vector<double>{1, 1.5, 2}));
  EXPECT_EQ(call(0, "y"), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(call(1, "s"), (std::vector<double>{5}));
  EXPECT_EQ(call(1, "k"), (std::vector<double>{1}));
  EXPECT_EQ(t.message({{"x", array({3}, {1, 2, 3})}, {"n", array({}, {9}, Type::i32)}}), "entry 'run': n is small");
}

TEST(Language, one_formula_may_define_several_tensors) {
  Text t(R"(dim N
            fn polar(x: real, y: real) -> (real, real) { let r = sqrt(x * x + y * y) return r, x / r }
            model M { entry run(x: real[N], z: real[N]) -> y: real[N], c: real[N] {
              r[i], c[i] = polar(x[i], z[i])
              let _, same = halves(r)
              return r + 0 * same, c } }
            fn halves(x: real[N]) -> (real[N], real[N]) { return x / 2, x / 2 })");
  std::map<std::string, Array> in = {{"x", array({2}, {3, 0})}, {"z", array({2}, {4, 2})}};
  expect_near(t(in), {2}, {5, 2});
  expect_near(t(in, "c"), {2}, {0.6, 0});
}

TEST(Language, numbers_become_indices_where_they_are_tested) {
  Text t(R"(dim B
            model M { param w: real[5] entry run(n: i32[B], go: bool) -> y: real[B] {
              y[b] = if go then w[index(5)(n[b] - 1)] else 0
              return y } })",
         {{"w", {5}}});
  Array w = *t.weight("w");
  auto in = [&](double a, double b, double go) {
    return std::map<std::string, Array>{{"n", array({2}, {a, b}, Type::i32)}, {"go", array({}, {go}, Type::boolean)}};
  };
  expect_near(t(in(1, 5, 1)), {2}, {w.data[0], w.data[4]});
  expect_near(t(in(77, 5, 0)), {2}, {0, 0}); // nothing is looked up
  EXPECT_EQ(t.message(in(1, 6, 1)), "entry 'run': `n[b] - 1` is not an index below 5");
}

TEST(Language, a_function_may_require_something_of_each_element) {
  Text t(R"(dim B
            fn root(x: real) -> real { require x >= 0 else "a root of something negative" return sqrt(x) }
            model M { entry run(x: real[B]) -> y: real[B] { y[b] = if x[b] > 1 then root(x[b] - 2) else 0 return y } })");
  expect_near(t({{"x", array({3}, {0, -5, 6})}}), {3}, {0, 0, 2});
  EXPECT_EQ(t.message({{"x", array({3}, {0, 1.5, 6})}}), "entry 'run': a root of something negative");
  expect_near(t({{"x", array({0}, {})}}), {0}, {});
}

TEST(Language, a_requirement_in_a_loop_is_tested_in_every_turn) {
  Text t(R"(dim T
            model M { param w: real[5] entry run(n: i32[T]) -> y: real[T] {
              for t in T { require 0 <= n[t] and n[t] < 5 else "no such word" y[t] = w[n[t]] }
              return y } })",
         {{"w", {5}}});
  Array w = *t.weight("w");
  expect_near(t({{"n", array({2}, {4, 0}, Type::i32)}}), {2}, {w.data[4], w.data[0]});
  EXPECT_EQ(t.message({{"n", array({2}, {4, 5}, Type::i32)}}), "entry 'run': no such word");
}

TEST(Language, what_is_required_of_all_elements_is_known_of_each) {
  Text t(R"(dim B
            model M { param w: real[5] entry run(n: i32[B], m: i32[B, 2]) -> y: real[B] {
              require all[b](0 <= n[b] and n[b] < 5) and all[b, j](0 <= m[b, j] and m[b, j] <= n[b]) else "no such word"
              y[b] = w[n[b]] + w[m[b, 1]]
              return y } })",
         {{"w", {5}}});
  Array w = *t.weight("w");
  expect_near(t({{"n", array({1}, {4}, Type::i32)}, {"m", array({1, 2}, {0, 3}, Type::i32)}}), {1},
              {w.data[4] + w.data[3]});
  EXPECT_EQ(t.message({{"n", array({1}, {2}, Type::i32)}, {"m", array({1, 2}, {0, 3}, Type::i32)}}),
            "entry 'run': no such word");
}

TEST(Language, ranges_of_loops_and_reductions_may_begin_anywhere) {
  Text t(R"(dim S
            require S >= 2
            model M { entry run(x: real[S]) -> y: real, best: i32, s: real, c: real {
              let s = 0.0
              let c = 0.0
              for i in 1 .. S with s { s = 10 * s + x[i] }
              for i in 2 .. 5 with c { c = c + i }
              return sum[i in 2 .. S](x[i] * i), argmax[i in 1 .. S](x[i]), s, c } })");
  std::map<std::string, Array> in = {{"x", array({4}, {9, 3, 5, 4})}};
  EXPECT_EQ(t(in).data, (std::vector<double>{22}));
  EXPECT_EQ(t(in, "best").data, (std::vector<double>{2}));
  EXPECT_EQ(t(in, "s").data, (std::vector<double>{354}));
  EXPECT_EQ(t(in, "c").data, (std::vector<double>{9}));
  EXPECT_EQ(t.message({{"x", array({1}, {9})}}), "entry 'run': `S >= 2` does not hold");
}

TEST(Language, narrow_types_round_when_a_sum_is_complete) {
  Text t(R"(dim N
            model M {
              entry run(x: bf16[N], q: i8[N]) -> y: bf16, m: bf16, z: f32, n: i32, h: f16[N] {
                h[i] = f16(x[i]) / 3
                return sum[i](x[i]), mean[i](x[i]), sum[i](f32(x[i])), sum[i](q[i]), h
              } })");
  std::map<std::string, Array> in = {{"x", array({4}, {256, 1, 1, 1}, Type::bf16)},
                                     {"q", array({4}, {127, 127, 127, 127}, Type::i8)}};
  EXPECT_EQ(t(in).data, (std::vector<double>{260}));     // 259 to 8 bits; adding one by one would give 256
  EXPECT_EQ(t(in, "m").data, (std::vector<double>{65})); // 64.75
  EXPECT_EQ(t(in, "z").data, (std::vector<double>{259}));
  EXPECT_EQ(t(in, "n").data, (std::vector<double>{508}));
  EXPECT_EQ(t(in, "h").data[1], 1365.0 / 4096);
}

TEST(Language, whole_numbers_beside_narrow_reals_are_not_rounded) {
  Text t(R"(dim N
            model M {
              entry run(n: i32[N], x: bf16[N]) -> y: bf16[N], z: bf16[N] {
                y[i] = n[i] - x[i]
                z[i] = bf16(n[i]) - x[i]
                return y, z
              } })");
  std::map<std::string, Array> in = {{"n", array({2}, {257, 65537}, Type::i32)},
                                     {"x", array({2}, {256, 1}, Type::bf16)}};
  EXPECT_EQ(t(in).data, (std::vector<double>{1, 65536}));
  EXPECT_EQ(t(in, "z").data, (std::vector<double>{0, 65536}));
}

TEST(Language, a_merged_index_counts_rows_and_columns_of_run_time_sizes) {
  Text t(R"(config P = 2
            dim Y, X
            model T { entry run(v: real[Y, X]) -> y: real[Y * X + 1], z: real[Y, X], s: real, b: i32, h: real[Y * (X // P)] {
              t[n in (i in Y, j in X)] = v[i, j] + 100 * i + 10 * j + n
              y[n in Y * X + 1] = if n == 0 then -1 else t[n - 1]
              z[i in Y, j in X] = t[i * X + j]
              s = sum[n in (i in Y, j in X) where j < i](v[i, j] * n)
              b = argmax[n in (i in Y, j in X)](v[i, j] % 5)
              h[n in (i in Y, j in X // P)] = v[i, P * j + 1]
              return y, z, s, b, h
            } })");
  Array v = array({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_near(t({{"v", v}}, "b"), {}, {4});
  expect_near(t({{"v", v}}, "h"), {2}, {1, 4});
  expect_near(t({{"v", v}}), {7}, {-1, 0, 12, 24, 106, 118, 130});
  expect_near(t({{"v", v}}, "z"), {2, 3}, {0, 12, 24, 106, 118, 130});
  expect_near(t({{"v", v}}, "s"), {}, {9});
  expect_near(t({{"v", array({0, 3}, {})}}), {1}, {-1});
}

TEST(Language, arms_of_an_if_may_update_one_place_of_a_state) {
  Text t(R"(model T {
              state s: real[2] = 0
              entry run(x: real[2], what: i32) -> y: real[2] {
                if what == 0 { s <- x } else if what == 1 { s[i] <- s[i] + x[i] } else { if x[0] > 0 { s[i] <- -x[i] } }
                return s
              } })");
  auto call = [&](double a, double b, double what) {
    return t({{"x", array({2}, {a, b})}, {"what", array({}, {what}, Type::i32)}});
  };
  call(1, 2, 0);
  expect_near(call(10, 20, 1), {2}, {1, 2});
  expect_near(call(5, 6, 2), {2}, {11, 22});
  expect_near(call(-5, 6, 2), {2}, {-5, -6});
  expect_near(call(0, 0, 1), {2}, {-5, -6});
}

TEST(Language, updates_of_all_slices_replace_a_state_whose_size_changes) {
  Text t(R"(config L = 2
            dim S
            model T {
              state seen: real[L, S]
              entry fill(x: real[S]) { for l in L { seen[l, s] <- x[s] + l } }
              entry run(z: real[S]) -> y: real[L, S] {
                y[l, s] = seen[l, s] + z[s]
                return y
              } })");
  t.run("fill", {{"x", array({1}, {3})}});
  t.run("fill", {{"x", array({2}, {5, 7})}});
  expect_near(t({{"z", array({2}, {0, 0})}}), {2, 2}, {5, 7, 6, 8});
}

} // namespace
} // namespace heddle
