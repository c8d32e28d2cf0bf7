// The statements of a program that are plain formulas: definitions, reductions, whole-tensor arithmetic, slices, loops
// that are written out; and the choice among all.
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

/// A loop over a constant: written out by the checker, with a carried tensor or slices of a new one.
void Generator::unrolled_loop() {
  Variable *v = variable(real);
  if (!v || v->shape.empty() || v->shape.size() > 3)
    return define();
  std::vector<Extent> shape = v->shape;
  std::string start = v->name, iterations = std::to_string(1 + below(3)), h = fresh("h");
  ++v->reads;
  line("let " + h + " = " + start + " * 0.5");
  if (chance(0.5)) {
    line("for l in " + iterations + " with " + h + " { " + h + " = tanh(" + h + " * 0.5 + l)" +
         (chance(0.5) ? " + " + start : "") + " }");
    add(h, real, shape);
    return;
  }
  const char *letters[] = {"i", "j", "k"};
  std::string at;
  for (size_t d = 0; d < shape.size(); ++d)
    at += ", " + std::string(letters[d]);
  std::string name = fresh("u");
  line("for l in " + iterations + " { " + name + "[l" + at + "] = " + h + "[" + at.substr(2) + "] * (l + 1) }");
  shape.insert(shape.begin(), number_extent(std::stoi(iterations)));
  add(name, real, shape);
  add(h, real, {shape.begin() + 1, shape.end()});
}

void Generator::requirement() {
  Extent d = dim();
  line("require " + one_of({"all[i in 3](i < 5)", "1 <= 2"}) + " and " + d.text +
       " <= " + std::to_string(30 + below(40)) + " else \"too long\"");
}

void Generator::statement() {
  struct Row {
    int share;
    void (Generator::*make)();
  };
  static constexpr Row rows[] = {
      {24, &Generator::define},
      {11, &Generator::reduce_statement},
      {5, &Generator::whole_tensor},
      {4, &Generator::slice},
      {6, &Generator::concatenate},
      {3, &Generator::unrolled_loop},
      {3, &Generator::position_of_best},
      {9, &Generator::product},
      {7, &Generator::attention},
      {6, &Generator::norm},
      {6, &Generator::lookup},
      {8, &Generator::window},
      {2, &Generator::window_module},
      {3, &Generator::layers},
      {3, &Generator::call_function},
      {5, &Generator::time_loop},
      {4, &Generator::merge_or_cut},
      {3, &Generator::choice},
      {2, &Generator::requirement},
      {4, &Generator::tokens},
      {2, &Generator::long_attention},
      {2, &Generator::sliding_attention},
      {4, &Generator::part_of_data},
      {2, &Generator::parts_of_weight},
      {3, &Generator::product_by_number},
  };
  int all = 0;
  for (const Row &row : rows)
    all += row.share;
  int dice = below(all);
  for (const Row &row : rows)
    if ((dice -= row.share) < 0)
      return (this->*row.make)();
}

} // namespace heddle::fuzz
