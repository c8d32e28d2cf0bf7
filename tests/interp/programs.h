// Checked programs written by hand, for tests that must not depend on the parser and the checker: a small
// vocabulary of expressions, and a program with one entry whose tensors are named as they are made.
#pragma once

#include "dsl/interp/interp.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heddle {

class Builder {
public:
  Program program;

  Builder() {
    program.name = "test";
    program.entries.push_back({"main", {}, {}, {}, {}});
  }
  Entry &entry() { return program.entries[0]; }

  Size dim(const std::string &name, std::optional<int64_t> most = {}) {
    program.dims.push_back({name, most, {}});
    return Size::of_dim(int(program.dims.size()) - 1);
  }
  const Tensor *tensor(Tensor::Kind kind, const std::string &name, Type type, std::vector<Size> shape) {
    return &program.tensors.emplace_back(Tensor{kind, name, type, std::move(shape), {}});
  }
  const Tensor *input(const std::string &name, Type type, std::vector<Size> shape, std::optional<Size> below = {},
                      std::optional<double> initial = {}) {
    entry().inputs.push_back({name, tensor(Tensor::input, name, type, std::move(shape)), below, initial});
    return entry().inputs.back().tensor;
  }
  const Tensor *weight(std::vector<std::string> names, Type type, std::vector<Size> shape,
                       std::vector<int64_t> stored) {
    const Tensor *made = tensor(Tensor::weight, names[0], type, std::move(shape));
    program.weights.push_back({made, std::move(names), std::move(stored)});
    return made;
  }
  const Tensor *state(const std::string &name, Type type, std::vector<Size> shape, std::optional<double> initial) {
    const Tensor *made = tensor(Tensor::state, name, type, std::move(shape));
    program.states.push_back({made, initial});
    return made;
  }
  void output(const Tensor *tensor, std::string name = "y") { entry().outputs.push_back({std::move(name), tensor}); }

  /// A stage; `steps` is the entry's list unless it stands in a loop.
  const Tensor *stage(const std::string &name, Type type, std::vector<Size> space, const Expr *value,
                      Reducer reducer = Reducer::none, std::vector<Size> over = {},
                      std::vector<Step> *steps = nullptr) {
    Stage made;
    made.result = tensor(Tensor::stage, name, type, space);
    for (const Size &extent : space)
      made.space.push_back({"i", extent});
    for (const Size &extent : over)
      made.over.push_back({"r", extent});
    made.reducer = reducer;
    made.value = value;
    (steps ? *steps : entry().steps).push_back({made});
    return made.result;
  }

  // --- expressions
  static Expr node(Expr::Op op, Type type) {
    Expr made;
    made.op = op;
    made.type = type;
    return made;
  }
  const Expr *make(Expr expr) { return &program.exprs.emplace_back(std::move(expr)); }
  const Expr *op(Expr::Op op, std::vector<const Expr *> args, Type type = Type::f32) {
    Expr made = node(op, type);
    made.args = std::move(args);
    return make(made);
  }
  const Expr *number(double value, Type type = Type::f32) {
    Expr made = node(Expr::real, type);
    made.number = value;
    return make(made);
  }
  const Expr *whole(int64_t value) {
    Expr made = node(Expr::integer, Type::i32);
    made.whole = value;
    return make(made);
  }
  const Expr *index(int position) { // of the stage: its space, then its over
    Expr made = node(Expr::index, Type::i32);
    made.position = position;
    return make(made);
  }
  const Expr *iteration(int loop) {
    Expr made = node(Expr::loop_index, Type::i32);
    made.position = loop;
    return make(made);
  }
  const Expr *size(Size extent) {
    Expr made = node(Expr::size, Type::i32);
    made.extent = extent;
    return make(made);
  }
  const Expr *read(const Tensor *tensor, std::vector<const Expr *> at, bool always_inside = true) {
    Expr made = node(Expr::read, tensor->type);
    made.tensor = tensor;
    made.args = std::move(at);
    made.always_inside = always_inside;
    return make(made);
  }
  const Expr *plus(const Expr *a, const Expr *b) { return op(Expr::add, {a, b}, a->type); }
  const Expr *minus(const Expr *a, const Expr *b) { return op(Expr::sub, {a, b}, a->type); }
  const Expr *times(const Expr *a, const Expr *b) { return op(Expr::mul, {a, b}, a->type); }

  // --- running
  Interpreter::WeightSource weights = [](const std::string &name) -> Result<Array> { return Error{"none"}; };

  Array run(const std::map<std::string, Array> &inputs = {}) {
    Interpreter interpreter(program, weights);
    auto results = interpreter.run("main", inputs);
    if (!results) {
      ADD_FAILURE() << results.error().message;
      return {};
    }
    return results->at("y");
  }
  std::string message(const std::map<std::string, Array> &inputs) {
    Interpreter interpreter(program, weights);
    auto results = interpreter.run("main", inputs);
    return results ? "no error" : results.error().message;
  }
};

inline Array array(std::vector<int64_t> shape, std::vector<double> data, Type type = Type::f32) {
  return {type, std::move(shape), std::move(data)};
}

/// Distinct values without structure that f32 and bf16 hold exactly.
inline Array pattern(std::vector<int64_t> shape, int seed = 1) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  Array made{Type::f32, std::move(shape), {}};
  uint32_t state = 12345u * uint32_t(seed) + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    made.data.push_back((double(state >> 24) - 128) / 64);
  }
  return made;
}

} // namespace heddle
