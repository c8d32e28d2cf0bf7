// Binds dims input by input: an extent that is just a dim gives its value the first time and must agree with it
// from then on; computed extents are compared when all dims are known. Order and wording of the refusals are
// those of the compiled library (runtime/bind.c, runtime/stage.c), so that both ways to run a model say the same.
#include "dsl/interp/bind.h"

#include "dsl/check/round.h"

#include <algorithm>

namespace heddle::interp {
namespace {

class Binding {
public:
  Binding(const Program &program, const Entry &entry, const std::map<std::string, Array> &given, const States &states)
      : program_(program), entry_(entry), given_(given), states_(states), names_(program.dim_names()),
        dims_(program.dims.size(), -1), from_(program.dims.size()), from_state_(program.dims.size()) {}

  Result<Bound> run() {
    for (auto step : {&Binding::unknown_names, &Binding::inputs, &Binding::states, &Binding::unknown_dims,
                      &Binding::computed_extents, &Binding::values})
      if (std::string message = (this->*step)(); !message.empty())
        return Error{message};
    Bound bound;
    bound.dims = dims_;
    for (const Input &input : entry_.inputs)
      bound.inputs[input.tensor] = std::make_shared<Array>(array_of(input));
    return bound;
  }

private:
  const Array *given(const Input &input) const {
    auto found = given_.find(input.name);
    return found == given_.end() ? nullptr : &found->second;
  }
  std::string at(const Input &input) const { return "entry '" + entry_.name + "', input '" + input.name + "': "; }

  std::string unknown_names() {
    for (const auto &[name, array] : given_) {
      std::string known;
      bool found = false;
      for (const Input &input : entry_.inputs) {
        found |= input.name == name;
        known += (known.empty() ? "" : ", ") + input.name;
      }
      if (!found)
        return "entry '" + entry_.name + "' has no input '" + name + "'; it has: " + (known.empty() ? "none" : known);
    }
    return {};
  }

  std::string inputs() {
    for (const Input &input : entry_.inputs) {
      const Array *array = given(input);
      std::string wrong;
      if (array)
        wrong = form(input, *array);
      else if (!input.initial)
        wrong = "is missing; give it as " + declared(input);
      if (!wrong.empty())
        return at(input) + wrong;
    }
    return {};
  }

  /// Type, rank and plain extents of one input; binds its dims.
  std::string form(const Input &input, const Array &array) {
    Type want = input.tensor->type;
    if (is_floating(want) ? array.type != want : is_floating(array.type))
      return "has dtype " + std::string(type_name(array.type)) + ", but must be " + declared(input) +
             (is_floating(want) ? "" : " (any of i8, u8, i32, i64 and bool is accepted)");
    if (array.shape.size() != input.tensor->shape.size())
      return "has rank " + std::to_string(array.shape.size()) + ", but must be " + declared(input);
    for (size_t d = 0; d < array.shape.size(); ++d) {
      const Size &extent = input.tensor->shape[d];
      std::string shape = "has shape " + shape_text(array.shape);
      if (extent.is_constant() && array.shape[d] != extent.constant())
        return shape + ", but must be " + declared(input);
      int dim = extent.as_dim();
      if (dim < 0)
        continue;
      std::string here = shape + ", so " + names_[dim] + " = " + std::to_string(array.shape[d]) + ", but ";
      if (dims_[dim] < 0) {
        dims_[dim] = array.shape[d];
        from_[dim] = &input;
        if (auto most = program_.dims[dim].most; most && dims_[dim] > *most)
          return here + "the model allows at most " + std::to_string(*most);
      } else if (dims_[dim] != array.shape[d]) {
        return here + names_[dim] + " = " + std::to_string(dims_[dim]) + " in " +
               (from_[dim] == &input ? "another dimension of it" : "input '" + from_[dim]->name + "'");
      }
    }
    return {};
  }

  /// States that earlier calls wrote keep their sizes: they bind what no input binds, and must agree otherwise.
  std::string states() {
    uses_ = uses_of(program_, entry_.steps);
    // In the order of their declarations, as a library tests them: which of several is refused is the same.
    std::sort(uses_.states.begin(), uses_.states.end(), [&](const Uses::OfState &a, const Uses::OfState &b) {
      return &declared_state(a.state) < &declared_state(b.state);
    });
    for (const Uses::OfState &use : uses_.states) {
      auto found = states_.find(use.state);
      if (!use.reads)
        continue;
      if (found == states_.end()) {
        if (!declared_state(use.state).has_first())
          return "entry '" + entry_.name + "' reads state '" + use.state->name + "', which has no value yet" +
                 setter_of(use.state);
        continue;
      }
      for (size_t dim = 0; dim < dims_.size(); ++dim) {
        int64_t held = found->second.dims[dim];
        if (held < 0)
          continue;
        if (dims_[dim] < 0) {
          dims_[dim] = held;
          from_state_[dim] = use.state;
        } else if (dims_[dim] != held) {
          std::string other = from_[dim]         ? "input '" + from_[dim]->name + "'"
                              : from_state_[dim] ? "state '" + from_state_[dim]->name + "'"
                                                 : "this call";
          return of_state(use.state) + "holds " + names_[dim] + " = " + std::to_string(held) + " since entry '" +
                 found->second.writer + "', but " + names_[dim] + " = " + std::to_string(dims_[dim]) + " in " + other +
                 "; reset the session, or keep to what it holds";
        }
      }
    }
    return {};
  }

