#include "dsl/check/verify.h"

#include <set>
#include <unordered_set>

namespace heddle {
namespace {

bool is_whole_type(Type type) { return type == Type::i32 || type == Type::i8; }

class Verifier {
public:
  explicit Verifier(const Program &program) : program_(program) {}

  std::string run(const Entry &entry) {
    for (const Input &input : entry.inputs)
      defined_.insert(input.tensor);
    steps(entry.steps);
    for (const Output &output : entry.outputs)
      need(output.tensor, "output `" + output.name + "`");
    return wrong_;
  }

private:
  void fail(const std::string &what) {
    if (wrong_.empty())
      wrong_ = what;
  }
  static std::string name(const Tensor *t) { return "`" + t->name + "`"; }

  void need(const Tensor *t, const std::string &reader) { // V1
    bool is_given = t->kind == Tensor::weight || t->kind == Tensor::state;
    if (!is_given && !defined_.count(t))
      fail("V1: " + reader + " reads " + name(t) + ", which is not defined before it");
  }
  void define(const Tensor *t) { // V1
    if (!defined_.insert(t).second)
      fail("V1: " + name(t) + " is defined twice");
  }

  void steps(const std::vector<Step> &list) {
    for (const Step &step : list)
      std::visit([this](const auto &what) { visit(what); }, step.what);
  }

  void visit(const Stage &stage) {
    const Tensor &result = *stage.result;
    bool fits = result.shape.size() == stage.space.size();
    for (size_t i = 0; fits && i < stage.space.size(); ++i)
      fits = result.shape[i] == stage.space[i].extent;
    if (!fits)
      fail("V2: " + name(&result) + " has another shape than its stage");
    if ((stage.reducer == Reducer::none) != stage.over.empty())
      if (stage.reducer == Reducer::none || !stage.over.empty())
        fail("V2: " + name(&result) + " has indices to reduce over and no reduction");
    bool position = stage.reducer == Reducer::argmax || stage.reducer == Reducer::argmin;
    if (position && stage.over.size() != 1)
      fail("V2: " + name(&result) + " is the best place of not one index");
    if (result.type != (position ? Type::i32 : stage.value->type))
      fail("V2: " + name(&result) + " is " + type_name(result.type) + ", its value " + type_name(stage.value->type));
    indices_ = int(stage.space.size() + stage.over.size());
    seen_.clear();
    expression(*stage.value, name(&result));
    define(&result);
  }

  void visit(const Loop &loop) {
    auto same = [&](const Tensor *a, const Tensor *b) {
      if (a->shape != b->shape || a->type != b->type)
        fail("V6: " + name(a) + " and " + name(b) + " differ in shape or type");
    };
    for (const Loop::Carried &c : loop.carried) {
      need(c.start, "a loop");
      same(c.carried, c.start);
      define(c.carried);
    }
    for (const Loop::Collected &c : loop.collected)
      define(c.whole);
    ++loops_;
    steps(loop.steps);
    --loops_;
    for (const Loop::Carried &c : loop.carried) {
      need(c.next, "a loop");
      same(c.carried, c.next);
    }
    for (const Loop::Collected &c : loop.collected) {
      need(c.slice, "a loop");
      std::vector<Size> shape = c.whole->shape;
      bool fits = size_t(c.axis) < shape.size() && c.whole->type == c.slice->type;
      if (fits)
        shape.erase(shape.begin() + c.axis);
      if (!fits || shape != c.slice->shape)
        fail("V6: " + name(c.whole) + " does not collect " + name(c.slice));
    }
  }

  void visit(const Update &update) {
    need(update.value, "an update of " + name(update.state));
    indices_ = 0;
    seen_.clear();
    for (const Update::Along &along : update.place)
      expression(*along.offset, "an update of " + name(update.state));
  }

  void visit(const Require &require) { need(require.condition, "a requirement"); }

  void expression(const Expr &e, const std::string &where) {
    if (!seen_.insert(&e).second)
      return;
    for (const Expr *arg : e.args)
      expression(*arg, where);
    auto typed = [&](bool good) { // V5
      if (!good)
        fail("V5: " + where + " has an operation on the wrong types (" + std::to_string(int(e.op)) + ")");
    };
    auto arguments = [&](size_t count, Type type) {
      typed(e.args.size() == count);
      for (const Expr *arg : e.args)
        typed(arg->type == type);
    };
    switch (e.op) {
    case Expr::integer:
      return typed(e.type == Type::i32);
    case Expr::real:
      return typed(is_floating(e.type));
    case Expr::boolean:
      return typed(e.type == Type::boolean);
    case Expr::index: // V3
      if (e.position < 0 || e.position >= indices_)
        fail("V3: " + where + " has an index of another stage");
      return;
    case Expr::loop_index:
      if (e.position < 0 || e.position >= loops_)
        fail("V3: " + where + " has an index of a loop that is not around it");
      return;
    case Expr::size:
      e.extent.for_each_dim([&](int dim) {
        if (size_t(dim) >= program_.dims.size())
          fail("V3: " + where + " has a size that is none of the program's");
      });
      return;
    case Expr::read:
      need(e.tensor, where);
      if (e.args.size() != e.tensor->shape.size() || e.type != e.tensor->type) // V4
        fail("V4: " + where + " reads " + name(e.tensor) + " as what it is not");
      for (const Expr *arg : e.args)
        if (!is_whole_type(arg->type))
          fail("V4: " + where + " reads " + name(e.tensor) + " at what is no whole number");
      return;
    case Expr::less:
    case Expr::less_equal:
    case Expr::greater:
    case Expr::greater_equal:
    case Expr::equal:
    case Expr::not_equal:
      typed(e.type == Type::boolean && e.args.size() == 2 &&
            (e.args[0]->type == e.args[1]->type || (is_whole_type(e.args[0]->type) && is_whole_type(e.args[1]->type))));
      return;
    case Expr::logical_and:
    case Expr::logical_or:
      return arguments(2, Type::boolean);
    case Expr::logical_not:
      return arguments(1, Type::boolean);
    case Expr::select:
      typed(e.args.size() == 3 && e.args[0]->type == Type::boolean && e.args[1]->type == e.type &&
            e.args[2]->type == e.type);
      return;
    case Expr::cast:
      typed(e.args.size() == 1);
      return;
    case Expr::add:
    case Expr::sub:
    case Expr::mul:
    case Expr::div:
    case Expr::floor_div:
    case Expr::mod:
    case Expr::power:
    case Expr::minimum:
    case Expr::maximum:
      return arguments(2, e.type);
    case Expr::negate:
    case Expr::absolute:
    case Expr::exp:
    case Expr::log:
    case Expr::sqrt:
    case Expr::sin:
    case Expr::cos:
    case Expr::tanh:
    case Expr::erf:
    case Expr::floor:
      return arguments(1, e.type);
    case Expr::philox:
      typed(e.whole >= 0 && e.whole < 4);
      return arguments(6, Type::i32);
    }
  }

  const Program &program_;
  std::set<const Tensor *> defined_;
  std::unordered_set<const Expr *> seen_;
  int indices_ = 0, loops_ = 0;
  std::string wrong_;
};

} // namespace

std::string verify(const Program &program, const Entry &entry) { return Verifier(program).run(entry); }

std::string verify(const Program &program) {
  for (const Entry &entry : program.entries)
    if (std::string wrong = verify(program, entry); !wrong.empty())
      return wrong;
  return "";
}

} // namespace heddle
