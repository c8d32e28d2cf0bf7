// The shapes of computation that models are made of and that kernels of their own exist for: products of many
// layouts, attention, norms, lookups, sliding windows, layers with weights.
#include "tests/fuzz/programs/generator.h"

#include <algorithm>

namespace heddle::fuzz {

namespace {

struct Axis {
  std::string index, extent;
};

} // namespace

/// Two tensors, summed over one or two common indices; axes of both in any order, with what may follow a product.
void Generator::product() {
  struct Named {
    std::string index;
    Extent extent;
  };
  std::vector<Named> batch, rows, columns, sums;
  int sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 33, 48};
  auto size = [&](int most) { return number_extent(sizes[below(most)]); };
  bool of_weight = chance(0.6);
  if (!of_weight && chance(0.5))
    batch.push_back({"b", any_extent()});
  rows.push_back({"i", chance(0.7) ? dim() : size(9)});
  if (chance(0.3))
    rows.push_back({"j", chance(0.5) ? dim() : size(5)});
  if (chance(0.9))
    columns.push_back({"n", chance(0.8) ? size(13) : any_extent()});
  if (columns.size() && chance(0.2))
    columns.push_back({"m", size(5)});
  sums.push_back({"k", chance(0.8) ? size(13) : any_extent()});
  if (chance(0.2))
    sums.push_back({"l", size(5)});
  for (auto *list : {&columns, &sums})
    for (Named &n : *list)
      if (of_weight && !n.extent.constant())
        n.extent = size(9);
  auto joined = [&](std::vector<std::vector<Named> *> lists, bool shuffled) {
    std::vector<Named> out;
    for (auto *list : lists)
      out.insert(out.end(), list->begin(), list->end());
    if (shuffled)
      std::shuffle(out.begin(), out.end(), random_);
    return out;
  };
  std::vector<Named> a = joined({&batch, &rows, &sums}, chance(0.3)),
                     b = joined({&batch, &columns, &sums}, chance(0.5)),
                     y = joined({&batch, &rows, &columns}, chance(0.2));
  auto shape = [](const std::vector<Named> &list) {
    std::vector<Extent> out;
    for (const Named &n : list)
      out.push_back(n.extent);
    return out;
  };
  auto at = [](const std::vector<Named> &list) {
    std::string out;
    for (const Named &n : list)
      out += (out.empty() ? "" : ", ") + n.index;
    return list.empty() ? "" : "[" + out + "]";
  };
  std::string x = need(real, shape(a), false, false),
              w = of_weight ? weight(shape(b)) : need(real, shape(b), false, false);
  auto term = [&] {
    std::string left = x + at(a), right = w + at(b);
    switch (below(8)) {
    case 0:
      return "max(" + left + ", 0) * " + right;
    case 1:
      return left + " * " + right + " * 0.5";
    case 2:
      return right + " * " + left;
    default:
      return left + " * " + right;
    }
  };
  std::string over;
  for (const Named &n : sums)
    over += (over.empty() ? "" : ", ") + n.index;
  std::string formula = "sum[" + over + "](" + term() + ")";
  if (chance(0.12)) // one of several, beside a window in the sum's range
    formula = "sum[" + over + " where " + sums[0].index + " != 1](" + term() + ")";
  std::string name = fresh("p");
  bool apart = chance(0.4);
  if (apart) {
    line(name + at(y) + " = " + formula);
    add(name, real, shape(y));
    formula = name + at(y);
    name = fresh("p");
  }
  if (!columns.empty() && chance(0.5))
    formula += " + " + need(real, {columns[0].extent}, true) + "[" + columns[0].index + "]";
  if (chance(0.3))
    formula = one_of({"gelu", "relu", "tanh", "silu"}) + "(" + formula + ")";
  if (chance(0.25))
    formula += " + " + need(real, shape(y), false, false) + at(y);
  if (chance(0.1))
    formula += " / sqrt(3.0)";
  line(name + at(y) + " = " + formula);
  add(name, real, shape(y));
}

