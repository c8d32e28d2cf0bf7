// Reads at places that are data or computed from several indices: tables by numbers, sums by number, axes that are
// merged, cut, interleaved, and laid one after the other.
#include "tests/fuzz/programs/generator.h"

namespace heddle::fuzz {

/// Rows of a table by numbers that are data: certain to be inside (index inputs), tested to be, or guarded.
void Generator::lookup() {
  bool moving = chance(0.15); // as many rows as a dim says
  Extent rows = moving ? dim() : number_extent(2 + below(8)), width = fixed();
  std::vector<Extent> at{any_extent()};
  if (chance(0.5))
    at.push_back(any_extent());
  std::string table = !moving && chance(0.6) ? weight({rows, width}) : need(real, {rows, width}, false, true);
  const char *letters[] = {"i", "j"};
  std::string places;
  for (size_t d = 0; d < at.size(); ++d)
    places += (d ? ", " : "") + std::string(letters[d]);
  std::string name = fresh("e"), formula;
  int dice = below(20);
  if (dice < 13) {
    std::string ids;
    for (Variable &v : variables_)
      if (v.kind == position && v.below == rows && v.shape == at && chance(0.7))
        ids = v.name;
    if (ids.empty())
      ids = input(position, at, rows);
    if (dice < 3 && !moving) { // how often each row is meant, or the sum of what means it
      std::string what = chance(0.5) ? "1.0" : need(real, at, false, false) + "[" + places + "]";
      line(name + "[v in " + rows.text + "] = " +
           (chance(0.5) ? "sum[" + places + " where " + ids + "[" + places + "] == v](" + what + ")"
                        : "sum[" + places + "](if " + ids + "[" + places + "] == v then " + what + " else 0)"));
      add(name, real, {rows});
      return;
    }
    formula = dice < 5 ? "sum[v](" + table + "[v, d] * (if v == " + ids + "[" + places + "] then 1 else 0))"
                       : table + "[" + ids + "[" + places + "], d]";
  } else {
    std::string n = need(whole, at, false, false) + "[" + places + "]";
    formula = dice < 16 && !moving
                  ? table + "[index(" + rows.text + ")(max(0, min(" + n + ", " + rows.text + " - 1))), d]"
                  : table + "[" + n + ", d | " + one_of({"0", "0", "1.5"}) + "]";
  }
  if (chance(0.4))
    formula += " + " + need(real, {at.back(), width}) + "[" + letters[at.size() - 1] + ", d]";
  if (chance(0.2))
    formula = "(" + formula + ") * sqrt(2.0)";
  std::string ranges;
  for (size_t d = 0; d < at.size(); ++d)
    ranges += (d ? ", " : "") + std::string(letters[d]) + (chance(0.5) ? "" : " in " + at[d].text);
  line(name + "[" + ranges + ", d in " + width.text + "] = " + formula);
  at.push_back(width);
  add(name, real, at);
}

/// Two axes as one, or one as two; other axes stay.
void Generator::merge_or_cut() {
  const char *letters[] = {"i", "j", "k", "l"};
  if (chance(0.5)) { // [.., a, c] -> [.., a * c]
    Variable *v = variable(real);
    if (!v || v->shape.size() < 2 || v->shape.size() > 4)
      return define();
    size_t first = size_t(below(int(v->shape.size()) - 1));
    Extent a = v->shape[first], c = v->shape[first + 1];
    if (!c.constant() || c.value == 0)
      return define();
    ++v->reads;
    Extent both = a.constant() ? number_extent(a.value * c.value) : Extent{c.text + " * (" + a.text + ")"};
    std::string at, ranges, from = v->name;
    std::vector<Extent> shape;
    for (size_t d = 0; d < v->shape.size(); ++d) {
      std::string comma = d ? ", " : "";
      if (d == first) {
        at += comma + "n // " + c.text + ", n % " + c.text;
        ranges += comma + "n in " + both.text;
        shape.push_back(both);
        ++d;
        continue;
      }
      at += comma + letters[d];
      ranges += comma + letters[d];
      shape.push_back(v->shape[d]);
    }
    std::string name = fresh("flat");
    line(name + "[" + ranges + "] = " + from + "[" + at + "]" + one_of({"", "", " * 2", " + n"}));
    add(name, real, shape);
    return;
  }
  Extent a = any_extent(), c = fixed(5);
  if (c.value == 0)
    c = number_extent(2);
  Extent both = a.constant() ? number_extent(a.value * c.value) : Extent{c.text + " * (" + a.text + ")"};
  std::vector<Extent> whole_shape{both}, cut{a, c};
  std::string before, x;
  if (chance(0.5)) {
    Extent b = any_extent();
    whole_shape.insert(whole_shape.begin(), b);
    cut.insert(cut.begin(), b);
    before = "b, ";
  }
  x = need(real, whole_shape, false, false);
  std::string name = fresh("cut"), at = x + "[" + before + c.text + " * i + j]";
  if (chance(0.3)) { // and summed over the pieces
    line(name + "[" + before + "i in " + a.text + "] = " + one_of({"sum", "max", "mean"}) + "[j in " + c.text + "](" +
         at + ")");
    cut.pop_back();
  } else {
    line(name + "[" + before + "i in " + a.text + ", j in " + c.text + "] = " + at);
  }
  add(name, real, cut);
}

/// One after the other along an axis, each from its own start; or in turns.
void Generator::concatenate() {
  Variable *v = variable(real);
  if (!v || v->shape.empty() || v->shape.size() > 3)
    return define();
  std::vector<Extent> a = v->shape, b = a, c = a;
  int axis = below(int(a.size()));
  bool turns = chance(0.15), three = !turns && chance(0.25);
  if (!turns)
    b[axis] = any_extent();
  c[axis] = any_extent();
  std::string first = v->name;
  ++v->reads;
  std::string second = need(real, b), third = three ? need(real, c) : "";
  auto sum = [&](const Extent &x, const Extent &y) {
    return x.constant() && y.constant() ? number_extent(x.value + y.value) : Extent{x.text + " + " + y.text};
  };
  std::vector<Extent> shape = a;
  Extent two = turns ? a[axis].constant() ? number_extent(2 * a[axis].value) : Extent{"2 * (" + a[axis].text + ")"}
                     : sum(a[axis], b[axis]);
  shape[axis] = three ? sum(two, c[axis]) : two;
  const char *letters[] = {"i", "j", "k", "l"};
  std::string places, i = letters[axis];
  auto read = [&](const std::string &from, const std::string &here) {
    std::string at;
    for (size_t d = 0; d < a.size(); ++d)
      at += (d ? ", " : "") + (int(d) == axis ? here : std::string(letters[d]));
    return from + "[" + at + "]";
  };
  for (size_t d = 0; d < a.size(); ++d)
    places += (d ? ", " : "") + std::string(letters[d]) + " in " + shape[d].text;
  std::string formula;
  if (turns)
    formula = "if " + i + " % 2 == 0 then " + read(first, i + " // 2") + " else " + read(second, i + " // 2");
  else {
    std::string rest = read(second, i + " - (" + a[axis].text + ")");
    if (three)
      rest =
          "(if " + i + " < " + two.text + " then " + rest + " else " + read(third, i + " - (" + two.text + ")") + ")";
    formula = chance(0.7) ? "if " + i + " < " + a[axis].text + " then " + read(first, i) + " else " + rest
                          : "if " + i + " >= " + a[axis].text + " then " + rest + " else " + read(first, i);
  }
  std::string name = fresh("c");
  line(name + "[" + places + "] = " + formula);
  add(name, real, shape);
}

} // namespace heddle::fuzz
