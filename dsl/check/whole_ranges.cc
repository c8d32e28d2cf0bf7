#include "dsl/check/whole_ranges.h"

#include <algorithm>
#include <cmath>

namespace heddle::checking {

Range operator+(const Range &a, const Range &b) { return {a.least + b.least, a.most + b.most}; }
Range operator-(const Range &a, const Range &b) { return {a.least - b.most, a.most - b.least}; }

Range operator*(const Range &a, const Range &b) {
  auto corners = {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most};
  return {std::min(corners), std::max(corners)};
}

bool fits(const Range &range, const Range &into) { return range.least >= into.least && range.most <= into.most; }

Range hull(const Range &a, const Range &b) { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

Range common(const Range &a, const Range &b) {
  return {std::clamp(a.least, b.least, b.most), std::clamp(a.most, b.least, b.most)};
}

Range smaller(const Range &a, const Range &b) { return {std::min(a.least, b.least), std::min(a.most, b.most)}; }
Range larger(const Range &a, const Range &b) { return {std::max(a.least, b.least), std::max(a.most, b.most)}; }

Range divide(const Range &a, const Range &by) {
  if (by.least >= 1)
    return {std::floor(std::min(a.least / by.least, a.least / by.most)),
            std::floor(std::max(a.most / by.least, a.most / by.most))};
  double most = std::max(std::fabs(a.least), std::fabs(a.most));
  return {-most - 1, most};
}

Range remainder(const Range &by) { return {std::min(by.least, 0.0), std::max(by.most, 0.0)}; }

// --- sizes

namespace {

Range values_of(const Size::Atom &atom, const std::vector<Dim> &dims) {
  switch (atom.kind) {
  case Size::Atom::dim:
    return {0, double(dims[atom.dim_index].most.value_or(INT32_MAX))};
  case Size::Atom::floor_div:
    return divide(checking::values_of(*atom.inner, dims), {double(atom.divisor), double(atom.divisor)});
  case Size::Atom::mod:
    return {0, double(atom.divisor - 1)};
  case Size::Atom::product:
    break;
  }
  Range all = {1, 1};
  for (const Size::Atom &factor : atom.factors)
    all = all * values_of(factor, dims);
  double most = double(Size::most_product);
  return {std::max(all.least, -most), std::min(all.most, most)};
}

Size at_least(const Size::Atom &atom, bool negated, const std::vector<Dim> &dims) {
  if (negated && values_of(atom, dims).least >= 0)
    return Size(0);
  switch (atom.kind) {
  case Size::Atom::dim:
    return Size::of_atom(atom);
  case Size::Atom::floor_div:
    return negated ? checking::at_least(*atom.inner * -1, dims).floor_div(atom.divisor) + Size(1)
                   : checking::at_least(*atom.inner, dims).floor_div(atom.divisor);
  case Size::Atom::mod:
    return Size(atom.divisor - 1);
  case Size::Atom::product:
    break;
  }
  Size all(1);
  for (const Size::Atom &factor : atom.factors)
    all = all * (at_least(factor, false, dims) + at_least(factor, true, dims));
  return all;
}

} // namespace

Range values_of(const Size &size, const std::vector<Dim> &dims) {
  Range all = {double(size.constant()), double(size.constant())};
  for (const Size::Term &term : size.terms())
    all = all + Range{double(term.factor), double(term.factor)} * values_of(term.atom, dims);
  return all;
}

Size at_least(const Size &size, const std::vector<Dim> &dims) {
  Size all(std::max<int64_t>(size.constant(), 0));
  for (const Size::Term &term : size.terms())
    all = all + at_least(term.atom, term.factor < 0, dims) * std::abs(term.factor);
  return all;
}

} // namespace heddle::checking
