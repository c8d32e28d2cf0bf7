// A checked program as text, one line per stage. Indices go by the author's names where those are unique in the stage.
#include "dsl/check/builder.h"
#include "dsl/check/check.h"

#include <algorithm>
#include <charconv>

namespace heddle {
namespace {

const char *name_of(Reducer reducer) {
  constexpr const char *names[] = {"none", "sum", "prod", "max", "min", "argmax", "argmin", "any", "all"};
  return names[static_cast<int>(reducer)];
}

/// Operations of one formula that are written. What it uses several times is written as often: the text of a few could
/// have no end.
constexpr int most_nodes = 5000;

class Writer {
public:
  explicit Writer(const Program &program) : program_(program), dims_(program.dim_names()) {}

  std::string write() {
    line("program " + program_.name);
    for (const Dim &dim : program_.dims)
      line("dim " + dim.name + (dim.most ? " <= " + std::to_string(*dim.most) : ""));
    for (const Weight &weight : program_.weights) {
      std::string stored, names;
      for (int64_t extent : weight.stored)
        stored += (stored.empty() ? "" : ", ") + std::to_string(extent);
      for (const std::string &name : weight.names)
        names += (names.empty() ? "\"" : " | \"") + name + "\"";
      line("weight " + declared(*weight.tensor) + " as " + names + " stored [" + stored + "]");
    }
    for (const State &state : program_.states)
      line("state " + declared(*state.tensor) +
           (state.initial  ? " = " + number(*state.initial)
            : state.begins ? " = " + state.begins->name
                           : ""));
    for (const Entry &entry : program_.entries) {
      line("entry " + entry.name);
      depth_ = 1;
      for (const Input &input : entry.inputs)
        line("input " + declared(*input.tensor) + (input.below ? " below " + input.below->text(dims_) : "") +
             (input.initial ? " = " + number(*input.initial) : ""));
      write(entry.steps);
      for (const Output &output : entry.outputs)
        line("output " + output.name + ": " + type(*output.tensor) + " = " + output.tensor->name);
      depth_ = 0;
    }
    return out_;
  }

private:
  void line(const std::string &text) { out_ += std::string(2 * depth_, ' ') + text + "\n"; }

  static std::string number(double value) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
  }

  std::string type(const Tensor &tensor) const {
    std::string shape;
    for (const Size &size : tensor.shape)
      shape += (shape.empty() ? "" : ", ") + size.text(dims_);
    return std::string(type_name(tensor.type)) + (tensor.shape.empty() ? "" : "[" + shape + "]");
  }

  std::string declared(const Tensor &tensor) const { return tensor.name + ": " + type(tensor); }

  void write(const std::vector<Step> &steps) {
    for (const Step &step : steps)
      std::visit([&](const auto &what) { write(what); }, step.what);
  }

  void write(const Stage &stage) {
    names_.clear();
    std::string space, over;
    for (const auto *list : {&stage.space, &stage.over})
      for (const Index &index : *list) {
        std::string name = index.name;
        for (int i = 2; std::find(names_.begin(), names_.end(), name) != names_.end(); ++i)
          name = index.name + "'" + std::to_string(i);
        names_.push_back(name);
        std::string &to = list == &stage.space ? space : over;
        to += (to.empty() ? "" : ", ") + name + " in " + index.extent.text(dims_);
      }
    std::string left = stage.result->name + (stage.space.empty() ? "" : "[" + space + "]");
    std::string right = formula(*stage.value);
    if (stage.reducer != Reducer::none)
      right = std::string(name_of(stage.reducer)) + "[" + over + "](" + right + ")";
    line(left + ": " + type_name(stage.result->type) + " = " + right);
  }

  void write(const Loop &loop) {
    loops_.push_back(loop.index.name);
    line("for " + loop.index.name + " in " + loop.index.extent.text(dims_));
    ++depth_;
    for (const auto &c : loop.carried)
      line("carry " + declared(*c.carried) + " from " + c.start->name);
    write(loop.steps);
    for (const auto &c : loop.carried)
      line("next " + c.carried->name + " = " + c.next->name);
    for (const auto &c : loop.collected)
      line("collect " + declared(*c.whole) + " axis " + std::to_string(c.axis) + " from " + c.slice->name);
    --depth_;
    loops_.pop_back();
  }

