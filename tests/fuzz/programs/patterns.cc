// The shapes of computation that models are made of and that kernels of their own exist for: products of many
// layouts, norms, layers with weights (windows.cc: sliding windows; sequences.cc: attention, loops over time, states;
// lookups.cc: lookups, merged and cut axes).
#include "tests/fuzz/programs/generator.h"

#include <algorithm>

namespace heddle::fuzz {

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
  if (!batch.empty() && chance(0.4))
    batch.push_back({"h", size(4)});
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
  std::string x = v->name, y = fresh("total"), z = fresh("most");
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
