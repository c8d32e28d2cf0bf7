// Formulas. A read is inside by construction: at bare indices of the same range, at remainders and constants of
// constant extents, at values of index(N) inputs; anything else carries its outside value or stands under a test of
// itself.
#include "tests/fuzz/programs/generator.h"

namespace heddle::fuzz {

std::string Generator::constant() {
  return one_of({"0.5", "1.5", "2", "0.25", "3", "1", "0", "0.125", "-1", "-0.75", "4.0", "1e-3", "7", "-2.5"});
}

Generator::Variable *Generator::variable(Kind kind) {
  std::vector<Variable *> fitting;
  for (Variable &v : variables_)
    if (v.kind == kind || (kind == whole && v.kind == position)) {
      fitting.push_back(&v);
      if (v.reads == 0) // what nothing uses yet goes first
        fitting.push_back(&v);
      // What shares an index with the formula makes a better formula.
      for (const Extent &e : v.shape)
        for (const Index &i : indices_)
          if (e == i.range)
            fitting.push_back(&v);
    }
  return fitting.empty() ? nullptr : one_of(fitting);
}

int64_t Generator::points() const {
  int64_t n = 1;
  for (const Index &i : indices_)
    n *= std::max<int64_t>(1, i.range.guess());
  return n;
}

Generator::Index &Generator::bind(const Extent &range) {
  static const char *letters[] = {"i", "j", "k", "l", "m", "n", "p", "q", "r", "s", "t", "u", "v", "a", "b", "c", "d"};
  for (;;) {
    std::string name = letters[below(int(std::size(letters)))];
    bool used = false;
    for (const Index &i : indices_)
      used |= i.name == name;
    if (used)
      name = fresh(name);
    indices_.push_back({name, range});
    return indices_.back();
  }
}

std::string Generator::binder(const Index &index, bool may_infer) {
  if (may_infer && index.bare > 0 && index.other == 0 && chance(0.6))
    return index.name;
  return index.name + " in " + index.range.text;
}

std::string Generator::guarded(const std::string &test, const std::string &yes, const std::string &no) {
  return "(if " + test + " then " + yes + " else " + no + ")";
}

std::string Generator::scalar_of(Kind kind, int depth) {
  return kind == real ? number(depth) : kind == boolean ? condition(depth) : whole_number(depth);
}

std::string Generator::read(Variable &from, int depth) {
  ++from.reads;
  if (from.shape.empty())
    return from.name;
  std::string subscripts, test;
  bool outside = false;
  auto risky = [&](const std::string &text, const Extent &extent) {
    if (doubtful_ && chance(0.4))
      return;
    outside = true;
    test += (test.empty() ? "" : " and ") + ("0 <= " + text + " and ") + text + " < " +
            (extent.constant() ? extent.text : "(" + extent.text + ")");
  };
  // Bare uses inside of a test that we might write around this read decide nothing; so count them when it is settled.
  std::vector<std::pair<std::string, bool>> bare;
  for (const Extent &extent : from.shape) {
    std::vector<Index *> same;
    for (Index &i : indices_)
      if (i.range == extent)
        same.push_back(&i);
    std::string at;
    if (!same.empty() && chance(0.8)) {
      Index &i = *one_of(same);
      if (chance(0.88)) {
        at = i.name;
        bare.emplace_back(at, true);
      } else {
        at = (extent.constant() ? extent.text : "(" + extent.text + ")") + " - 1 - " + i.name;
      }
    } else if (extent.constant() && extent.value > 0 && chance(0.55)) {
      Variable *place = nullptr;
      for (Variable &v : variables_)
        if (v.kind == position && v.below == extent && chance(0.5))
          place = &v;
      if (place && depth > 0)
        at = read(*place, depth - 1);
      else if (!indices_.empty() && chance(0.6))
        at = one_of(indices_).name + " % " + extent.text;
      else
        at = std::to_string(below(int(extent.value)));
    } else {
      std::string i = indices_.empty() ? "1" : one_of(indices_).name;
      std::string j = indices_.empty() ? "0" : one_of(indices_).name;
      switch (below(9)) {
      case 0:
        at = i;
        for (Index &index : indices_)
          if (index.name == i)
            bare.emplace_back(at, index.range == extent);
        break;
      case 1:
        at = i + " - 1";
        break;
      case 2:
        at = i + " + " + std::to_string(1 + below(3));
        break;
      case 3:
        at = "2 * " + i + " + " + (chance(0.5) ? j : std::to_string(below(3))) + (chance(0.5) ? " - 1" : "");
        break;
      case 4:
        at = i + " - " + j;
        break;
      case 5:
        at = i + " // 2";
        break;
      case 6:
        at = std::to_string(below(6)) + " - " + i;
        break;
      case 7:
        at = i + " + " + j + (chance(0.3) ? " * 3" : "");
        break;
      default: {
        Variable *v = depth > 0 && chance(0.7) ? variable(whole) : nullptr;
        if (v && v->kind == whole && v->shape.size() < 3)
          at = read(*v, 0);
        else
          at = i + " // 3 + " + j + " % 2";
      }
      }
      risky(at, extent);
    }
    subscripts += (subscripts.empty() ? "" : ", ") + at;
  }
  // A number that is itself read under a condition proves nothing about a second copy of it.
  bool conditional = subscripts.find_first_of("|[") != std::string::npos;
  bool by_test = outside && !conditional && chance(0.35);
  for (auto &[name, fits] : bare)
    for (Index &i : indices_)
      if (i.name == name) {
        i.bare += fits && !by_test && guards_ == 0;
        i.other += !fits;
      }
  if (!outside)
    return from.name + "[" + subscripts + "]";
  std::string no = from.kind == boolean ? one_of({"true", "false"})
                   : from.kind == real  ? one_of({"0", "0", "1", "-0.5"})
                                        : one_of({"0", "1", "-1"});
  if (from.kind == position)
    no = "0";
  if (by_test) {
    ++guards_;
    if (from.kind == real && chance(0.3))
      no = number(depth - 1);
    --guards_;
    return guarded(test, from.name + "[" + subscripts + "]", no);
  }
  return from.name + "[" + subscripts + " | " + no + "]";
}

std::string Generator::number(int depth) {
  Variable *v;
  int choice = depth <= 0 ? below(5) : below(30);
  switch (choice) {
  case 0:
    return constant();
  case 1:
  case 2:
  case 3:
    v = variable(real);
    return v ? read(*v, depth) : constant();
  case 4:
    return whole_number(depth - 1);
  case 5:
  case 6:
  case 7:
    return "(" + number(depth - 1) + " + " + number(depth - 1) + ")";
  case 8:
  case 9:
    return "(" + number(depth - 1) + " - " + number(depth - 1) + ")";
  case 10:
  case 11:
  case 12:
    return "(" + number(depth - 1) + " * " + number(depth - 1) + ")";
  case 13:
    return chance(0.5)   ? "(" + number(depth - 1) + " / " + one_of({"2", "3", "8", "0.7"}) + ")"
           : chance(0.7) ? "(" + number(depth - 1) + " / (1 + abs(" + number(depth - 1) + ")))"
                         : "(" + number(depth - 1) + " / " + number(depth - 1) + ")"; // by 0, too
  case 14:
  case 15:
  case 16: {
    std::string test = condition(depth - 1);
    ++guards_;
    std::string yes = number(depth - 1), no = number(depth - 1);
    --guards_;
    return guarded(test, yes, no);
  }
  case 17:
    return one_of({"max(", "min("}) + number(depth - 1) + ", " + number(depth - 1) + ")";
  case 18:
    return one_of({"relu(", "sigmoid(", "silu(", "gelu(", "tanh(", "erf(", "abs(", "sin(", "cos(", "softplus("}) +
           number(depth - 1) + ")";
  case 19:
    return chance(0.5) ? "exp(min(" + number(depth - 1) + ", 2))" : "exp(-abs(" + number(depth - 1) + "))";
  case 20:
    return chance(0.5) ? "sqrt(abs(" + number(depth - 1) + ") + 0.01)" : "log(1 + abs(" + number(depth - 1) + "))";
  case 21:
    return "floor(" + number(depth - 1) + ")";
  case 22:
    return chance(0.7) ? "(" + number(depth - 1) + ") ** 2" : "(" + number(depth - 1) + ") ** 3";
  case 23:
    return "-" + number(depth - 1);
  case 24:
    return "f32(" + whole_number(depth - 1) + ")";
  default:
    return depth > 1 ? reduction(real, depth) : number(depth - 1);
  }
}

std::string Generator::whole_number(int depth) {
  Variable *v;
  switch (depth <= 0 ? below(4) : below(16)) {
  case 0:
    return std::to_string(below(7) - 2 < 0 ? 1 : below(7));
  case 1:
  case 2:
    return indices_.empty() ? "2" : one_of(indices_).name;
  case 3:
    v = variable(whole);
    return v ? read(*v, depth) : "3";
  case 4:
  case 5:
    return "(" + whole_number(depth - 1) + " + " + whole_number(depth - 1) + ")";
  case 6:
    return "(" + whole_number(depth - 1) + " - " + whole_number(depth - 1) + ")";
  case 7:
    return "(" + whole_number(depth - 1) + " * " + std::to_string(1 + below(4)) + ")";
  case 8:
    return "(" + whole_number(depth - 1) + " // " + std::to_string(1 + below(4)) + ")";
  case 9:
    return "(" + whole_number(depth - 1) + " % " + std::to_string(1 + below(5)) + ")";
  case 10:
    return one_of({"max(", "min("}) + whole_number(depth - 1) + ", " + whole_number(depth - 1) + ")";
  case 11:
    return "abs(" + whole_number(depth - 1) + ")";
  case 12: {
    std::string test = condition(depth - 1);
    ++guards_;
    std::string yes = whole_number(depth - 1), no = whole_number(depth - 1);
    --guards_;
    return guarded(test, yes, no);
  }
  case 13:
    return dim_names_.empty() ? "i32(tanh(" + number(depth - 1) + ") * 3.4)" : one_of(dim_names_);
  case 14:
    return "i32(tanh(" + number(depth - 1) + ") * 3.4)";
  default:
    return depth > 1 ? reduction(whole, depth) : whole_number(depth - 1);
  }
}

std::string Generator::condition(int depth) {
  Variable *v;
  auto index = [&] { return indices_.empty() ? std::string("1") : one_of(indices_).name; };
  auto compare = [&] { return " " + one_of({"<", "<=", ">", ">=", "==", "!="}) + " "; };
  switch (depth <= 0 ? below(5) : below(13)) {
  case 0:
    return index() + compare() + std::to_string(below(6));
  case 1:
    return index() + one_of({" <= ", " < ", " != ", " == "}) + index();
  case 2:
    v = variable(boolean);
    return v ? read(*v, depth) : index() + " % 2 == 0";
  case 3:
    v = variable(whole);
    return (v ? read(*v, depth) : index()) + compare() + std::to_string(below(4));
  case 4:
    v = variable(real);
    return v ? read(*v, depth) + one_of({" > ", " < ", " <= "}) + one_of({"0", "0.5", "-1"}) : "true";
  case 5:
    return "(" + condition(depth - 1) + " and " + condition(depth - 1) + ")";
  case 6:
    return "(" + condition(depth - 1) + " or " + condition(depth - 1) + ")";
  case 7:
    return "not (" + condition(depth - 1) + ")";
  case 8:
    return "(" + whole_number(depth - 1) + compare() + whole_number(depth - 1) + ")";
  case 9:
    return "(" + number(depth - 1) + one_of({" < ", " >= "}) + number(depth - 1) + ")";
  case 10:
    return "(" + index() + " + " + index() + ") % " + std::to_string(2 + below(3)) + compare() + "1";
  default:
    return depth > 1 ? reduction(boolean, depth) : condition(depth - 1);
  }
}

std::string Generator::reduction(Kind kind, int depth) {
  if (points() > 600 || reductions_ >= 4)
    return scalar_of(kind, depth - 1);
  ++reductions_;
  std::string reducer, where, body;
  if (kind == boolean)
    reducer = one_of({"any", "all"});
  else if (kind == whole)
    reducer = one_of({"sum", "max", "min", "argmax", "argmin"});
  else
    reducer = one_of({"sum", "sum", "sum", "max", "min", "mean", "prod"});
  bool of_position = reducer == "argmax" || reducer == "argmin";
  size_t outer = indices_.size();
  // Over an extent that something in scope has, mostly.
  for (int count = of_position || chance(0.75) ? 1 : 2; count > 0; --count) {
    Variable *v = variable(chance(0.7) ? real : kind);
    bind(v && !v->shape.empty() && chance(0.75) ? one_of(v->shape) : any_extent());
  }
  if (chance(0.3)) {
    ++guards_;
    where = " where " + condition(1);
    --guards_;
    ++guards_;
  }
  if (kind == whole && !of_position) // no extreme of nothing as a whole number
    body = reducer == "sum" ? whole_number(depth - 1) : whole_number(depth - 1);
  else if (reducer == "prod")
    body = "(1 + 0.25 * tanh(" + number(depth - 2) + "))";
  else
    body = of_position ? number(depth - 1) : scalar_of(kind, depth - 1);
  if (!where.empty())
    --guards_;
  std::string over;
  for (size_t i = outer; i < indices_.size(); ++i)
    over += (over.empty() ? "" : ", ") + binder(indices_[i]);
  indices_.erase(indices_.begin() + outer, indices_.end());
  --reductions_;
  return reducer + "[" + over + where + "](" + body + ")";
}

} // namespace heddle::fuzz