void Generator::attention() {
  Extent batch = any_extent(), heads = number_extent(1 + below(3)), queries = chance(0.7) ? dim() : fixed(9),
         keys = chance(0.6) ? queries : any_extent(), width = number_extent(std::vector{1, 2, 3, 4, 8, 16}[below(6)]);
  std::string q = need(real, {batch, queries, heads, width}, false, false),
              k = need(real, {batch, keys, heads, width}, false, false),
              v = need(real, {batch, keys, heads, width}, chance(0.5), false);
  std::string score = "sum[e](" + q + "[b, i, h, e] * " + k + "[b, j, h, e])";
  if (chance(0.6))
    score += one_of({" / 2", " / sqrt(3.0)", " * 0.25"});
  if (chance(0.2))
    score += " - 0.5 * abs(i - j)";
  if (chance(0.2))
    score += " + " + need(real, {heads}, false) + "[h]";
  std::string test;
  auto also = [&](const std::string &what) { test += (test.empty() ? "" : " and ") + what; };
  if (chance(0.35))
    also("j <= i");
  if (chance(0.15))
    also("i - j < 3");
  if (chance(0.3))
    also(need(boolean, {batch, keys}, false, false) + "[b, j]");
  if (chance(0.15))
    also("j < " + need(whole, {batch}, false, false) + "[b]");
  std::string s = fresh("s"), a = fresh("a");
  line(s + "[b in " + batch.text + ", h in " + heads.text + ", i in " + queries.text + ", j in " + keys.text +
       "] = " + (test.empty() ? score : "if " + test + " then " + score + " else -inf"));
  if (chance(0.5)) {
    line("let " + a + " = attend(" + s + ", " + v + ")");
  } else {
    std::string p = fresh("p");
    line("let " + p + " = softmax(" + s + ")");
    line(a + "[b, i, h, e] = sum[j](" + p + "[b, h, i, j] * " + v + "[b, j, h, e])");
    if (chance(0.2))
      add(p, real, {batch, heads, queries, keys});
  }
  add(a, real, {batch, queries, heads, width});
  if (chance(0.5)) {
    std::string w = weight({heads, width, number_extent(5)}), o = fresh("o");
    line(o + "[b, i, d] = sum[h, e](" + a + "[b, i, h, e] * " + w + "[h, e, d])");
    add(o, real, {batch, queries, number_extent(5)});
  }
}

void Generator::norm() {
  Variable *v = variable(real);
  if (!v || v->shape.empty())
    return define();
  ++v->reads;
  std::vector<Extent> shape = v->shape;
  std::string x = v->name, name = fresh("g");
  Extent last = shape.back();
  if (last.constant() && last.value > 0 && chance(0.4)) {
    std::string sub = fresh("norm");
    members_.push_back("sub " + sub + " = " + one_of({"LayerNorm", "RMSNorm"}) + "(" + last.text + ", 0.01)");
    line("let " + name + " = " + sub + "(" + x + (chance(0.3) ? " + " + need(real, shape, false, false) : "") + ")");
  } else if (chance(0.5)) {
    line("let " + name + " = softmax(" + x + ")");
  } else if (chance(0.5)) {
    std::string top = fresh("m"), e = fresh("e");
    line(top + "[..s] = max[n](" + x + "[..s, n])");
    line(e + "[..s, n] = exp(min(" + x + "[..s, n] - " + top + "[..s], 0))");
    line(name + "[..s, n] = " + e + "[..s, n] / (1 + sum[k](" + e + "[..s, k]))");
  } else {
    std::string mu = fresh("m");
    line(mu + "[..s] = mean[n](" + x + "[..s, n])");
    line(name + "[..s, n] = (" + x + "[..s, n] - " + mu + "[..s]) / sqrt(mean[k]((" + x + "[..s, k] - " + mu +
         "[..s]) ** 2) + 0.1)");
  }
  add(name, real, shape);
}

/// Rows of a table by numbers that are data: certain to be inside (index inputs), or guarded.
void Generator::lookup() {
  Extent rows = number_extent(2 + below(8)), width = fixed();
  std::vector<Extent> at{any_extent()};
  if (chance(0.5))
    at.push_back(any_extent());
  std::string table = chance(0.6) ? weight({rows, width}) : need(real, {rows, width}, false, true);
  const char *letters[] = {"i", "j"};
  std::string places;
  for (size_t d = 0; d < at.size(); ++d)
    places += (d ? ", " : "") + std::string(letters[d]);
  std::string name = fresh("e"), formula;
  if (chance(0.7)) {
    std::string ids;
    for (Variable &v : variables_)
      if (v.kind == position && v.below == rows && v.shape == at && chance(0.7))
        ids = v.name;
    if (ids.empty())
      ids = input(position, at, rows);
    formula = table + "[" + ids + "[" + places + "], d]";
  } else {
    std::string n = need(whole, at, false, false);
    formula = table + "[" + n + "[" + places + "], d | 0]";
  }
  if (chance(0.4))
    formula += " + " + need(real, {at.back(), width}) + "[" + letters[at.size() - 1] + ", d]";
  line(name + "[" + places + ", d in " + width.text + "] = " + formula);
  at.push_back(width);
  add(name, real, at);
}

