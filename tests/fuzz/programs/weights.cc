// Products with a part of a weight: rows from an offset on, a part of the K dimension, and the matrix that a number of
// the data chooses, as mixtures of experts do.
#include "tests/fuzz/programs/generator.h"

namespace heddle::fuzz {

/// Several products with parts of one weight, each from its own offset: of its rows, or of its K dimension. Parts may
/// overlap, and one of them may be the whole weight.
void Generator::parts_of_weight() {
  static const int sizes[] = {1, 3, 5, 8, 12, 16, 17, 24, 30, 33, 48};
  bool of_sum = chance(0.3), turned = chance(0.3);
  int rows = sizes[below(11)], terms = sizes[below(9)], &cut = of_sum ? terms : rows,
      whole_size = cut + sizes[below(9)];
  int all_rows = of_sum ? rows : whole_size, all_terms = of_sum ? whole_size : terms;
  std::vector<Extent> shape{number_extent(all_rows), number_extent(all_terms)};
  if (turned)
    std::swap(shape[0], shape[1]);
  std::string w = weight(shape);
  Extent tokens = chance(0.8) ? dim() : fixed();
  for (int count = 1 + below(3); count > 0; --count) {
    bool all = chance(0.25);
    int offset = all ? 0 : chance(0.3) ? 8 * below(whole_size / 8 + 1) : below(whole_size);
    int size = all ? whole_size : std::min(cut, whole_size - offset);
    if (size == 0)
      continue;
    Extent outputs = number_extent(of_sum ? rows : size), sum = number_extent(of_sum ? size : terms);
    std::string plus = offset ? " + " + std::to_string(offset) : "", o = "o" + (of_sum ? "" : plus),
                k = "k" + (of_sum ? plus : ""), x = need(real, {tokens, sum}, false, false), name = fresh("part");
    std::string formula =
        "sum[k in " + sum.text + "](" + x + "[i, k] * " + w + "[" + (turned ? k + ", " + o : o + ", " + k) + "])";
    if (chance(0.3))
      formula = one_of({"tanh", "relu", "gelu"}) + "(" + formula + ")";
    if (chance(0.2))
      formula += " + " + need(real, {outputs}, true) + "[o]";
    line(name + "[i, o in " + outputs.text + "] = " + formula);
    add(name, real, {tokens, outputs});
  }
}

/// Rows times the matrix that each row's number chooses: by a read, by a condition, or by a choice of each term; with
/// one number per row, or the sum over several, each with its share.
void Generator::product_by_number() {
  static const int sizes[] = {1, 2, 3, 5, 8, 12, 16, 17, 24, 33};
  auto size = [&](int most) { return number_extent(sizes[below(most)]); };
  Extent matrices = number_extent(1 + below(9)), outputs = size(10), sum = size(10);
  std::vector<Extent> rows{chance(0.8) ? dim() : fixed()};
  std::string at = "i", of_token = "i";
  if (chance(0.3)) {
    rows.insert(rows.begin(), any_extent());
    at = of_token = "b, i";
  }
  std::vector<Extent> token = rows;
  bool several = chance(0.4);
  if (several) {
    rows.push_back(number_extent(1 + below(3)));
    at += ", c";
  }
  auto with = [](std::vector<Extent> shape, const Extent &last) {
    shape.push_back(last);
    return shape;
  };
  std::string ids = input(position, rows, matrices);
  ++variables_.back().reads;
  int rank = below(4); // where the number stands in the weight
  std::vector<Extent> shape = rank < 2    ? std::vector<Extent>{matrices, outputs, sum}
                              : rank == 2 ? std::vector<Extent>{matrices, sum, outputs}
                                          : std::vector<Extent>{outputs, matrices, sum};
  std::string w = weight(shape), number = ids + "[" + at + "]";
  auto read = [&](const std::string &e) {
    return w + "[" + (rank < 2 ? e + ", o, k" : rank == 2 ? e + ", k, o" : "o, " + e + ", k") + "]";
  };
  bool own = several && chance(0.4); // each number has a row of its own
  std::string x = need(real, with(own ? rows : token, sum), false, false) + "[" + (own ? at : of_token) + ", k]";
  if (chance(0.2))
    x = "max(" + x + ", 0)";
  std::string v = "v in " + matrices.text, formula;
  switch (below(4)) {
  case 0:
    formula = "sum[" + v + ", k where " + number + " == v](" + x + " * " + read("v") + ")";
    break;
  case 1:
    formula = "sum[" + v + ", k](if v == " + number + " then " + x + " * " + read("v") + " else 0)";
    break;
  default:
    formula = "sum[k](" + x + " * " + read(number) + ")";
  }
  if (chance(0.3))
    formula += " + " + need(real, {matrices, outputs}, false) + "[" + number + ", o]";
  if (chance(0.3))
    formula = one_of({"tanh", "relu", "silu"}) + "(" + formula + ")";
  bool apart = chance(0.5);
  std::string name = fresh("by"), ranges;
  for (size_t d = 0; d < rows.size(); ++d)
    ranges += (d ? ", " : "") + std::string(1, at[3 * d]) + " in " + rows[d].text;
  if (apart || !several) {
    line(name + "[" + ranges + ", o in " + outputs.text + "] = " + formula);
    add(name, real, with(rows, outputs));
    if (!several)
      return;
    formula = name + "[" + at + ", o]";
    name = fresh("by");
  }
  formula = "(" + formula + ")";
  if (chance(0.6))
    formula += " * " + need(real, rows, false, false) + "[" + at + "]";
  std::string of_ranges;
  for (size_t d = 0; d < token.size(); ++d)
    of_ranges += (d ? ", " : "") + std::string(1, at[3 * d]) + " in " + token[d].text;
  line(name + "[" + of_ranges + ", o in " + outputs.text + "] = sum[c in " + rows.back().text + "](" + formula + ")");
  add(name, real, with(token, outputs));
}

} // namespace heddle::fuzz
