// Training steps: what loops over params make of a program.
#include "tests/differentiate/differences.h"

namespace heddle::tests {
namespace {

size_t count(const std::string &text, const std::string &part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++times;
  return times;
}

TEST(Steps, AllGradientsOfAFormulaAreOnePass) {
  Checked checked = check_text(R"(
dim B
model M {
  sub a = Linear(2, 3)
  sub b = Linear(3, 2)
  entry step(x: real[B, 2]) -> loss: real {
    let y = b(tanh(a(x)))
    loss = mean[n](y[n, 0] ** 2) + mean[n](y[n, 1] ** 4)
    for p in params(a, b) { p <- p - 0.1 * grad(loss, p) }
    return loss
  }
}
)");
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  std::string tree = to_text(*checked.program);
  EXPECT_EQ(tree.find("loss#3"), std::string::npos) << tree; // one for the gradients, one for the caller
  EXPECT_EQ(tree.find("b.bias.grad#2"), std::string::npos) << tree;
  EXPECT_EQ(count(tree, " <- p.new"), 4u);
  EXPECT_EQ(count(tree, ".file\n"), 4u) << tree; // what the states begin as
}

TEST(Steps, ParamsOfAModelAreThoseOfAllItsModules) {
  Checked checked = check_text(R"(
model M {
  param scale: real
  sub layers[2] = Linear(2, 2)
  state m: params() = 0
  state n: params(layers[1], scale) = 1
  entry step(x: real[3, 2]) -> loss: real {
    let y = layers[1](layers[0](x))
    loss = sum[n, i](y[n, i] * scale)
    for p in params() { m[p] <- m[p] + grad(loss, p) }
    n[scale] <- n[scale] + 1
    for p in params(layers[1]) { n[p] <- n[p] * 2 }
    return loss
  }
}
)");
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  EXPECT_EQ(checked.messages, "");
  std::vector<std::string> names;
  for (const State &state : checked.program->states)
    names.push_back(state.tensor->name + " = " + std::to_string(int(*state.initial)));
  std::vector<std::string> expected = {"m.scale = 0",           "m.layers.0.weight = 0", "m.layers.0.bias = 0",
                                       "m.layers.1.weight = 0", "m.layers.1.bias = 0",   "n.scale = 1",
                                       "n.layers.1.weight = 1", "n.layers.1.bias = 1"};
  EXPECT_EQ(names, expected);
}

/// Steepest descent on sum (w - x)^2, which the file begins at w = 3: each step goes half of the way to x.
TEST(Steps, AParamBeginsAsTheFilesAndKeepsWhatStepsMakeOfIt) {
  Checked checked = check_text(R"(
model M {
  param w: real[2]
  entry step(x: real[2]) -> loss: real {
    loss = sum[i]((w[i] - x[i]) ** 2)
    w <- w - 0.25 * grad(loss, w)
    return loss
  }
  entry look() -> now: real[2] { return w * 1 }
}
)");
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  Interpreter session(*checked.program,
                      [](const std::string &) -> Result<Array> { return Array{Type::f32, {2}, {3, 3}}; });
  auto look = [&] { return session.run("look", {})->at("now").data; };
  EXPECT_EQ(look(), (std::vector<double>{3, 3}));
  std::map<std::string, Array> x = {{"x", Array{Type::f32, {2}, {1, -1}}}};
  EXPECT_EQ(session.run("step", x)->at("loss").data[0], 20);
  EXPECT_EQ(look(), (std::vector<double>{2, 1}));
  EXPECT_EQ(session.run("step", x)->at("loss").data[0], 5);
  EXPECT_EQ(look(), (std::vector<double>{1.5, 0}));
  session.reset();
  EXPECT_EQ(look(), (std::vector<double>{3, 3}));
}

TEST(Steps, OfADefinitionItIsWhatTheLossMakesOfThat) {
  Checked checked = check_text(R"(
dim S
model M {
  param w: real
  entry run(x: real[S]) -> d: real[S], dh: real[S] {
    y[s] = w * x[s]
    let h = 0.0
    for t in S with h {
      h = 0.5 * h + y[t]
      hs[t] = h
    }
    loss = sum[s](y[s] ** 2) + sum[s](hs[s] * (s + 1))
    return grad(loss, y), grad(loss, hs)
  }
}
)");
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  Interpreter session(*checked.program, [](const std::string &) -> Result<Array> { return Array{Type::f32, {}, {2}}; });
  auto results = session.run("run", {{"x", Array{Type::f32, {3}, {1, 2, 3}}}});
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->at("dh").data, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(results->at("d").data, (std::vector<double>{4 + 1 + 0.5 * (2 + 0.5 * 3), 8 + 2 + 0.5 * 3, 12 + 3}));
}

TEST(Steps, AStepMayBeLeftOut) {
  Checked checked = check_text(R"(
model M {
  param w: real[2]
  entry step(x: real[2]) -> loss: real {
    loss = sum[i]((w[i] - x[i]) ** 2)
    if loss < 10 { w <- w - 0.5 * grad(loss, w) }
    return loss
  }
}
)");
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  Interpreter session(*checked.program,
                      [](const std::string &) -> Result<Array> { return Array{Type::f32, {2}, {3, 3}}; });
  auto loss_of = [&](double x) {
    return session.run("step", {{"x", Array{Type::f32, {2}, {x, x}}}})->at("loss").data[0];
  };
  EXPECT_EQ(loss_of(0), 18); // too much: w stays
  EXPECT_EQ(loss_of(2), 2);
  EXPECT_EQ(loss_of(2), 0);
}

TEST(Steps, AGradientOfAGradientIsADerivativeToo) {
  compare_gradients(R"(
dim S
model M {
  param w: real[3]
  entry run(x: real[S, 3]) -> penalty: real, d_w: real[3], d_x: real[S, 3] {
    y[s] = tanh(sum[i](x[s, i] * w[i]))
    loss = sum[s](y[s] * y[s])
    let slope = grad(loss, x)
    penalty = sum[s, i](slope[s, i] ** 2)
    return penalty, grad(penalty, w), grad(penalty, x)
  }
}
)",
                    {3});
}

/// Not even by what is around it, as the sign of a product or a condition of it.
TEST(Steps, WhatIsStoppedIsConstantInAGradientOfAGradientToo) {
  Checked checked = check_text(R"(
dim S
model M {
  entry run(x: real[S], y: real[S]) -> a: real[S], b: real[S], c: real[S] {
    f = sum[n](x[n] ** 2 * stop(-y[n]))
    g = sum[n](x[n] ** 2 * stop(if n > 0 then y[n] else 0))
    h = sum[n](x[n] * (x[n] + stop(-y[n])))
    let df = grad(f, x)
    let dg = grad(g, x)
    let dh = grad(h, x)
    i = sum[n](df[n] ** 2)
    j = sum[n](dg[n] ** 2)
    k = sum[n](dh[n] ** 2)
    return grad(i, y), grad(j, y), grad(k, y)
  }
}
)");
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  Interpreter session(*checked.program, [](const std::string &) -> Result<Array> { return Array{}; });
  auto results = session.run("run", {{"x", Array{Type::f32, {3}, {1, 2, 3}}}, {"y", Array{Type::f32, {3}, {4, 5, 6}}}});
  ASSERT_TRUE(results) << results.error().message;
  for (auto &[name, result] : *results)
    EXPECT_EQ(result.data, std::vector<double>(3)) << name;
}

} // namespace
} // namespace heddle::tests