void Generator::window() {
  int channels = 1 + below(3), radius = 1 + below(3), stride = 1 + below(2), padding = below(radius);
  Extent batch = any_extent(), height = number_extent(radius + below(6)),
         length = chance(0.3) ? Extent{dim().text + " + " + std::to_string(radius)} : number_extent(radius + below(7));
  std::string c = std::to_string(channels), name = fresh("v");
  if (chance(0.5)) { // along one axis, written out
    std::string x = need(real, {batch, length, number_extent(channels)}, false, false), r = std::to_string(radius),
                p = std::to_string(padding), s = std::to_string(stride);
    Extent turns{"(" + length.text + " + " + std::to_string(2 * padding - radius) + ") // " + s + " + 1"};
    if (length.constant())
      turns = number_extent((length.value + 2 * padding - radius) / stride + 1);
    std::string at = s + " * i + u - " + p;
    if (chance(0.5)) {
      std::string w = weight({number_extent(4), number_extent(channels), number_extent(radius)});
      line(name + "[b, i in " + turns.text + ", o] = sum[c, u](" + x + "[b, " + at + ", c | 0] * " + w + "[o, c, u])");
      add(name, real, {batch, turns, number_extent(4)});
    } else {
      line(name + "[b, i in " + turns.text + ", c] = " + one_of({"max", "sum"}) + "[u in " + r + "](" + x + "[b, " +
           at + ", c | 0])");
      add(name, real, {batch, turns, number_extent(channels)});
    }
    return;
  }
  std::string x = need(real, {batch, number_extent(channels), height, length}, false, false), sub = fresh("conv");
  bool pool = chance(0.4);
  auto after = [&](const Extent &e) {
    if (e.constant())
      return number_extent((e.value + 2 * padding - radius) / stride + 1);
    return Extent{"(" + e.text + " + " + std::to_string(2 * padding - radius) + ") // " + std::to_string(stride) +
                  " + 1"};
  };
  std::string numbers = std::to_string(radius) + ", " + std::to_string(stride) + ", " + std::to_string(padding);
  int out = pool ? channels : 1 + below(5);
  members_.push_back("sub " + sub + " = " + (pool ? "MaxPool(" : "Conv(" + c + ", " + std::to_string(out) + ", ") +
                     numbers + ")");
  line("let " + name + " = " + sub + "(" + x + ")");
  add(name, real, {batch, number_extent(out), after(height), after(length)});
}

/// Layers of one module, each with its weights, called in a written-out loop.
void Generator::layers() {
  Variable *v = variable(real);
  if (!v || v->shape.empty() || !v->shape.back().constant() || v->shape.back().value == 0)
    return product();
  std::vector<Extent> shape = v->shape;
  std::string width = shape.back().text, sub = fresh("layer"), name = fresh("h"), count = std::to_string(1 + below(3));
  ++v->reads;
  bool block = chance(0.5);
  members_.push_back("sub " + sub + "[" + count + "] as \"" + sub + ".h\" = " + (block ? "Block(" : "Linear(") +
                     (block ? width : width + ", " + width) + ")");
  line("let " + name + " = " + v->name + (chance(0.5) ? " * 1" : ""));
  std::string act = one_of({"", "relu", "tanh", "gelu"}), call = sub + "[l](" + name + ")";
  line("for l in " + count + " with " + name + " { " + name + " = " + (act.empty() ? call : act + "(" + call + ")") +
       (chance(0.3) ? " + " + name : "") + " }");
  add(name, real, shape);
}

void Generator::position_of_best() {
  Variable *v = variable(real);
  if (!v || v->shape.empty())
    return define();
  ++v->reads;
  std::vector<Extent> shape(v->shape.begin(), v->shape.end() - 1);
  std::string name = fresh("best");
  line(name + (shape.empty() ? "" : "[..s]") + " = " + one_of({"argmax", "argmin"}) + "[n](" + v->name +
       (shape.empty() ? "[n])" : "[..s, n])"));
  add(name, whole, shape);
}

void Generator::call_function() {
  Variable *v = variable(real);
  if (!v || v->shape.size() < 2)
    return define();
  ++v->reads;
  std::vector<Extent> shape = v->shape, rows(shape.begin(), shape.end() - 1);
  std::string x = v->name, y = fresh("f"), z = fresh("f");
  switch (below(3)) {
  case 0:
    line("let " + y + ", " + z + " = both(" + x + ")");
    add(y, real, rows);
    add(z, real, rows);
    break;
  case 1:
    line("let " + y + " = mixed(" + x + ", " + need(real, shape, false, false) + ")");
    add(y, real, shape);
    break;
  default:
    line("let " + y + " = centred(" + x + ")");
    add(y, real, shape);
  }
}

} // namespace heddle::fuzz