  std::string of_state(const Tensor *state) const {
    return "entry '" + entry_.name + "', state '" + state->name + "': ";
  }
  const State &declared_state(const Tensor *tensor) const {
    return *std::find_if(program_.states.begin(), program_.states.end(),
                         [=](const State &state) { return state.tensor == tensor; });
  }
  /// The entry that updates all of a state without its old value.
  std::string setter_of(const Tensor *state) const {
    for (const Entry &entry : program_.entries)
      for (const Uses::OfState &use : uses_of(program_, entry.steps).states)
        if (use.state == state && use.updates && !use.reads)
          return "; run entry '" + entry.name + "' first";
    return "";
  }

  std::string unknown_dims() {
    for (const Input &input : entry_.inputs)
      for (const Size &extent : input.tensor->shape)
        if (int dim = extent.as_dim(); dim >= 0 && dims_[dim] < 0)
          return at(input) + "has dim " + names_[dim] +
                 ", which no given input tells; give the optional inputs that have it";
    for (const Uses::OfState &use : uses_.states) {
      std::vector<bool> own(dims_.size());
      for (const Size &extent : use.state->shape)
        note_dims(extent, own);
      for (size_t dim = 0; dim < dims_.size(); ++dim) {
        if (!own[dim] || dims_[dim] >= 0)
          continue;
        auto most = program_.dims[dim].most;
        if (!use.reads || !declared_state(use.state).has_first() || !most)
          return of_state(use.state) + "has dim " + names_[dim] +
                 ", which no given input tells; give the optional inputs that have it";
        dims_[dim] = *most; // its capacity
        from_state_[dim] = use.state;
      }
    }
    for (size_t dim = 0; dim < dims_.size(); ++dim) {
      if (dims_[dim] < 0 && uses_.dims[dim])
        return "entry '" + entry_.name + "' needs dim " + names_[dim] + ", which no input and no state tells";
      dims_[dim] = std::max<int64_t>(0, dims_[dim]); // not used by this entry
    }
    return {};
  }

  std::string computed_extents() {
    for (const Input &input : entry_.inputs)
      if (const Array *array = given(input)) {
        std::vector<int64_t> want = evaluated(input.tensor->shape);
        if (want != array->shape)
          return at(input) + "has shape " + shape_text(array->shape) + ", but must be " + shape_text(want) +
                 known_dims();
      }
    return {};
  }

  std::string values() {
    for (const Input &input : entry_.inputs) {
      const Array *array = given(input);
      if (!array && input.below && input.initial)
        if (std::string wrong = default_outside(input); !wrong.empty())
          return wrong;
      if (!array || is_floating(input.tensor->type))
        continue;
      double least = 0, most = 1;
      if (input.tensor->type == Type::i32)
        least = -0x1p31, most = 0x1p31 - 1;
      if (input.tensor->type == Type::i8)
        least = -128, most = 127;
      if (input.below)
        least = 0, most = double(input.below->evaluate(dims_)) - 1;
      for (size_t i = 0; i < array->data.size(); ++i) {
        double value = array->data[i];
        if (value >= least && value <= most)
          continue;
        return at(input) + "element " + place(*array, i) + " is " + whole(value) + ", but " + allowed(least, most);
      }
    }
    return {};
  }

  /// What is wrong with what stands for an input that isn't given, an index whose range the dims tell.
  std::string default_outside(const Input &input) {
    double below = double(input.below->evaluate(dims_));
    std::vector<int64_t> shape = evaluated(input.tensor->shape);
    if (*input.initial < below || std::find(shape.begin(), shape.end(), 0) != shape.end())
      return {};
    return at(input) + "is not given, and stands for " + whole(*input.initial) + " in each place, but " +
           allowed(0, below - 1) + known_dims();
  }

  static std::string allowed(double least, double most) {
    return most < least ? "no value is allowed, because the range it counts in is empty"
                        : "must be in " + whole(least) + " .. " + whole(most);
  }

  static std::string whole(double value) { return std::to_string(int64_t(value)); }

  static std::string place(const Array &array, size_t flat) {
    std::vector<int64_t> at(array.shape.size());
    for (size_t d = array.shape.size(); d-- > 0;) {
      at[d] = int64_t(flat) % array.shape[d];
      flat /= array.shape[d];
    }
    return shape_text(at);
  }

  /// "i32 [B, S]"; computed extents are shown as "...".
  std::string declared(const Input &input) const {
    std::string text;
    for (const Size &extent : input.tensor->shape)
      text += (text.empty() ? "" : ", ") +
              (extent.is_constant() || extent.as_dim() >= 0 ? extent.text(names_) : std::string("..."));
    return std::string(type_name(input.tensor->type)) + " [" + text + "]";
  }

  std::string known_dims() const {
    std::string text;
    for (size_t dim = 0; dim < dims_.size(); ++dim)
      if (from_[dim])
        text += (text.empty() ? " where " : ", ") + names_[dim] + " = " + std::to_string(dims_[dim]);
    return text;
  }

  std::vector<int64_t> evaluated(const std::vector<Size> &shape) const {
    std::vector<int64_t> extents;
    for (const Size &extent : shape)
      extents.push_back(extent.evaluate(dims_));
    return extents;
  }

  Array array_of(const Input &input) const {
    Array made;
    if (const Array *array = given(input)) {
      made = *array;
    } else {
      made.shape = evaluated(input.tensor->shape);
      int64_t count = 1;
      for (int64_t extent : made.shape)
        count *= extent;
      made.data.assign(count, round_to(input.tensor->type, *input.initial));
    }
    made.type = input.tensor->type;
    return made;
  }

  const Program &program_;
  const Entry &entry_;
  const std::map<std::string, Array> &given_;
  const States &states_;
  std::vector<std::string> names_;
  std::vector<int64_t> dims_;       // -1 while unknown
  std::vector<const Input *> from_; // by dim: the input that gave it
  std::vector<const Tensor *> from_state_;
  Uses uses_;
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

} // namespace heddle::interp
