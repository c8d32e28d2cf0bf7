// The gradient of a whole entry along one direction: its real results are summed with fixed factors to one number,
// which is differentiated by all real inputs and weights; along a random direction the derivative equals a central
// difference of the interpreter, which keeps doubles for it.
#pragma once

#include "dsl/check/multiply_adds.h"
#include "dsl/check/prune.h"
#include "dsl/check/verify.h"
#include "dsl/differentiate/differentiate.h"
#include "dsl/interp/interp.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace heddle::tests {

class Slope {
public:
  enum Outcome { compared, refused, not_smooth, not_finite, not_run, without, failed };
  using Values = std::map<std::string, Array>;

  /// Of `program.entries[0]`. `numbers`: values of dims and of single inputs (of several numbers: the middle one).
  Slope(Program &program, std::map<std::string, int64_t> numbers, uint64_t seed)
      : program_(&program), entry_(&program.entries[0]), numbers_(std::move(numbers)),
        random_(seed * 2654435761u + 99) {}

  /// Values that are not drawn, by name of an input or weight.
  Values given;
  std::string what;                 // of a failure, or why there is no gradient
  double forward = 0, backward = 0; // multiply-adds of the results, and what their gradients add

  Outcome run() {
    if (!collect() || !add_loss())
      return without;
    const Tensor *loss = entry_->outputs[0].tensor;
    std::vector<Gradient> gradients;
    for (const Tensor *of : wanted_) {
      program_->tensors.push_back({Tensor::stage, "the gradient of " + of->name, of->type, of->shape, {}});
      gradients.push_back({of, &program_->tensors.back()});
      entry_->outputs.push_back({"d " + of->name, &program_->tensors.back()});
    }
    std::vector<int64_t> dims = dims_of_inputs();
    for (const Step &step : entry_->steps)
      if (auto *stage = std::get_if<Stage>(&step.what))
        own_.insert(stage->result->name);
    forward = multiply_adds(entry_->steps, dims).all();
    int made = 0;
    std::vector<const Tensor *> unrelated;
    auto none = differentiate(
        *program_, entry_->steps, loss, gradients,
        [&](const std::string &name) { return name + "~" + std::to_string(++made); }, unrelated);
    if (none) {
      what = none->reason;
      return refused;
    }
    // What the loss depends on by stop() alone is none of the direction.
    if (std::ranges::any_of(program_->exprs, [](const Expr &expr) { return expr.stopped; }))
      for (size_t i = 0; i < wanted_.size(); ++i)
        if (std::ranges::find(unrelated, wanted_[i]) != unrelated.end())
          std::ranges::fill(directions_[i], 0);
    checking::keep_needed(*entry_);
    backward = multiply_adds(entry_->steps, dims).all() - forward;
    if (std::string wrong = verify(*program_, *entry_); !wrong.empty()) {
      what = wrong;
      return failed;
    }
    return compare(loss);
  }

private:
  std::vector<int64_t> dims_of_inputs() const {
    std::vector<int64_t> dims(program_->dims.size());
    for (const Input &input : entry_->inputs)
      if (auto known = inputs_.find(input.name); known != inputs_.end())
        for (size_t axis = 0; axis < input.tensor->shape.size(); ++axis)
          if (int dim = input.tensor->shape[axis].as_dim(); dim >= 0)
            dims[dim] = known->second.shape[axis];
    return dims;
  }