  void write(const Update &update) {
    names_.clear();
    std::string place;
    for (size_t i = 0; i < update.place.size(); ++i) {
      const Update::Along &along = update.place[i];
      bool all = along.extent == update.state->shape[i] && checking::whole_constant(along.offset) == 0;
      place += (place.empty() ? "[" : ", ") + (all ? ":" : formula(*along.offset)) +
               (along.in_value && !all ? " + 0 .. " + along.extent.text(dims_) : "");
    }
    line(update.state->name + place + (place.empty() ? "" : "]") + " <- " + update.value->name);
  }
  void write(const Require &require) {
    line("require " + require.condition->name + " else \"" + require.message + "\"");
  }

  std::string formula(const Expr &e) {
    nodes_left_ = most_nodes;
    return write(e, 0);
  }

  /// `strength` of the operator around it: parentheses where it binds tighter.
  std::string write(const Expr &e, int strength) {
    if (nodes_left_ == 0 && !e.args.empty())
      return "…";
    nodes_left_ -= !e.args.empty();
    auto infix = [&](const char *symbol, int own) {
      std::string text = write(*e.args[0], own) + " " + symbol + " " + write(*e.args[1], own + 1);
      return own < strength ? "(" + text + ")" : text;
    };
    auto call = [&](const char *name) {
      std::string args;
      for (const Expr *arg : e.args)
        args += (args.empty() ? "" : ", ") + write(*arg, 0);
      return std::string(name) + "(" + args + ")";
    };
    switch (e.op) {
    case Expr::integer:
      return std::to_string(e.whole);
    case Expr::real: {
      std::string text = number(e.number);
      bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
      return whole ? text + ".0" : text;
    }
    case Expr::boolean:
      return e.whole ? "true" : "false";
    case Expr::index:
      return names_.at(e.position);
    case Expr::loop_index:
      return loops_.at(e.position);
    case Expr::size: {
      std::string text = e.extent.text(dims_);
      return e.extent.as_dim() >= 0 || strength <= 5 ? text : "(" + text + ")";
    }
    case Expr::read: {
      std::string at;
      for (const Expr *arg : e.args)
        at += (at.empty() ? "" : ", ") + write(*arg, 0);
      return e.tensor->name + (e.args.empty() ? "" : "[" + at + "]") + (e.always_inside ? "" : "?");
    }
    case Expr::logical_or:
      return infix("or", 1);
    case Expr::logical_and:
      return infix("and", 2);
    case Expr::logical_not:
      return "not " + write(*e.args[0], 3);
    case Expr::less:
      return infix("<", 4);
    case Expr::less_equal:
      return infix("<=", 4);
    case Expr::greater:
      return infix(">", 4);
    case Expr::greater_equal:
      return infix(">=", 4);
    case Expr::equal:
      return infix("==", 4);
    case Expr::not_equal:
      return infix("!=", 4);
    case Expr::add:
      return infix("+", 5);
    case Expr::sub:
      return infix("-", 5);
    case Expr::mul:
      return infix("*", 6);
    case Expr::div:
      return infix("/", 6);
    case Expr::floor_div:
      return infix("//", 6);
    case Expr::mod:
      return infix("%", 6);
    case Expr::negate:
      return "-" + write(*e.args[0], 7);
    case Expr::power:
      return infix("**", 8);
    case Expr::minimum:
      return call("min");
    case Expr::maximum:
      return call("max");
    case Expr::absolute:
      return call("abs");
    case Expr::select: {
      std::string text =
          "if " + write(*e.args[0], 0) + " then " + write(*e.args[1], 0) + " else " + write(*e.args[2], 0);
      return strength > 0 ? "(" + text + ")" : text;
    }
    case Expr::cast:
      return call(type_name(e.type));
    case Expr::exp:
      return call("exp");
    case Expr::log:
      return call("log");
    case Expr::sqrt:
      return call("sqrt");
    case Expr::sin:
      return call("sin");
    case Expr::cos:
      return call("cos");
    case Expr::tanh:
      return call("tanh");
    case Expr::erf:
      return call("erf");
    case Expr::floor:
      return call("floor");
    case Expr::philox:
      return call(("philox." + std::to_string(e.whole)).c_str());
    }
    return "";
  }

  const Program &program_;
  std::vector<std::string> dims_, names_, loops_;
  std::string out_;
  int depth_ = 0, nodes_left_ = 0;
};

} // namespace

std::string to_text(const Program &program) { return Writer(program).write(); }

} // namespace heddle
