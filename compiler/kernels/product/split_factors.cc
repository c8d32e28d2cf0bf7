// A factor with lanes that lies term by term goes through squares of vectors, which are read along the terms and put
// down along the lanes.
#include "compiler/kernels/product/split_factors.h"

#include "compiler/kernels/inlining.h"

namespace heddle::split {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
namespace hi = Halide::Internal;

namespace {

Var word() { return Var("word"); }
Var part() { return Var("part"); }
Var step() { return Var("step"); }

Expr word_constant(uint64_t value) { return hi::UIntImm::make(Halide::UInt(32), value); }

/// Of a word, the half that bf16 keeps, and half of what the lower half counts.
Expr upper_half() { return word_constant(0xffff0000); }
Expr half_of_lower() { return word_constant(0x8000); }

Expr bits(const Expr &number) { return Halide::reinterpret(Halide::UInt(32), number); }

/// The number of bf16 that is nearest to one of f32.
Expr rounded(const Expr &number) {
  return Halide::reinterpret(Halide::Float(32), (bits(number) + half_of_lower()) & upper_half());
}

/// A part of each of two numbers, side by side.
Expr word_of(const Expr &first, const Expr &second) { return (bits(first) >> 16) | (bits(second) & upper_half()); }

/// The word of a part of two terms.
Expr word_of_part(const Expr &part, const Expr &first, const Expr &second) {
  Expr of[2][parts];
  for (int i = 0; i < 2; ++i) {
    Expr rest = i ? second : first;
    for (int k = 0; k + 1 < parts; ++k) {
      of[i][k] = rounded(rest);
      rest = Halide::strict_float(rest - of[i][k]);
    }
    of[i][parts - 1] = rest;
  }
  Expr word = word_of(of[0][parts - 1], of[1][parts - 1]);
  for (int k = parts - 2; k >= 0; --k)
    word = select(part == k, word_of(of[0][k], of[1][k]), word);
  return word;
}

/// The copy of a factor over `dims`.
Copy copy(const std::string &name, const Expr &factor, const Var &term, const std::vector<Var> &dims) {
  Copy copy;
  Expr first = step() * split::terms + word();
  copy.func = Func(name);
  copy.func(dims) =
      word_of_part(part(), replaced(term.name(), first, factor), replaced(term.name(), first + words, factor));
  copy.read = copy.func(std::vector<Expr>(dims.begin(), dims.end()));
  return copy;
}

} // namespace

Halide::Region loops(const Expr &terms) {
  return {{0, words}, {0, parts}, {0, hi::simplify((terms + (split::terms - 1)) / split::terms)}};
}

Copy rows(const Expr &factor, const Var &term, const Expr &terms, const Var &row, const Expr &rows,
          const std::vector<Var> &others) {
  Expr value = replaced(row.name(), min(Halide::likely(row), rows - 1), factor);
  std::vector<Var> dims = {word(), part(), step(), row};
  dims.insert(dims.end(), others.begin(), others.end());
  return copy("rows", filled(split::terms, value, term, terms), term, dims);
}

Copy panels(const Expr &factor, const Var &term, const Expr &terms, const Var &column, int width, const Expr &columns,
            const std::vector<Var> &others) {
  Var lane = lane_of_panel();
  Expr value = in_panels(factor, column, width, columns);
  std::vector<Var> dims = {lane, word(), part(), step()};
  dims.insert(dims.end(), others.begin(), others.end());
  dims.push_back(panel_of_columns());
  value = filled(split::terms, value, term, terms);
  Func turned;
  if (all_reads_lie_by(factor, term)) {
    std::vector<Var> square = {lane, term};
    for (const Var &dim : used_by(value, dims))
      if (!dim.same_as(lane))
        square.push_back(dim);
    turned = Func("turned");
    turned(square) = value;
    value = turned(std::vector<Expr>(square.begin(), square.end()));
  }
  Copy made = copy("panel", value, term, dims);
  made.turned = turned;
  made.read = at_column(made.read, column, width);
  return made;
}

Expr read(const Copy &copy, const RegisterTile &tile, const Expr &first) {
  return Halide::cast<float>(replaced({{word().name(), tile.term(0)},
                                       {part().name(), tile.term(1)},
                                       {step().name(), hi::simplify(first / terms) + tile.term(2)}},
                                      copy.read));
}

void schedule_rows(Copy &copy, const Expr &steps) {
  Func &func = copy.func;
  std::vector<Var> dims = func.args();
  func.bound_extent(dims[0], words).bound_extent(dims[1], parts);
  // Rows an even number of lines apart would meet in the same banks of the second cache.
  func.bound_storage(dims[2], steps | 1);
  func.vectorize(dims[0]).unroll(dims[1]);
}

void schedule_panels(Copy &copy, int width) {
  Func &func = copy.func;
  std::vector<Var> dims = func.args();
  Var lane = dims[0], vectors("vectors");
  func.bound_extent(lane, width).bound_extent(dims[1], words).bound_extent(dims[2], parts);
  func.bound_extent(dims.back(), 1);
  if (!copy.turned.defined()) {
    func.reorder(lane, dims[2], dims[1]).vectorize(lane, words).unroll(lane).unroll(dims[2]);
    return;
  }
  Var term = copy.turned.args()[1];
  func.split(lane, vectors, lane, words)
      .reorder(lane, dims[2], dims[1], dims[3], vectors)
      .vectorize(lane)
      .unroll(dims[2])
      .unroll(dims[1]);
  copy.turned.compute_at(func, dims[3]).bound_extent(lane, words).bound_extent(term, split::terms);
  copy.turned.reorder(term, lane).vectorize(term, words).unroll(term).unroll(lane);
}

} // namespace heddle::split
