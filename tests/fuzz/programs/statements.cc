// The statements of a program that are plain formulas: definitions, reductions, whole-tensor arithmetic, slices,
// concatenations, loops.
#include "tests/fuzz/programs/generator.h"

namespace heddle::fuzz {

void Generator::define_over(const std::string &name, Kind kind, const std::vector<Extent> &ranges, int depth) {
  indices_.clear();
  for (const Extent &range : ranges)
    bind(range);
  std::string formula = scalar_of(kind, depth);
  std::string places;
  for (const Index &index : indices_)
    places += (places.empty() ? "" : ", ") + binder(index);
  indices_.clear();
  line(name + (places.empty() ? "" : "[" + places + "]") + " = " + formula);
}

void Generator::define() {
  std::vector<Extent> ranges;
  Variable *like = chance(0.7) ? variable(real) : nullptr;
  if (like)
    ranges = like->shape;
  while (ranges.size() < 4 && (ranges.empty() ? chance(0.95) : chance(0.2)))
    ranges.push_back(any_extent());
  if (ranges.size() > 1 && chance(0.15))
    std::swap(ranges[0], ranges[1]);
  Kind kind = chance(0.75) ? real : chance(0.6) ? whole : boolean;
  std::string name = fresh(kind == real ? "y" : kind == whole ? "n" : "ok");
  define_over(name, kind, ranges, 2 + below(3));
  add(name, kind, ranges);
}

void Generator::reduce_statement() {
  std::vector<Extent> ranges;
  for (int rank = below(4); rank > 0; --rank)
    ranges.push_back(any_extent());
  if (Variable *like = variable(real); like && chance(0.6)) {
    ranges = like->shape;
    if (!ranges.empty())
      ranges.erase(ranges.begin() + below(int(ranges.size())));
  }
  indices_.clear();
  for (const Extent &range : ranges)
    bind(range);
  Kind kind = chance(0.7) ? real : chance(0.5) ? whole : boolean;
  std::string formula = reduction(kind, 3 + below(2)), places;
  for (const Index &index : indices_)
    places += (places.empty() ? "" : ", ") + binder(index);
  indices_.clear();
  std::string name = fresh("r");
  line(name + (places.empty() ? "" : "[" + places + "]") + " = " + formula);
  add(name, kind, ranges);
}

void Generator::whole_tensor() {
  Variable *a = variable(real);
  if (!a || a->shape.empty())
    return define();
  std::vector<Extent> shape = a->shape;
  std::string first = a->name;
  ++a->reads;
  std::string other = need(real, shape);
  std::string text;
  switch (below(6)) {
  case 0:
    text = first + " + " + other;
    break;
  case 1:
    text = "(" + first + " - " + other + ") * 0.5";
    break;
  case 2:
    text = one_of({"relu(", "gelu(", "tanh(", "sigmoid("}) + first + ") * " + other;
    break;
  case 3:
    text = "max(" + first + ", " + other + ") / 3";
    break;
  case 4:
    text = "-" + first + " * 1.5 + 1";
    break;
  default:
    text = "if " + one_of({"1 < 2", "not false"}) + " then " + first + " else " + other;
  }
  std::string name = fresh("z");
  line("let " + name + " = " + text);
  add(name, real, shape);
}

void Generator::slice() {
  Variable *v = variable(chance(0.8) ? real : whole);
  if (!v || v->shape.size() < 2)
    return define();
  std::string at;
  std::vector<Extent> left;
  bool cut = false;
  for (const Extent &extent : v->shape) {
    bool here = extent.constant() && extent.value > 0 && chance(0.5) && left.size() + 1 < v->shape.size();
    cut |= here;
    at += (at.empty() ? "" : ", ") + (here ? std::to_string(below(int(extent.value))) : ":");
    if (!here)
      left.push_back(extent);
  }
  if (!cut || left.empty())
    return define();
  ++v->reads;
  std::string name = fresh("s"), text = v->name + "[" + at + "]";
  Kind kind = v->kind;
  line("let " + name + " = " + text);
  add(name, kind == position ? whole : kind, left);
}

/// One after the other along an axis; the second from its own start.
void Generator::concatenate() {
  Variable *v = variable(real);
  if (!v || v->shape.empty() || v->shape.size() > 3)
    return define();
  std::vector<Extent> a = v->shape, b = a;
  int axis = below(int(a.size()));
  b[axis] = any_extent();
  std::string first = v->name, second = need(real, b);
  ++v->reads;
  Extent sum = a[axis].constant() && b[axis].constant() ? number_extent(a[axis].value + b[axis].value)
                                                        : Extent{a[axis].text + " + " + b[axis].text};
  std::vector<Extent> whole_shape = a;
  whole_shape[axis] = sum;
  std::string places, at, shifted;
  const char *letters[] = {"i", "j", "k", "l"};
  for (size_t d = 0; d < a.size(); ++d) {
    std::string i = letters[d], comma = d ? ", " : "";
    places += comma + i + " in " + whole_shape[d].text;
    at += comma + i;
    shifted += comma + i + (int(d) == axis ? " - (" + a[axis].text + ")" : "");
  }
  std::string name = fresh("c");
  line(name + "[" + places + "] = if " + letters[axis] + " < " + a[axis].text + " then " + first + "[" + at +
       "] else " + second + "[" + shifted + "]");
  add(name, real, whole_shape);
}

/// A loop over a constant: written out by the checker, with a carried tensor or slices of a new one.
void Generator::unrolled_loop() {
  Variable *v = variable(real);
  if (!v || v->shape.empty() || v->shape.size() > 3)
    return define();
  std::vector<Extent> shape = v->shape;
  std::string start = v->name, turns = std::to_string(1 + below(3)), h = fresh("h");
  ++v->reads;
  line("let " + h + " = " + start + " * 0.5");
  if (chance(0.5)) {
    line("for l in " + turns + " with " + h + " { " + h + " = tanh(" + h + " * 0.5 + l)" +
         (chance(0.5) ? " + " + start : "") + " }");
    add(h, real, shape);
    return;
  }
  const char *letters[] = {"i", "j", "k"};
  std::string at;
  for (size_t d = 0; d < shape.size(); ++d)
    at += ", " + std::string(letters[d]);
  std::string name = fresh("u");
  line("for l in " + turns + " { " + name + "[l" + at + "] = " + h + "[" + at.substr(2) + "] * (l + 1) }");
  shape.insert(shape.begin(), number_extent(std::stoi(turns)));
  add(name, real, shape);
  add(h, real, {shape.begin() + 1, shape.end()});
}

/// A loop over a run-time size: a recurrence, whose states are also collected.
void Generator::time_loop() {
  Extent batch = chance(0.8) ? any_extent() : dim(), steps = dim(), width = fixed(6);
  if (in_loop_ || batch == steps)
    return define();
  std::string x = need(real, {batch, steps, width}, chance(0.5), false), w = weight({width, width});
  std::string h = fresh("h"), z = fresh("z"), y = fresh("y");
  line(h + "[b in " + batch.text + ", d in " + width.text + "] = " + one_of({"0", "0.5", "d * 0.25"}));
  bool two = chance(0.3);
  std::string c = two ? fresh("h") : "";
  if (two)
    line(c + "[b in " + batch.text + ", d in " + width.text + "] = b * 0.125");
  line("for t in " + steps.text + " with " + h + (two ? ", " + c : "") + " {");
  ++indent_;
  line(z + "[b, d] = " + one_of({"tanh", "sigmoid"}) + "(" + x + "[b, t, d] + sum[e](" + h + "[b, e] * " + w +
       "[d, e])" + (two ? " + " + c + "[b, d]" : "") + (chance(0.3) ? " * (if t % 2 == 0 then 1 else 0.5)" : "") + ")");
  if (two) {
    line("let old = " + h);
    line(h + " = " + z);
    line(c + " = " + c + " * 0.5 + old");
  } else {
    line(h + " = " + z);
  }
  bool collects = chance(0.7);
  if (collects)
    line(y + "[b, t, d] = " + z + "[b, d]" + one_of({"", " * 2", " + 1"}));
  --indent_;
  line("}");
  add(h, real, {batch, width});
  if (collects)
    add(y, real, {batch, steps, width});
}

void Generator::requirement() {
  Extent d = dim();
  line("require " + one_of({"all[i in 3](i < 5)", "1 <= 2"}) + " and " + d.text +
       " <= " + std::to_string(30 + below(40)) + " else \"too long\"");
}

/// Values of earlier calls: some that are updated whole from old ones, or rows appended at a run-time place.
void Generator::declare_states() {
  for (int count = 1 + below(2); count > 0; --count) {
    std::vector<Extent> shape{fixed(6)};
    while (shape.size() < 3 && chance(0.4))
      shape.insert(chance(0.5) ? shape.begin() : shape.end(), chance(0.4) ? dim() : fixed(6));
    Kind kind = chance(0.8) ? real : whole;
    std::string name = fresh("past");
    members_.push_back("state " + name + ": " + type_name(kind, {}) + bracketed(shape) + " = " +
                       one_of({"0", "0", "1"}));
    states_.push_back(name);
    add(name, kind, shape);
    for (const Extent &e : shape)
      keeps_dims_ |= !e.constant();
  }
  keeps_dims_ = keeps_dims_ && chance(0.8);
  if (!chance(0.4))
    return;
  Extent batch = fixed(3), steps = dim(), width = fixed(4), room = number_extent(40);
  std::string k = fresh("past"), seen = fresh("seen");
  members_.push_back("state " + k + ": real" + bracketed({batch, room, width}) + " = 0");
  members_.push_back("state " + seen + ": i32 = 0");
  cache_ = input(real, {batch, steps, width});
  line("require 0 <= " + seen + " and " + seen + " + " + steps.text + " <= 40 else \"no room\"");
  add(seen, whole, {});
  std::string y = fresh("y");
  line(y + "[b, d] = sum[j in 40 where j < " + seen + "](" + k + "[b, j, d])");
  add(y, real, {batch, width});
  cache_ = k + "[b, " + seen + " + t, d] <- " + cache_ + "[b, t, d]\n    " + seen + " <- " + seen + " + " + steps.text;
}

void Generator::update_states() {
  for (const std::string &name : states_) {
    Variable *state = nullptr;
    for (Variable &v : variables_)
      if (v.name == name)
        state = &v;
    indices_.clear();
    for (const Extent &range : state->shape)
      bind(range);
    std::string formula = scalar_of(state->kind, 2 + below(2)), places;
    for (const Index &index : indices_)
      places += (places.empty() ? "" : ", ") + index.name;
    line(name + "[" + places + "] <- " + formula);
    indices_.clear();
  }
  if (!cache_.empty())
    line(cache_);
}

void Generator::statement() {
  int choice = below(100);
  if (choice < 26)
    define();
  else if (choice < 38)
    reduce_statement();
  else if (choice < 44)
    whole_tensor();
  else if (choice < 48)
    slice();
  else if (choice < 54)
    concatenate();
  else if (choice < 57)
    unrolled_loop();
  else if (choice < 60)
    position_of_best();
  else if (choice < 69)
    product();
  else if (choice < 74)
    attention();
  else if (choice < 80)
    norm();
  else if (choice < 85)
    lookup();
  else if (choice < 90)
    window();
  else if (choice < 93)
    layers();
  else if (choice < 96)
    call_function();
  else if (choice < 98)
    time_loop();
  else
    requirement();
}

} // namespace heddle::fuzz
