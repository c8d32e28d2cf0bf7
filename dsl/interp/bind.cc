// Binds dims in two rounds: an input's extent that is just a dim gives its value (the first one counts), then
// every extent, computed ones included, must agree. Each refusal is one sentence with the entry and the input.
#include "dsl/interp/bind.h"

#include "dsl/interp/round.h"

#include <algorithm>

namespace heddle::interp {
namespace {

class Binding {
public:
  Binding(const Program &program, const Entry &entry, const std::map<std::string, Array> &given, const States &states)
      : program_(program), entry_(entry), given_(given), states_(states), names_(program.dim_names()),
        values_(program.dims.size(), -1), from_(program.dims.size()) {}

  Result<Bound> run() {
    for (auto step :
         {&Binding::names, &Binding::types, &Binding::dims, &Binding::bounds, &Binding::extents, &Binding::values}) {
      std::string message = (this->*step)();
      if (!message.empty())
        return Error{"entry `" + entry_.name + "`: " + message};
    }
    Bound bound;
    for (int64_t value : values_)
      bound.dims.push_back(std::max<int64_t>(0, value));
    for (const Input &input : entry_.inputs)
      bound.inputs[input.tensor] = std::make_shared<Array>(array_of(input, bound.dims));
    return bound;
  }

private:
  const Array *given(const Input &input) const {
    auto found = given_.find(input.name);
    return found == given_.end() ? nullptr : &found->second;
  }

  std::string names() {
    for (const Input &input : entry_.inputs)
      if (!given(input) && !input.initial)
        return "input `" + input.name + "` is missing";
    for (const auto &[name, array] : given_) {
      auto same = [&name = name](const Input &input) { return input.name == name; };
      if (std::any_of(entry_.inputs.begin(), entry_.inputs.end(), same))
        continue;
      std::string known;
      for (const Input &input : entry_.inputs)
        known += (known.empty() ? "`" : ", `") + input.name + "`";
      return "there is no input `" + name + "`; the inputs are " + (known.empty() ? "none" : known);
    }
    return {};
  }

  std::string types() {
    for (const Input &input : entry_.inputs) {
      const Array *array = given(input);
      if (!array)
        continue;
      Type want = input.tensor->type;
      bool fits = is_floating(want) ? array->type == want : !is_floating(array->type);
      if (!fits)
        return "input `" + input.name + "` is " + type_text(array->type) + "; it must be " + type_text(want);
      if (array->shape.size() != input.tensor->shape.size())
        return "input `" + input.name + "` has shape " + shape_text(array->shape) + "; it must have " +
               std::to_string(input.tensor->shape.size()) + " dimensions, " + declared(input.tensor->shape);
    }
    return {};
  }

  std::string dims() {
    for (const Input &input : entry_.inputs)
      if (const Array *array = given(input))
        take_dims(*input.tensor, array->shape, "input `" + input.name + "`");
    Uses uses = uses_of(program_, entry_.steps);
    for (const Tensor *tensor : uses.tensors)
      if (auto state = states_.find(tensor); state != states_.end())
        take_dims(*tensor, state->second->shape, "state `" + tensor->name + "`");
    for (const Input &input : entry_.inputs) // an absent one has its declared shape
      for (const Size &extent : input.tensor->shape)
        if (int dim = extent.as_dim(); dim >= 0)
          uses.dims[dim] = true;
    for (size_t dim = 0; dim < values_.size(); ++dim)
      if (uses.dims[dim] && values_[dim] < 0)
        return "nothing given tells how large `" + names_[dim] +
               "` is; give an input that has it, or first call the "
               "entry that sets the state";
    return {};
  }

  void take_dims(const Tensor &tensor, const std::vector<int64_t> &shape, const std::string &who) {
    for (size_t d = 0; d < shape.size(); ++d) {
      int dim = tensor.shape[d].as_dim();
      if (dim >= 0 && values_[dim] < 0) {
        values_[dim] = shape[d];
        from_[dim] = who;
      }
    }
  }

