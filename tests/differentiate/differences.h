// Gradients against differences: an entry `run` whose first result is a real number and whose results `d_NAME` are its
// derivatives by the input or weight of that name (`d_first_weight` by first.weight). The interpreter keeps doubles, so
// that a central difference has ten digits.
#pragma once

#include "dsl/interp/interp.h"
#include "tests/check/checked.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heddle::tests {

/// Values without structure, in -1 .. 1, each with its own fractional part, so that no two are tied.
inline Array values(Type type, std::vector<int64_t> shape, uint32_t seed, int64_t below = 2) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  Array made{type, std::move(shape), {}};
  uint32_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    made.data.push_back(is_floating(type) ? double(state >> 8) / double(1 << 23) - 1 : double((state >> 8) % below));
  }
  return made;
}

struct Differences {
  const Program &program;
  std::map<std::string, Array> inputs, weights;

  Differences(const Program &program, std::vector<int64_t> dims, std::map<std::string, Array> given = {})
      : program(program), inputs(std::move(given)) {
    uint32_t seed = 1;
    for (const Input &input : program.entries[0].inputs) {
      std::vector<int64_t> shape;
      for (const Size &extent : input.tensor->shape)
        shape.push_back(extent.evaluate(dims));
      int64_t below = input.below ? input.below->evaluate(dims) : 2;
      inputs.try_emplace(input.name, values(input.tensor->type, shape, ++seed, below));
    }
    for (const Weight &weight : program.weights)
      weights[weight.names[0]] = values(weight.tensor->type, weight.stored, ++seed);
  }

  std::map<std::string, Array> run() const {
    Interpreter interpreter(program, [this](const std::string &name) -> Result<Array> { return weights.at(name); });
    interpreter.round(false);
    auto results = interpreter.run(program.entries[0].name, inputs);
    if (!results) {
      ADD_FAILURE() << results.error().message;
      return {};
    }
    return *results;
  }

  /// An input, or a weight whose path has `_` for each point.
  Array &of_name(const std::string &name) {
    for (auto &[path, weight] : weights) {
      std::string plain = path;
      std::replace(plain.begin(), plain.end(), '.', '_');
      if (plain == name)
        return weight;
    }
    return inputs.at(name);
  }

  double loss() const {
    auto results = run();
    auto found = results.find(program.entries[0].outputs[0].name);
    return found == results.end() ? NAN : found->second.data[0];
  }

  /// Compares every result `d_NAME`; returns how many there were.
  int compare(double tolerance = 1e-6) {
    auto results = run();
    int count = 0;
    for (auto &[name, gradient] : results) {
      if (!name.starts_with("d_"))
        continue;
      ++count;
      std::string of = name.substr(2);
      Array &varied = of_name(of);
      EXPECT_EQ(varied.data.size(), gradient.data.size()) << name;
      double largest = 1e-3;
      std::vector<double> expected;
      for (double &x : varied.data) {
        const double h = 1e-5, before = x;
        x = before + h;
        double up = loss();
        x = before - h;
        expected.push_back((up - loss()) / (2 * h));
        x = before;
        largest = std::max(largest, std::fabs(expected.back()));
      }
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(gradient.data[i], expected[i], tolerance * largest) << name << " at " << i;
    }
    return count;
  }
};

/// Checks a model's text, compares its gradients, and returns the program as text.
inline std::string compare_gradients(const std::string &text, std::vector<int64_t> dims,
                                     std::map<std::string, Array> given = {}) {
  Checked checked = check_text(text);
  EXPECT_EQ(checked.messages, "") << text;
  if (!checked.program)
    return "";
  std::string tree = to_text(*checked.program);
  testing::ScopedTrace trace(__FILE__, __LINE__, tree);
  EXPECT_GT(Differences(*checked.program, std::move(dims), std::move(given)).compare(), 0);
  return tree;
}

} // namespace heddle::tests