  bool collect() {
    const auto &call = numbers_;
    std::vector<int64_t> dims;
    for (const Dim &dim : program_->dims)
      dims.push_back(call.count(dim.name) ? call.at(dim.name) : 2);
    auto filled = [&](const Tensor &tensor, const std::vector<int64_t> &shape, int64_t below) {
      Array array{tensor.type, shape, {}};
      int64_t count = 1;
      for (int64_t extent : shape)
        count *= extent;
      for (int64_t i = 0; i < count; ++i) {
        double x = between(random_, -1, 1);
        bool whole = tensor.type != Type::boolean && !is_floating(tensor.type);
        array.data.push_back(tensor.type == Type::boolean ? x > -0.3
                             : below >= 0                 ? (below ? std::floor((x + 1) / 2 * double(below)) : 0)
                             : whole                      ? std::floor((x + 1) * 4) - 3
                                                          : x);
      }
      return array;
    };
    for (const Input &input : entry_->inputs) {
      if (auto known = given.find(input.name); known != given.end()) {
        inputs_[input.name] = known->second;
        if (input.tensor->type == Type::f32)
          add(input.tensor, &inputs_[input.name]);
        continue;
      }
      if (!given.empty() && input.initial)
        continue;
      std::vector<int64_t> shape;
      for (const Size &extent : input.tensor->shape)
        shape.push_back(extent.evaluate(dims));
      inputs_[input.name] = filled(*input.tensor, shape, input.below ? input.below->evaluate(dims) : -1);
      if (call.count(input.name))
        inputs_[input.name].data[inputs_[input.name].data.size() / 2] = double(call.at(input.name));
      if (input.tensor->type == Type::f32)
        add(input.tensor, &inputs_[input.name]);
    }
    for (const Weight &weight : program_->weights) {
      Array &own = weights_[weight.names[0]] = filled(*weight.tensor, weight.stored, -1);
      for (double &x : own.data)
        if (weight.names[0].ends_with("var"))
          x = std::fabs(x) + 0.5;
      if (auto known = given.find(weight.names[0]); known != given.end())
        own = known->second;
      if (weight.tensor->type == Type::f32)
        add(weight.tensor, &weights_[weight.names[0]]);
    }
    double square = 0; // a long step in many directions would leave the neighbourhood
    for (const auto &direction : directions_)
      for (double x : direction)
        square += x * x;
    for (auto &direction : directions_)
      for (double &x : direction)
        x *= std::min(1.0, 3 / std::sqrt(square));
    return !wanted_.empty();
  }

  void add(const Tensor *tensor, Array *values) {
    wanted_.push_back(tensor);
    varied_.push_back(values);
    directions_.emplace_back();
    for (size_t i = 0; i < values->data.size(); ++i)
      directions_.back().push_back(between(random_, -1, 1));
  }

  const Expr *keep(Expr::Op op, Type type, std::vector<const Expr *> args) {
    Expr e{};
    e.op = op;
    e.type = type;
    e.args = std::move(args);
    return &program_->exprs.emplace_back(std::move(e));
  }
  const Expr *real(double value) {
    Expr e{};
    e.op = Expr::real;
    e.type = Type::f32;
    e.number = value;
    return &program_->exprs.emplace_back(std::move(e));
  }
  const Expr *read(const Tensor *t, std::vector<const Expr *> at) {
    Expr e{};
    e.op = Expr::read;
    e.type = t->type;
    e.tensor = t;
    e.args = std::move(at);
    return &program_->exprs.emplace_back(std::move(e));
  }

  /// loss = the sum over all real results r of sum[i, j](r[i, j] * sin(a + b i + c j)).
  bool add_loss() {
    const Expr *total = nullptr;
    auto stage = [&](const std::string &name, const Expr *value) {
      Stage made{};
      program_->tensors.push_back({Tensor::stage, name, Type::f32, {}, {}});
      made.result = &program_->tensors.back();
      made.value = value;
      return made;
    };
    for (const Output &output : entry_->outputs) {
      if (output.tensor->type != Type::f32)
        continue;
      const Expr *angle = real(between(random_, 0, 3));
      std::vector<const Expr *> at;
      std::vector<Index> over;
      for (const Size &extent : output.tensor->shape) {
        Expr index{};
        index.op = Expr::index;
        index.type = Type::i32;
        index.position = int(over.size());
        at.push_back(&program_->exprs.emplace_back(std::move(index)));
        over.push_back({"i" + std::to_string(over.size()), extent});
        const Expr *term =
            keep(Expr::mul, Type::f32, {keep(Expr::cast, Type::f32, {at.back()}), real(between(random_, 1, 2))});
        angle = keep(Expr::add, Type::f32, {angle, term});
      }
      const Expr *value = keep(Expr::mul, Type::f32, {read(output.tensor, at), keep(Expr::sin, Type::f32, {angle})});
      Stage part = stage("part of " + output.name, value);
      part.over = over;
      part.reducer = over.empty() ? Reducer::none : Reducer::sum;
      const Expr *one = read(part.result, {});
      total = total ? keep(Expr::add, Type::f32, {total, one}) : one;
      entry_->steps.push_back({std::move(part)});
    }
    if (!total)
      return false;
    Stage sum = stage("the loss", total);
    entry_->outputs = {{"the loss", sum.result}};
    entry_->steps.push_back({std::move(sum)});
    return true;
  }

