// Whole calls: weights, dims, optional inputs, loops, states, requirements, and the message of each refusal.
#include "programs.h"

namespace heddle {
namespace {

using Values = std::vector<double>;

/// y[b, s] = x[b, s] + row[s] with row[s] = table[ids[s]]
struct Lookup : Builder {
  Lookup() {
    Size batch = dim("B", 4), length = dim("S", 6);
    const Tensor *x = input("x", Type::f32, {batch, length});
    const Tensor *ids = input("ids", Type::i32, {length}, Size(5), 0.0);
    const Tensor *table = weight({"model.table", "table"}, Type::f32, {5}, {1, 5});
    weights = [](const std::string &name) -> Result<Array> {
      if (name == "table")
        return array({1, 5}, {10, 20, 30, 40, 50});
      return Error{"no such tensor"};
    };
    output(stage("y", Type::f32, {batch, length},
                 plus(read(x, {index(0), index(1)}), read(table, {read(ids, {index(1)})}))));
  }
  Array x = array({2, 3}, {1, 2, 3, 4, 5, 6});
  Array ids = array({3}, {4, 0, 1}, Type::i32);
};

TEST(Calls, a_weight_is_found_under_any_of_its_names_and_seen_in_its_declared_shape) {
  Lookup b;
  EXPECT_EQ(b.run({{"x", b.x}, {"ids", b.ids}}).data, (Values{51, 12, 23, 54, 15, 26}));
}

TEST(Calls, an_absent_optional_input_takes_its_default) {
  Lookup b;
  EXPECT_EQ(b.run({{"x", b.x}}).data, (Values{11, 12, 13, 14, 15, 16}));
}

TEST(Calls, wrong_inputs_are_refused_by_name) {
  Lookup b;
  Array x = b.x;
  EXPECT_EQ(b.message({{"ids", b.ids}}), "entry 'main', input 'x': is missing; give it as f32 [B, S]");
  EXPECT_EQ(b.message({{"x", x}, {"id", b.ids}}), "entry 'main' has no input 'id'; it has: x, ids");
  EXPECT_EQ(b.message({{"x", array({2, 3}, x.data, Type::i32)}}),
            "entry 'main', input 'x': has dtype i32, but must be f32 [B, S]");
  EXPECT_EQ(b.message({{"x", array({2, 3}, x.data, Type::bf16)}}),
            "entry 'main', input 'x': has dtype bf16, but must be f32 [B, S]");
  EXPECT_EQ(
      b.message({{"x", x}, {"ids", array({3}, {1, 2, 3})}}),
      "entry 'main', input 'ids': has dtype f32, but must be i32 [S] (any of i8, u8, i32, i64 and bool is accepted)");
  EXPECT_EQ(b.message({{"x", array({6}, x.data)}}), "entry 'main', input 'x': has rank 1, but must be f32 [B, S]");
  EXPECT_EQ(b.message({{"x", x}, {"ids", array({2}, {0, 1}, Type::i32)}}),
            "entry 'main', input 'ids': has shape [2], so S = 2, but S = 3 in input 'x'");
  EXPECT_EQ(b.message({{"x", array({5, 1}, {1, 2, 3, 4, 5})}}),
            "entry 'main', input 'x': has shape [5, 1], so B = 5, but the model allows at most 4");
  EXPECT_EQ(b.message({{"x", x}, {"ids", array({3}, {0, 5, 1}, Type::i32)}}),
            "entry 'main', input 'ids': element [1] is 5, but must be in 0 .. 4");
  EXPECT_EQ(b.message({{"x", x}, {"ids", array({3}, {0, 1, -1}, Type::i32)}}),
            "entry 'main', input 'ids': element [2] is -1, but must be in 0 .. 4");
}

TEST(Calls, a_fixed_extent_and_two_equal_dims_of_one_input_are_checked) {
  Builder b;
  Size n = b.dim("N");
  const Tensor *x = b.input("x", Type::f32, {n, n, 2});
  b.output(b.stage("y", Type::f32, {n}, b.read(x, {b.index(0), b.index(0), b.whole(1)})));
  EXPECT_EQ(b.run({{"x", array({1, 1, 2}, {1, 2})}}).data, (Values{2}));
  EXPECT_EQ(b.message({{"x", array({1, 1, 3}, {1, 2, 3})}}),
            "entry 'main', input 'x': has shape [1, 1, 3], but must be f32 [N, N, 2]");
  EXPECT_EQ(b.message({{"x", array({1, 2, 2}, {1, 2, 3, 4})}}),
            "entry 'main', input 'x': has shape [1, 2, 2], so N = 2, but N = 1 in another dimension of it");
}

TEST(Calls, an_integer_must_fit_the_declared_type) {
  Builder b;
  const Tensor *x = b.input("x", Type::i32, {}), *flag = b.input("flag", Type::boolean, {}, {}, 1.0);
  b.output(b.stage("y", Type::i32, {}, b.op(Expr::select, {b.read(flag, {}), b.read(x, {}), b.whole(-1)}, Type::i32)));
  EXPECT_EQ(b.run({{"x", array({}, {2147483647}, Type::i32)}}).data, (Values{2147483647}));
  EXPECT_EQ(b.message({{"x", array({}, {2147483648.0}, Type::i32)}}),
            "entry 'main', input 'x': element [] is 2147483648, but must be in -2147483648 .. 2147483647");
  EXPECT_EQ(b.message({{"x", array({}, {1}, Type::i32)}, {"flag", array({}, {2}, Type::i32)}}),
            "entry 'main', input 'flag': element [] is 2, but must be in 0 .. 1");
}

TEST(Calls, an_unknown_entry_is_refused) {
  Lookup b;
  Interpreter interpreter(b.program, b.weights);
  EXPECT_EQ(interpreter.run("encode", {}).error().message, "model 'test' has no entry 'encode'; it has: main");
}

TEST(Calls, weights_that_are_missing_or_shaped_otherwise_are_refused) {
  Lookup b;
  b.weights = [](const std::string &) -> Result<Array> { return Error{"no such tensor"}; };
  EXPECT_EQ(b.message({{"x", b.x}}), "the weights have no tensor `model.table` nor `table`");
  b.weights = [](const std::string &) -> Result<Array> { return array({5}, {1, 2, 3, 4, 5}); };
  EXPECT_EQ(b.message({{"x", b.x}}), "tensor `model.table` of the weights has shape [5]; the model wants [1, 5]");
}

TEST(Calls, a_size_that_nothing_gives_is_refused) {
  Builder b;
  Size n = b.dim("N");
  const Tensor *x = b.input("x", Type::f32, {n}, {}, 0.0);
  b.output(b.stage("y", Type::f32, {}, b.read(x, {b.index(0)}), Reducer::sum, {n}));
  EXPECT_EQ(b.message({}),
            "entry 'main', input 'x': has dim N, which no given input tells; give the optional inputs that have it");
}

TEST(Calls, computed_extents_are_checked) {
  Builder b;
  Size n = b.dim("N");
  const Tensor *x = b.input("x", Type::f32, {n}), *z = b.input("z", Type::f32, {n * 2 + 1});
  b.output(b.stage("y", Type::f32, {n * 2 + 1}, b.plus(b.read(z, {b.index(0)}), b.read(x, {b.whole(0)}))));
  EXPECT_EQ(b.run({{"x", array({1}, {1})}, {"z", array({3}, {1, 2, 3})}}).data, (Values{2, 3, 4}));
  EXPECT_EQ(b.message({{"x", array({1}, {1})}, {"z", array({2}, {1, 2})}}),
            "entry 'main', input 'z': has shape [2], but must be [3] where N = 1");
}

TEST(Calls, a_requirement_that_fails_says_its_message) {
  Builder b;
  const Tensor *x = b.input("x", Type::i32, {});
  const Tensor *ok = b.stage("ok", Type::boolean, {}, b.op(Expr::less, {b.read(x, {}), b.whole(3)}, Type::boolean));
  b.entry().steps.push_back({Require{ok, "x must be small", {}}});
  b.output(x);
  EXPECT_EQ(b.run({{"x", array({}, {2}, Type::i32)}}).data, (Values{2}));
  EXPECT_EQ(b.message({{"x", array({}, {3}, Type::i32)}}), "entry 'main': x must be small");
}

TEST(Calls, all_tensors_can_be_kept) {
  Lookup b;
  Interpreter interpreter(b.program, b.weights);
  interpreter.keep_all(true);
  ASSERT_TRUE(interpreter.run("main", {{"x", b.x}, {"ids", b.ids}}));
  EXPECT_EQ(interpreter.kept().at("y").data, (Values{51, 12, 23, 54, 15, 26}));
  EXPECT_EQ(interpreter.kept().at("ids").data, b.ids.data);
}

TEST(Loops, carry_values_and_collect_slices) {
  // h starts as x; for t in T with h { h = 2 * h + t;  all[b, t] = h[b] }
  Builder b;
  Size batch = b.dim("B"), time = b.dim("T");
  const Tensor *x = b.input("x", Type::f32, {batch}), *steps = b.input("steps", Type::f32, {time});
  (void)steps;
  const Tensor *h = b.tensor(Tensor::carried, "h", Type::f32, {batch});
  Loop loop;
  loop.index = {"t", time};
  const Tensor *next =
      b.stage("h.next", Type::f32, {batch},
              b.plus(b.times(b.number(2), b.read(h, {b.index(0)})), b.op(Expr::cast, {b.iteration(0)})), Reducer::none,
              {}, &loop.steps);
  const Tensor *all = b.tensor(Tensor::stage, "all", Type::f32, {batch, time});
  loop.carried.push_back({h, x, next});
  loop.collected.push_back({all, next, 1});
  b.entry().steps.push_back({loop});
  b.output(all);
  b.output(h, "last");
  std::map<std::string, Array> inputs{{"x", array({2}, {1, 10})}, {"steps", array({3}, {0, 0, 0})}};
  EXPECT_EQ(b.run(inputs).data, (Values{2, 5, 12, 20, 41, 84}));
  Interpreter interpreter(b.program, b.weights);
  EXPECT_EQ(interpreter.run("main", inputs)->at("last").data, (Values{12, 84}));
  inputs["steps"] = array({0}, {});
  EXPECT_EQ(interpreter.run("main", inputs)->at("last").data, (Values{1, 10}));
}

TEST(Loops, carried_values_change_together) {
  Builder b; // for i in 3 with a, c { a, c = c, a + c }
  const Tensor *x = b.input("x", Type::f32, {}), *z = b.input("z", Type::f32, {});
  const Tensor *a = b.tensor(Tensor::carried, "a", Type::f32, {}), *c = b.tensor(Tensor::carried, "c", Type::f32, {});
  Loop loop;
  loop.index = {"i", 3};
  const Tensor *sum =
      b.stage("sum", Type::f32, {}, b.plus(b.read(a, {}), b.read(c, {})), Reducer::none, {}, &loop.steps);
  loop.carried = {{a, x, c}, {c, z, sum}};
  b.entry().steps.push_back({loop});
  b.output(a, "a");
  b.output(c, "y");
  EXPECT_EQ(b.run({{"x", array({}, {0})}, {"z", array({}, {1})}}).data, (Values{3})); // 0 1, 1 1, 1 2, 2 3
}

/// total <- total + x; the entry returns the old value.
struct Memory : Builder {
  const Tensor *x, *total;
  Memory() {
    Size n = dim("N");
    x = input("x", Type::f32, {n});
    total = state("total", Type::f32, {n}, 7);
    const Tensor *next = stage("next", Type::f32, {n}, plus(read(total, {index(0)}), read(x, {index(0)})));
    entry().steps.push_back({Update{total, next, {}, {}}});
    output(stage("old", Type::f32, {n}, read(total, {index(0)})));
  }
};

TEST(States, persist_between_calls_and_are_read_before_their_update) {
  Memory b;
  Interpreter interpreter(b.program, b.weights);
  EXPECT_EQ(interpreter.run("main", {{"x", array({2}, {1, 2})}})->at("y").data, (Values{7, 7}));
  EXPECT_EQ(interpreter.run("main", {{"x", array({2}, {1, 2})}})->at("y").data, (Values{8, 9}));
  interpreter.reset();
  EXPECT_EQ(interpreter.run("main", {{"x", array({3}, {0, 0, 0})}})->at("y").data, (Values{7, 7, 7}));
}

TEST(States, keep_the_size_of_their_last_update) {
  Memory b;
  Interpreter interpreter(b.program, b.weights);
  ASSERT_TRUE(interpreter.run("main", {{"x", array({2}, {1, 2})}}));
  EXPECT_EQ(
      interpreter.run("main", {{"x", array({3}, {1, 2, 3})}}).error().message,
      "entry 'main', state 'total': holds N = 2 since entry 'main', but N = 3 in input 'x'; reset the session, or "
      "keep to what it holds");
}

TEST(States, tell_the_sizes_that_no_input_tells) {
  Builder b;
  Size n = b.dim("N");
  const Tensor *x = b.input("x", Type::f32, {n}), *memory = b.state("memory", Type::f32, {n}, 0);
  b.entry().steps.push_back({Update{memory, x, {}, {}}});
  b.output(x);
  b.program.entries.push_back({"look", {}, {}, {}, {}});
  std::vector<Step> *steps = &b.program.entries[1].steps;
  b.program.entries[1].outputs.push_back(
      {"y", b.stage("total", Type::f32, {}, b.read(memory, {b.index(0)}), Reducer::sum, {n}, steps)});
  Interpreter interpreter(b.program, b.weights);
  EXPECT_EQ(
      interpreter.run("look", {}).error().message,
      "entry 'look', state 'memory': has dim N, which no given input tells; give the optional inputs that have it");
  ASSERT_TRUE(interpreter.run("main", {{"x", array({3}, {1, 2, 3})}}));
  EXPECT_EQ(interpreter.run("look", {})->at("y").data, (Values{6}));
}

TEST(States, are_not_changed_by_a_call_that_fails) {
  Memory b;
  const Tensor *ok =
      b.stage("ok", Type::boolean, {}, b.op(Expr::less, {b.read(b.x, {b.whole(0)}), b.number(5)}, Type::boolean));
  b.entry().steps.push_back({Require{ok, "too large", {}}});
  Interpreter interpreter(b.program, b.weights);
  EXPECT_EQ(interpreter.run("main", {{"x", array({1}, {9})}}).error().message, "entry 'main': too large");
  EXPECT_EQ(interpreter.run("main", {{"x", array({1}, {1})}})->at("y").data, (Values{7}));
}

} // namespace
} // namespace heddle
