// Tokens whose number is a product of run-time sizes (merged indices and the way back), and attention that goes further
// than sequences.cc: over keys of more than one block, and along neighbours in several batches at once.
#include "tests/fuzz/programs/generator.h"

#include <algorithm>

namespace heddle::fuzz {

/// An image as tokens: `n in (y in Y, x in X)`; what is made of them, and the way back.
void Generator::tokens() {
  Extent rows = chance(0.7) ? dim() : fixed(4), columns = chance(0.8) ? dim() : fixed(5), width = fixed(6);
  if ((rows.constant() && rows.value == 0) || (columns.constant() && columns.value == 0))
    return define();
  bool batched = chance(0.4), three = chance(0.15);
  Extent batch = chance(0.5) ? dim() : fixed(3), planes = number_extent(1 + below(3));
  std::vector<Extent> image{rows, columns};
  std::string pieces = "y in " + rows.text + ", x in " + columns.text, at = "y, x";
  auto times = [](const Extent &a, const Extent &b) {
    return a.constant() && b.constant() ? Extent{std::to_string(a.value * b.value), a.value * b.value}
                                        : Extent{a.text + " * " + b.text};
  };
  Extent all = times(rows, columns);
  if (three) {
    pieces = "z in " + planes.text + ", " + pieces;
    at = "z, " + at;
    image.insert(image.begin(), planes);
    all = times(planes, all);
  }
  if (batched) {
    image.insert(image.begin(), batch);
    at = "b, " + at;
  }
  image.push_back(width);
  if (chance(0.25)) // a neighbour
    at = at.substr(0, at.rfind("y, x")) + one_of({"y - 1, x", "y, x + 1", "y + x, x", "y, x - y"}) + ", d | 0";
  else
    at += ", d";
  std::string v = need(real, image, false, false), t = fresh("t"), b = batched ? "b, " : "",
              in_b = batched ? "b in " + batch.text + ", " : "", formula = v + "[" + at + "]";
  if (chance(0.3))
    formula += one_of({" + n", " * 2", " - y", " + x * 0.5"});
  std::vector<Extent> shape{all, width};
  if (batched)
    shape.insert(shape.begin(), batch);
  if (chance(0.2)) { // summed over all of them
    std::string s = fresh("s");
    line(s + "[" + in_b + "d in " + width.text + "] = " + one_of({"sum", "max", "mean"}) + "[n in (" + pieces + ")](" +
         formula + (chance(0.3) ? " * " + need(real, shape, false, false) + "[" + b + "n, d]" : "") + ")");
    shape.erase(shape.end() - 2);
    add(s, real, shape);
    return;
  }
  line(t + "[" + in_b + "n in (" + pieces + "), d in " + width.text + "] = " + formula);
  add(t, real, shape);
  std::string next = fresh("t");
  switch (below(6)) {
  case 0: { // one more token before them
    std::string first = need(real, {width}, true);
    line(next + "[" + in_b + "n in " + all.text + " + 1, d in " + width.text + "] = if n == 0 then " + first +
         "[d] else " + t + "[" + b + "n - 1, d]");
    shape[shape.size() - 2] =
        Extent{all.constant() ? std::to_string(all.value + 1) : all.text + " + 1", all.constant() ? all.value + 1 : -1};
    add(next, real, shape);
    break;
  }
  case 1: // the way back
    if (three)
      break;
    line(next + "[" + in_b + "y in " + rows.text + ", x in " + columns.text + ", d in " + width.text + "] = " + t +
         "[" + b + "y * " + (columns.constant() ? columns.text : "(" + columns.text + ")") + " + x, d]" +
         one_of({"", " + 1"}));
    add(next, real, {image.end() - 3, image.end()});
    if (batched)
      variables_.back().shape.insert(variables_.back().shape.begin(), batch);
    break;
  case 2: { // a product
    Extent out = fixed(9);
    std::string w = weight({out, width});
    line(next + "[" + b + "n, o] = sum[d](" + t + "[" + b + "n, d] * " + w + "[o, d])");
    shape.back() = out;
    add(next, real, shape);
    break;
  }
  case 3: // attention among them; as many as a row of the image, or a few
    if (three || (!rows.constant() && !columns.constant()))
      break;
    {
      std::string s = fresh("s"), p = fresh("p");
      line(s + "[" + in_b + "n in " + all.text + ", m in " + all.text +
           "] = " + (chance(0.4) ? "if m <= n then " : "if true then ") + "sum[d](" + t + "[" + b + "n, d] * " + t +
           "[" + b + "m, d]) / 2 else -inf");
      line("let " + p + " = softmax(" + s + ")");
      line(next + "[" + b + "n, d] = sum[m](" + p + "[" + b + "n, m] * " + t + "[" + b + "m, d])");
    }
    add(next, real, shape);
    break;
  default:
    break;
  }
}

/// Attention over rows of keys that are longer than the block which a schedule takes at a time: past and present as in
/// Transformer-XL, with scores of distances, causal with ragged ends, or all keys.
void Generator::long_attention() {
  bool past = chance(0.5), distances = chance(0.4), square = !past && chance(0.15);
  bool longest = !square && chance(0.3); // further than the keys that a kernel's scratch has room for; of few rows
  Extent keys = long_dim(square    ? 280
                         : longest ? 2600
                                   : 600),
         queries = longest       ? number_extent(1 + below(3))
                   : chance(0.5) ? dim()
                                 : fixed(9),
         heads = number_extent(longest ? 1 : 1 + below(2)), width = number_extent(1 + below(longest ? 2 : 4)),
         all = keys;
  if (queries.constant() && queries.value == 0)
    queries = number_extent(3);
  if (square)
    queries = keys;
  if (past)
    all = Extent{keys.text + " + " + queries.text};
  std::string q = input(real, {queries, heads, width}), k = input(real, {all, heads, width}),
              v = input(real, {all, heads, width}), score, test;
  // A dim is bound by an input that has just it.
  std::string bound = input(boolean, {keys});
  inputs_.back() = inputs_.back().substr(0, inputs_.back().find(" ="));
  std::string offset = past ? keys.text : "0";
  score = "sum[e](" + q + "[i, h, e] * " + k + "[j, h, e])";
  if (distances) {
    std::string r = input(real, {Extent{all.text + " + " + queries.text}, width}),
                distance = "i + " + (past ? "(" + keys.text + ")" : "(" + all.text + ")") + " - j";
    score = chance(0.7) ? "(" + score + " + sum[e](" + q + "[i, h, e] * " + r + "[" + distance + ", e | 0]))"
                        : score + " + " + r + "[" + distance + ", 0 | 0]";
  }
  if (chance(0.6))
    score += " / 2";
  auto also = [&](const std::string &what) { test += (test.empty() ? "" : " and ") + what; };
  if (past ? chance(0.8) : chance(0.4))
    also("j <= i + " + (past ? offset : std::to_string(below(300))));
  if (chance(0.3))
    also("i + " + offset + " - j < " + std::to_string(1 + below(290)));
  if (chance(0.3))
    also(bound + "[j | true]");
  if (chance(0.2))
    also("j < " + input(whole, {heads}) + "[h] * 40");
  std::string s = fresh("s"), p = fresh("p"), a = fresh("a");
  line(s + "[h in " + heads.text + ", i in " + queries.text + ", j in " + all.text +
       "] = " + (test.empty() ? score : "if " + test + " then " + score + " else -inf"));
  line("let " + p + " = softmax(" + s + ")");
  line(a + "[i, h, e] = sum[j](" + p + "[h, i, j] * " + v + "[j, h, e])");
  // Not for other statements: they would make tensors of many long axes.
  long_results_.push_back({a, "real[" + queries.text + ", " + heads.text + ", " + width.text + "]"});
}

/// Attention to neighbours in two or three batches that can't be merged: queries, keys and values have them in any
/// order.
void Generator::sliding_attention() {
  struct Axis {
    std::string index;
    Extent extent;
  };
  std::vector<Axis> batches{{"a", number_extent(1 + below(3))},
                            {"b", chance(0.6) ? dim() : number_extent(1 + below(3))}};
  if (chance(0.4))
    batches.push_back({"g", number_extent(1 + below(2))});
  Axis place{"i", dim()}, heads{"h", number_extent(1 + below(3))}, width{"e", number_extent(1 << below(4))};
  int left = below(5), window = left + 1 + below(4);
  std::string j = "i + o - " + std::to_string(left);
  auto tensor = [&](bool with_query_place, const std::string &at_place) {
    std::vector<Axis> axes = batches;
    axes.push_back(place);
    axes.push_back(heads);
    std::shuffle(axes.begin(), axes.end(), random_);
    axes.push_back(width);
    std::vector<Extent> shape;
    std::string at;
    for (const Axis &axis : axes) {
      shape.push_back(axis.extent);
      at += (at.empty() ? "" : ", ") + (axis.index == "i" ? at_place : axis.index);
    }
    return need(real, shape, false, false) + "[" + at + (with_query_place ? "]" : " | 0]");
  };
  std::string score = "sum[e](" + tensor(true, "i") + " * " + tensor(false, j) + ")", test;
  if (chance(0.5))
    score += " * 0.5";
  if (chance(0.4))
    test = "0 <= " + j + " and " + j + " < " + place.extent.text;
  if (chance(0.4))
    test += (test.empty() ? "" : " and ") + need(boolean, {batches[1].extent, place.extent}, false, false) + "[b, " +
            j + " | " + one_of({"false", "true"}) + "]";
  std::string s = fresh("s"), p = fresh("p"), y = fresh("a"), in, of;
  for (const Axis &axis : batches) {
    in += axis.index + " in " + axis.extent.text + ", ";
    of += axis.index + ", ";
  }
  line(s + "[" + in + "h in " + heads.extent.text + ", i in " + place.extent.text + ", o in " + std::to_string(window) +
       "] = " + (test.empty() ? score : "if " + test + " then " + score + " else -inf"));
  line("let " + p + " = softmax(" + s + ")");
  std::vector<Axis> out = batches;
  out.push_back(place);
  out.push_back(heads);
  if (chance(0.5))
    std::shuffle(out.begin(), out.end(), random_);
  out.push_back(width);
  std::string at;
  std::vector<Extent> shape;
  for (const Axis &axis : out) {
    at += (at.empty() ? "" : ", ") + axis.index;
    shape.push_back(axis.extent);
  }
  line(y + "[" + at + "] = sum[o](" + p + "[" + of + "h, i, o] * " + tensor(false, j) + ")");
  add(y, real, shape);
}

} // namespace heddle::fuzz