  std::optional<Values> evaluate() {
    Interpreter interpreter(*program_, [this](const std::string &name) -> Result<Array> { return weights_.at(name); });
    interpreter.round(false);
    interpreter.keep_all(true);
    auto results = interpreter.run(entry_->name, inputs_);
    left_numbers_ = false;
    for (const auto &[name, array] : interpreter.kept())
      for (double x : array.data)
        left_numbers_ |= own_.count(name) && !std::isfinite(x);
    if (!results) {
      what = results.error().message;
      return std::nullopt;
    }
    return *results;
  }

  /// The loss that far along the direction.
  double loss_at(double step) {
    std::vector<std::vector<double>> before;
    for (size_t k = 0; k < varied_.size(); ++k) {
      before.push_back(varied_[k]->data);
      for (size_t i = 0; i < directions_[k].size(); ++i)
        varied_[k]->data[i] += step * directions_[k][i];
    }
    auto results = evaluate();
    for (size_t k = 0; k < varied_.size(); ++k)
      varied_[k]->data = before[k];
    return results ? results->at("the loss").data[0] : NAN;
  }

  Outcome compare(const Tensor *loss) {
    auto results = evaluate();
    if (!results)
      return what.find("internal error") != std::string::npos ? failed : not_run;
    double here = results->at("the loss").data[0], slope = 0, size = std::fabs(here);
    if (!std::isfinite(here) || size > 1e12)
      return not_finite;
    for (size_t k = 0; k < wanted_.size(); ++k) {
      const Array &gradient = results->at("d " + wanted_[k]->name);
      for (size_t i = 0; i < gradient.data.size(); ++i) {
        slope += gradient.data[i] * directions_[k][i];
        size = std::max(size, std::fabs(gradient.data[i]));
      }
    }
    if (std::isnan(slope) && left_numbers_)
      return not_finite; // an arm of an `if` that isn't taken: computed, and no number; tanh(-inf), times what is
                         // infinite
    // Of a curve the two sides differ by half as much at half the distance; of a kink by as much.
    double estimates[2], jumps[2];
    for (int round = 0; round < 2; ++round) {
      double h = round ? 1e-5 : 2e-5, up = loss_at(h), down = loss_at(-h);
      if (!std::isfinite(up) || !std::isfinite(down))
        return not_finite;
      estimates[round] = (up - down) / (2 * h);
      jumps[round] = std::fabs(up - 2 * here + down) / h;
    }
    double unsure = std::fabs(estimates[0] - estimates[1]);
    if ((jumps[1] > 1e-4 * (1 + size) && jumps[1] > 0.7 * jumps[0]) || unsure > 1e-4 * (1 + size))
      return not_smooth;
    double difference = (4 * estimates[1] - estimates[0]) / 3;
    if (std::fabs(slope - difference) <= 1e-6 * (1 + size) + unsure)
      return compared;
    char text[200];
    std::snprintf(text, sizeof text, "the derivative is %.10g, the difference %.10g (loss %.6g)", slope, difference,
                  here);
    what = text;
    return failed;
  }

  static double between(uint64_t &state, double low, double high) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return low + (high - low) * double(state >> 11) * 0x1p-53;
  }

  Program *program_;
  Entry *entry_;
  std::map<std::string, int64_t> numbers_;
  uint64_t random_;
  Values inputs_, weights_;
  std::set<std::string> own_; // tensors of the entry before it is differentiated
  bool left_numbers_ = false; // of these some element was no finite number in the last call
  std::vector<const Tensor *> wanted_;
  std::vector<Array *> varied_;
  std::vector<std::vector<double>> directions_;
};

} // namespace heddle::tests