  std::string bounds() {
    for (size_t dim = 0; dim < values_.size(); ++dim)
      if (auto most = program_.dims[dim].most; most && values_[dim] > *most)
        return from_[dim] + ": `" + names_[dim] + "` is " + std::to_string(values_[dim]) + "; at most " +
               std::to_string(*most) + " is allowed";
    return {};
  }

  std::string extents() {
    for (const Input &input : entry_.inputs)
      if (const Array *array = given(input))
        if (std::string message = disagreement(*input.tensor, array->shape, "input `" + input.name + "`");
            !message.empty())
          return message;
    for (const Tensor *tensor : uses_of(program_, entry_.steps).tensors)
      if (auto state = states_.find(tensor); state != states_.end())
        if (std::string message = disagreement(*tensor, state->second->shape, "state `" + tensor->name + "`");
            !message.empty())
          return message + "; reset the session to start anew";
    return {};
  }

  std::string disagreement(const Tensor &tensor, const std::vector<int64_t> &shape, const std::string &who) const {
    std::vector<int64_t> dims = values_;
    std::vector<int64_t> want;
    for (const Size &extent : tensor.shape)
      want.push_back(extent.evaluate(dims));
    if (want == shape)
      return {};
    return who + " has shape " + shape_text(shape) + "; it must be " + shape_text(want) + ", " + declared(tensor.shape);
  }

  std::string values() {
    for (const Input &input : entry_.inputs) {
      const Array *array = given(input);
      if (!array || is_floating(input.tensor->type))
        continue;
      double least = 0, most = 1;
      if (input.tensor->type == Type::i32)
        least = -0x1p31, most = 0x1p31 - 1;
      if (input.tensor->type == Type::i8)
        least = -128, most = 127;
      if (input.below)
        least = 0, most = double(input.below->evaluate(values_)) - 1;
      for (size_t i = 0; i < array->data.size(); ++i) {
        double value = array->data[i];
        if (value >= least && value <= most)
          continue;
        return "input `" + input.name + "` holds " + whole(value) + at(*array, i) + "; its values must lie in " +
               whole(least) + " to " + whole(most);
      }
    }
    return {};
  }

  static std::string whole(double value) { return std::to_string(int64_t(value)); }

  static std::string at(const Array &array, size_t flat) {
    if (array.shape.empty())
      return {};
    std::vector<int64_t> place(array.shape.size());
    for (size_t d = array.shape.size(); d-- > 0;) {
      place[d] = int64_t(flat) % array.shape[d];
      flat /= array.shape[d];
    }
    return " at " + shape_text(place);
  }

  std::string declared(const std::vector<Size> &shape) const {
    std::string text = "[";
    for (const Size &extent : shape)
      text += (text.size() > 1 ? ", " : "") + extent.text(names_);
    return text + "]";
  }

  Array array_of(const Input &input, const std::vector<int64_t> &dims) const {
    if (const Array *array = given(input)) {
      Array own = *array;
      own.type = input.tensor->type;
      return own;
    }
    Array filled;
    filled.type = input.tensor->type;
    int64_t count = 1;
    for (const Size &extent : input.tensor->shape) {
      filled.shape.push_back(extent.evaluate(dims));
      count *= filled.shape.back();
    }
    filled.data.assign(count, *input.initial);
    return filled;
  }

  const Program &program_;
  const Entry &entry_;
  const std::map<std::string, Array> &given_;
  const States &states_;
  std::vector<std::string> names_;
  std::vector<int64_t> values_;   // of the dims; -1 while unknown
  std::vector<std::string> from_; // what gave them
};

} // namespace

Result<Bound> bind_call(const Program &program, const Entry &entry, const std::map<std::string, Array> &inputs,
                        const States &states) {
  return Binding(program, entry, inputs, states).run();
}

std::string shape_text(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

const char *type_text(Type type) {
  switch (type) {
  case Type::f32:
    return "f32";
  case Type::f16:
    return "f16";
  case Type::bf16:
    return "bf16";
  case Type::i32:
    return "i32";
  case Type::i8:
    return "i8";
  case Type::boolean:
    return "bool";
  }
  return "";
}

} // namespace heddle::interp
