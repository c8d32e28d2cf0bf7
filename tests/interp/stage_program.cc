// Stages: every operation, reads of each form (in place, strided, clipped, gathered), reductions along any index.
#include "programs.h"

#include <chrono>

namespace heddle {
namespace {

using Values = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();

/// The value of a scalar expression, rounded to `type`.
double scalar(Builder &b, const Expr *value, Type type = Type::f32) {
  b.output(b.stage("y", type, {}, value));
  return b.run().data.at(0);
}
double binary(Expr::Op op, double x, double y, Type type = Type::f32) {
  Builder b;
  bool whole = type == Type::i32;
  return scalar(b, b.op(op, {whole ? b.whole(x) : b.number(x), whole ? b.whole(y) : b.number(y)}, type), type);
}
double unary(Expr::Op op, double x) {
  Builder b;
  return scalar(b, b.op(op, {b.number(x)}));
}

TEST(Scalars, arithmetic_of_reals_is_rounded_once) {
  EXPECT_EQ(binary(Expr::add, 1, 0x1p-30), 1); // not in f32
  EXPECT_EQ(binary(Expr::div, 1, 3), double(1.0f / 3.0f));
  EXPECT_EQ(binary(Expr::power, 2, 0.5), double(std::sqrt(2.0f)));
  EXPECT_EQ(binary(Expr::power, -3, 2), 9);
  EXPECT_EQ(binary(Expr::minimum, 2, -1), -1);
  EXPECT_EQ(binary(Expr::maximum, 2, -1), 2);
  EXPECT_TRUE(std::isnan(binary(Expr::maximum, 2, NAN)));
  EXPECT_TRUE(std::isnan(binary(Expr::maximum, NAN, 2)));
}

TEST(Scalars, floor_division_and_remainder_round_down) {
  EXPECT_EQ(binary(Expr::floor_div, 7, 3, Type::i32), 2);
  EXPECT_EQ(binary(Expr::floor_div, -7, 3, Type::i32), -3);
  EXPECT_EQ(binary(Expr::mod, -7, 3, Type::i32), 2);
  EXPECT_EQ(binary(Expr::mod, 7, -3, Type::i32), -2);
  EXPECT_EQ(binary(Expr::floor_div, 2147483646, 2147483647, Type::i32), 0);
  EXPECT_EQ(binary(Expr::floor_div, 7, 0, Type::i32), 0);
  EXPECT_EQ(binary(Expr::mod, 7.5, 2), 1.5);
}

TEST(Scalars, functions_are_those_of_mathematics) {
  EXPECT_FLOAT_EQ(unary(Expr::exp, 1), M_E);
  EXPECT_EQ(unary(Expr::exp, -inf), 0);
  EXPECT_FLOAT_EQ(unary(Expr::log, 2), std::log(2.0));
  EXPECT_EQ(unary(Expr::sqrt, 9), 3);
  EXPECT_FLOAT_EQ(unary(Expr::sin, 1), std::sin(1.0));
  EXPECT_FLOAT_EQ(unary(Expr::cos, 1), std::cos(1.0));
  EXPECT_FLOAT_EQ(unary(Expr::tanh, 1), std::tanh(1.0));
  EXPECT_FLOAT_EQ(unary(Expr::erf, 1), std::erf(1.0));
  EXPECT_EQ(unary(Expr::floor, -1.5), -2);
  EXPECT_EQ(unary(Expr::negate, 2), -2);
  EXPECT_EQ(unary(Expr::absolute, -2), 2);
}

TEST(Scalars, comparisons_with_nan_are_false_except_inequality) {
  for (auto op : {Expr::less, Expr::less_equal, Expr::greater, Expr::greater_equal, Expr::equal})
    EXPECT_EQ(binary(op, NAN, 1), 0);
  EXPECT_EQ(binary(Expr::not_equal, NAN, 1), 1);
  EXPECT_EQ(binary(Expr::less_equal, 1, 1), 1);
}

TEST(Scalars, casts_drop_the_fraction_and_stop_at_the_ends) {
  for (auto [value, want] :
       {std::pair{2.9, 2.0}, {-2.9, -2.0}, {1e20, 2147483647.0}, {-inf, -2147483648.0}, {NAN, 0.0}}) {
    Builder b;
    EXPECT_EQ(scalar(b, b.op(Expr::cast, {b.number(value)}, Type::i32), Type::i32), want);
  }
}

TEST(Scalars, a_conversion_to_a_narrow_type_rounds_if_the_author_wrote_it) {
  Builder b;
  Expr narrow = *b.op(Expr::cast, {b.number(1 + 0x1p-9)}, Type::bf16);
  EXPECT_EQ(scalar(b, &narrow), 1 + 0x1p-9);
  narrow.rounds = true;
  EXPECT_EQ(scalar(b, &narrow), 1);
}

TEST(Types, each_holds_what_its_format_holds) {
  auto stored = [](Type type, double value) {
    Builder b;
    return scalar(b, b.number(value), type);
  };
  EXPECT_EQ(stored(Type::bf16, 1 + 0x1p-8), 1);            // halfway: to even
  EXPECT_EQ(stored(Type::bf16, 1 + 0x1.8p-7), 1 + 0x1p-6); // halfway: to even
  EXPECT_EQ(stored(Type::bf16, 3.4e38), inf);
  EXPECT_EQ(stored(Type::bf16, 0x1p-133), 0x1p-133);
  EXPECT_EQ(stored(Type::bf16, 0x1p-134), 0);
  EXPECT_EQ(stored(Type::f16, 65519), 65504);
  EXPECT_EQ(stored(Type::f16, 65520), inf);
  EXPECT_EQ(stored(Type::f16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(stored(Type::f16, 1 + 0x1p-11), 1);
  EXPECT_EQ(stored(Type::f32, 1e39), inf);
  EXPECT_EQ(stored(Type::i8, 130), -126);
  EXPECT_EQ(stored(Type::i32, 2147483648.0), -2147483648.0);
  EXPECT_EQ(stored(Type::boolean, 3), 1);
}

TEST(Reads, affine_positions_stride_and_shift) {
  Builder b;
  const Tensor *x = b.input("x", Type::f32, {4, 6});
  // y[i, j] = x[3 - i, 2 * j + 1]
  b.output(b.stage("y", Type::f32, {4, 3},
                   b.read(x, {b.minus(b.whole(3), b.index(0)), b.plus(b.times(b.whole(2), b.index(1)), b.whole(1))})));
  Array given = pattern({4, 6}), got = b.run({{"x", given}});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j)
      EXPECT_EQ(got.data[i * 3 + j], given.data[(3 - i) * 6 + 2 * j + 1]);
}

TEST(Reads, outside_gives_zero_where_a_select_does_not_take_it) {
  for (int shift : {-7, -2, 0, 3, 9}) { // x[i + shift | 5], forwards and backwards
    for (int factor : {1, -1, 2}) {
      Builder b;
      Size n = b.dim("N");
      const Tensor *x = b.input("x", Type::f32, {n});
      const Expr *at = b.plus(b.times(b.whole(factor), b.index(0)), b.whole(shift));
      const Expr *inside = b.op(
          Expr::logical_and,
          {b.op(Expr::less_equal, {b.whole(0), at}, Type::boolean), b.op(Expr::less, {at, b.size(n)}, Type::boolean)},
          Type::boolean);
      b.output(b.stage("y", Type::f32, {n}, b.op(Expr::select, {inside, b.read(x, {at}, false), b.number(5)})));
      Array given = pattern({1300}), got = b.run({{"x", given}});
      for (int i = 0; i < 1300; ++i) {
        int from = factor * i + shift;
        ASSERT_EQ(got.data[i], from >= 0 && from < 1300 ? given.data[from] : 5) << shift << " " << factor << " " << i;
      }
    }
  }
}

TEST(Reads, a_lookup_takes_its_row_from_data) {
  Builder b;
  const Tensor *ids = b.input("ids", Type::i32, {5}, Size(7));
  const Tensor *table = b.input("table", Type::f32, {7, 3});
  b.output(b.stage("y", Type::f32, {5, 3}, b.read(table, {b.read(ids, {b.index(0)}), b.index(1)})));
  Array rows = pattern({7, 3});
  const int chosen[] = {6, 0, 3, 3, 1};
  Array got = b.run({{"ids", array({5}, {6, 0, 3, 3, 1}, Type::i32)}, {"table", rows}});
  for (int i = 0; i < 5; ++i)
    for (int d = 0; d < 3; ++d)
      EXPECT_EQ(got.data[i * 3 + d], rows.data[chosen[i] * 3 + d]);
}

TEST(Reads, a_gather_along_the_run_does_not_fault_outside) {
  Builder b;
  const Tensor *ids = b.input("ids", Type::i32, {4});
  const Tensor *x = b.input("x", Type::f32, {3});
  b.output(b.stage("y", Type::f32, {4}, b.read(x, {b.read(ids, {b.index(0)})}, false)));
  EXPECT_EQ(b.run({{"ids", array({4}, {2, -1, 2147483647, 0}, Type::i32)}, {"x", array({3}, {10, 20, 30})}}).data,
            (Values{30, 0, 0, 10}));
}

TEST(Reads, quotients_and_remainders_of_an_index_find_their_patch) {
  Builder b; // y[n, i] = x[n // 3 * 2 + i, n % 3]
  const Tensor *x = b.input("x", Type::f32, {4, 3});
  const Expr *row = b.plus(b.times(b.op(Expr::floor_div, {b.index(0), b.whole(3)}, Type::i32), b.whole(2)), b.index(1));
  b.output(b.stage("y", Type::f32, {6, 2}, b.read(x, {row, b.op(Expr::mod, {b.index(0), b.whole(3)}, Type::i32)})));
  Array given = pattern({4, 3}), got = b.run({{"x", given}});
  for (int n = 0; n < 6; ++n)
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(got.data[n * 2 + i], given.data[(n / 3 * 2 + i) * 3 + n % 3]);
}

TEST(Reads, a_read_that_only_claims_to_be_inside_is_reported) {
  Builder b;
  const Tensor *x = b.input("x", Type::f32, {3});
  b.output(b.stage("y", Type::f32, {4}, b.read(x, {b.index(0)})));
  EXPECT_EQ(b.message({{"x", array({3}, {1, 2, 3})}}),
            "entry 'main': internal error, please report it: `y` reads `x` outside its shape, which the checker had "
            "excluded");
}

TEST(Reductions, a_product_of_matrices_is_exact_in_every_order_of_its_indices) {
  // Each layout makes another index the contiguous one, and so the run.
  Array x = pattern({5, 700}, 1), w = pattern({9, 700}, 2);
  for (int layout = 0; layout < 4; ++layout) {
    Builder b;
    bool turn_x = layout & 1, turn_w = layout & 2;
    const Tensor *a = b.input("x", Type::f32, turn_x ? std::vector<Size>{700, 5} : std::vector<Size>{5, 700});
    const Tensor *c = b.input("w", Type::f32, turn_w ? std::vector<Size>{700, 9} : std::vector<Size>{9, 700});
    auto at = [&](bool turned, int row) {
      return turned ? std::vector{b.index(2), b.index(row)} : std::vector{b.index(row), b.index(2)};
    };
    b.output(b.stage("y", Type::f32, {5, 9}, b.times(b.read(a, at(turn_x, 0)), b.read(c, at(turn_w, 1))), Reducer::sum,
                     {700}));
    auto turned = [](const Array &from, bool turn) {
      if (!turn)
        return from;
      Array made{from.type, {from.shape[1], from.shape[0]}, Values(from.data.size())};
      for (int64_t i = 0; i < from.shape[0]; ++i)
        for (int64_t j = 0; j < from.shape[1]; ++j)
          made.data[j * from.shape[0] + i] = from.data[i * from.shape[1] + j];
      return made;
    };
    Array got = b.run({{"x", turned(x, turn_x)}, {"w", turned(w, turn_w)}});
    for (int i = 0; i < 5; ++i)
      for (int o = 0; o < 9; ++o) {
        double want = 0;
        for (int k = 0; k < 700; ++k)
          want += x.data[i * 700 + k] * w.data[o * 700 + k];
        EXPECT_EQ(got.data[i * 9 + o], want) << layout;
      }
  }
}

TEST(Reductions, each_reducer_folds_all_terms) {
  Array x = array({2, 2, 3}, {3, -1, 2, 8, 0, 8, -5, -5, -7, -6, -9, -8});
  struct Row {
    Reducer reducer;
    Type type;
    Values want;
  };
  for (const Row &row : {Row{Reducer::sum, Type::f32, {20, -40}},
                         {Reducer::prod, Type::f32, {0, 75600}},
                         {Reducer::max, Type::f32, {8, -5}},
                         {Reducer::min, Type::f32, {-1, -9}},
                         {Reducer::argmax, Type::i32, {3, 0}},
                         {Reducer::argmin, Type::i32, {1, 4}},
                         {Reducer::any, Type::boolean, {1, 1}},
                         {Reducer::all, Type::boolean, {0, 1}}}) {
    Builder b;
    const Tensor *from = b.input("x", Type::f32, {2, 2, 3});
    b.output(b.stage("y", row.type, {2}, b.read(from, {b.index(0), b.index(1), b.index(2)}), row.reducer, {2, 3}));
    EXPECT_EQ(b.run({{"x", x}}).data, row.want) << int(row.reducer);
  }
}

TEST(Reductions, the_first_of_equal_bests_counts_along_any_run) {
  for (bool turned : {false, true}) { // the reduced index is contiguous, or the other one
    Builder b;
    std::vector<Size> shape = turned ? std::vector<Size>{1030, 3} : std::vector<Size>{3, 1030};
    const Tensor *x = b.input("x", Type::f32, shape);
    b.output(b.stage("y", Type::i32, {3},
                     turned ? b.read(x, {b.index(1), b.index(0)}) : b.read(x, {b.index(0), b.index(1)}),
                     Reducer::argmax, {1030}));
    Array given = array(turned ? std::vector<int64_t>{1030, 3} : std::vector<int64_t>{3, 1030}, Values(3090));
    for (int row = 0; row < 3; ++row)
      for (int place : {40 + row, 600 + row, 1029})
        given.data[turned ? place * 3 + row : row * 1030 + place] = 1;
    EXPECT_EQ(b.run({{"x", given}}).data, (Values{40, 41, 42}));
  }
}

TEST(Reductions, over_nothing_are_neutral) {
  for (auto [reducer, want] : {std::pair{Reducer::sum, 0.0},
                               {Reducer::prod, 1.0},
                               {Reducer::max, -inf},
                               {Reducer::min, inf},
                               {Reducer::any, 0.0},
                               {Reducer::all, 1.0},
                               {Reducer::argmax, 0.0}}) {
    Builder b;
    Size n = b.dim("N");
    const Tensor *x = b.input("x", Type::f32, {2, n});
    b.output(b.stage("y", Type::f32, {2}, b.read(x, {b.index(0), b.index(1)}), reducer, {n}));
    EXPECT_EQ(b.run({{"x", array({2, 0}, {})}}).data, (Values{want, want})) << int(reducer);
  }
}

TEST(Reductions, of_what_does_not_vary_count_every_term) {
  Builder b;
  const Tensor *x = b.input("x", Type::f32, {});
  b.output(b.stage("y", Type::f32, {2}, b.read(x, {}), Reducer::sum, {3, 1000}));
  EXPECT_EQ(b.run({{"x", array({}, {0.5})}}).data, (Values{1500, 1500}));
  Builder c;
  const Tensor *z = c.input("x", Type::f32, {});
  c.output(c.stage("y", Type::f32, {}, c.times(c.read(z, {}), c.number(2)), Reducer::sum, {600}));
  EXPECT_EQ(c.run({{"x", array({}, {0.5})}}).data, (Values{600}));
}

TEST(Reductions, infinity_times_what_is_zero_is_not_a_number) {
  Builder b;
  const Tensor *x = b.input("x", Type::f32, {3}), *y = b.input("y", Type::f32, {});
  b.output(b.stage("z", Type::f32, {}, b.times(b.read(x, {b.index(0)}), b.read(y, {})), Reducer::sum, {3}));
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(b.run({{"x", array({3}, {1, 0, 2})}, {"y", array({}, {infinity})}}).data[0]));
  EXPECT_EQ(b.run({{"x", array({3}, {1, 3, 2})}, {"y", array({}, {-infinity})}}).data, (Values{-infinity}));
}

TEST(Reductions, sums_are_not_rounded_on_the_way) {
  Builder b;
  const Tensor *x = b.input("x", Type::f32, {3});
  b.output(b.stage("y", Type::f32, {}, b.read(x, {b.index(0)}), Reducer::sum, {3}));
  EXPECT_EQ(b.run({{"x", array({3}, {0x1p30, 1, -0x1p30})}}).data, (Values{1}));
}

TEST(Stages, an_empty_space_gives_an_empty_tensor) {
  Builder b;
  Size n = b.dim("N");
  const Tensor *x = b.input("x", Type::f32, {n, 3});
  b.output(b.stage("y", Type::f32, {3, n}, b.read(x, {b.index(1), b.index(0)})));
  Array got = b.run({{"x", array({0, 3}, {})}});
  EXPECT_EQ(got.shape, (std::vector<int64_t>{3, 0}));
  EXPECT_TRUE(got.data.empty());
}

TEST(Speed, a_product_runs_a_hundred_million_steps_a_second) {
  Builder b;
  const Tensor *x = b.input("x", Type::f32, {128, 768}), *w = b.input("w", Type::f32, {768, 768});
  b.output(b.stage("y", Type::f32, {128, 768},
                   b.times(b.read(x, {b.index(0), b.index(2)}), b.read(w, {b.index(1), b.index(2)})), Reducer::sum,
                   {768}));
  std::map<std::string, Array> inputs{{"x", pattern({128, 768}, 1)}, {"w", pattern({768, 768}, 2)}};
  auto start = std::chrono::steady_clock::now();
  b.run(inputs);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double rate = 128.0 * 768 * 768 / seconds;
  RecordProperty("multiply_adds_per_second", std::to_string(rate));
  std::printf("%.2g multiply-adds a second\n", rate);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_GE(rate, 1e8 / 4); // a quarter, for a machine that others use at the same time
#endif
}

} // namespace
} // namespace heddle
