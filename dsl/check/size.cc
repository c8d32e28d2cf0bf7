// Arithmetic on run-time sizes. The canonical form is what makes `==` decide whether two extents agree: terms sorted by
// atom without zero factors; a floor division holds only what its divisor does not divide; a remainder is written
// as x - c * (x // c), so that S // 2 * 2 + S % 2 is S.
#include "dsl/check/size.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::strong_ordering compare(const Size::Atom &a, const Size::Atom &b) {
  if (auto c = a.kind <=> b.kind; c != 0)
    return c;
  if (a.kind == Size::Atom::dim)
    return a.dim_index <=> b.dim_index;
  if (a.kind == Size::Atom::product) {
    if (auto c = a.factors.size() <=> b.factors.size(); c != 0)
      return c;
    for (size_t i = 0; i < a.factors.size(); ++i)
      if (auto c = compare(a.factors[i], b.factors[i]); c != 0)
        return c;
    return std::strong_ordering::equal;
  }
  if (auto c = a.divisor <=> b.divisor; c != 0)
    return c;
  return *a.inner <=> *b.inner;
}

} // namespace

Size Size::of_dim(int dim_index) { return of_atom({Atom::dim, dim_index, nullptr, 0}); }

Size Size::of_atom(const Atom &atom) {
  Size s;
  s.add_term(atom, 1);
  return s;
}

int Size::as_dim() const {
  bool bare = constant_ == 0 && terms_.size() == 1 && terms_[0].factor == 1 && terms_[0].atom.kind == Atom::dim;
  return bare ? terms_[0].atom.dim_index : -1;
}

void Size::add_term(const Atom &atom, int64_t factor) {
  auto at = terms_.begin();
  while (at != terms_.end() && compare(at->atom, atom) < 0)
    ++at;
  if (at != terms_.end() && compare(at->atom, atom) == 0) {
    at->factor += factor;
    if (at->factor == 0)
      terms_.erase(at);
  } else if (factor != 0) {
    terms_.insert(at, {atom, factor});
  }
}

Size Size::operator+(const Size &other) const {
  Size sum = *this;
  sum.constant_ += other.constant_;
  for (const Term &term : other.terms_)
    sum.add_term(term.atom, term.factor);
  return sum;
}

Size Size::operator-(const Size &other) const { return *this + other * -1; }

Size Size::operator*(int64_t factor) const {
  Size product;
  product.constant_ = constant_ * factor;
  if (factor != 0)
    for (const Term &term : terms_)
      product.terms_.push_back({term.atom, term.factor * factor});
  return product;
}

Size Size::operator*(const Size &other) const {
  Size product = *this * other.constant_;
  product = product + Size(other) * constant_ - Size(constant_ * other.constant_);
  for (const Term &a : terms_)
    for (const Term &b : other.terms_) {
      Atom both;
      both.kind = Atom::product;
      for (const Atom *one : {&a.atom, &b.atom})
        if (one->kind == Atom::product)
          both.factors.insert(both.factors.end(), one->factors.begin(), one->factors.end());
        else
          both.factors.push_back(*one);
      std::sort(both.factors.begin(), both.factors.end(),
                [](const Atom &x, const Atom &y) { return compare(x, y) < 0; });
      product.add_term(both, a.factor * b.factor);
    }
  return product;
}

Size Size::floor_div(int64_t divisor) const {
  if (divisor == 1)
    return *this;
  Size outside(floor_quotient(constant_, divisor)), rest;
  rest.constant_ = constant_ - outside.constant_ * divisor;
  int64_t common = divisor;
  for (const Term &term : terms_) {
    int64_t whole = floor_quotient(term.factor, divisor), left = term.factor - whole * divisor;
    outside.add_term(term.atom, whole);
    if (left != 0)
      rest.terms_.push_back({term.atom, left});
    common = std::gcd(common, left);
  }
  for (Term &term : rest.terms_)
    term.factor /= common;
  rest.constant_ /= common; // it is not negative; what it loses can't carry, as all else is a multiple of `common`
  divisor /= common;
  if (rest.is_constant()) // 0 <= rest < divisor
    return outside;
  // (x // a + n) // b is (x + a * n) // (a * b) for every whole n.
  auto inner = std::find_if(rest.terms_.begin(), rest.terms_.end(),
                            [](const Term &term) { return term.atom.kind == Atom::floor_div && term.factor == 1; });
  if (inner != rest.terms_.end()) {
    Atom own = inner->atom;
    return outside + (*own.inner + (rest - of_atom(own)) * own.divisor).floor_div(own.divisor * divisor);
  }
  outside.add_term({Atom::floor_div, -1, std::make_shared<Size>(rest), divisor}, 1);
  return outside;
}

Size Size::mod(int64_t divisor) const { return *this - floor_div(divisor) * divisor; }

namespace {

int64_t value_of(const Size::Atom &atom, const std::vector<int64_t> &dims) {
  if (atom.kind == Size::Atom::dim)
    return dims[atom.dim_index];
  if (atom.kind == Size::Atom::product) {
    auto limited = [](int64_t value) { return std::clamp(value, -Size::most_product, Size::most_product); };
    int64_t product = 1;
    for (const Size::Atom &factor : atom.factors)
      product = limited(product * limited(value_of(factor, dims)));
    return product;
  }
  int64_t inner = atom.inner->evaluate(dims), quotient = floor_quotient(inner, atom.divisor);
  return atom.kind == Size::Atom::floor_div ? quotient : inner - quotient * atom.divisor;
}

std::string text_of(const Size::Atom &atom, const std::vector<std::string> &dim_names) {
  if (atom.kind == Size::Atom::dim)
    return dim_names[atom.dim_index];
  std::string out;
  for (const Size::Atom &factor : atom.factors) {
    std::string one = text_of(factor, dim_names);
    out += (out.empty() ? "" : " * ") + (factor.kind == Size::Atom::dim ? one : "(" + one + ")");
  }
  if (atom.kind == Size::Atom::product)
    return out;
  std::string inner = atom.inner->text(dim_names);
  bool bare = atom.inner->as_dim() >= 0;
  return (bare ? inner : "(" + inner + ")") + (atom.kind == Size::Atom::floor_div ? " // " : " % ") +
         std::to_string(atom.divisor);
}

} // namespace

double Size::magnitude() const {
  double all = std::fabs(double(constant_));
  for (const auto &[atom, factor] : terms_) {
    double one = atom.kind == Atom::dim || atom.kind == Atom::product ? double(most_product) : double(atom.divisor);
    if (atom.kind == Atom::floor_div)
      one = atom.inner->magnitude() / double(atom.divisor) + 1;
    all += std::fabs(double(factor)) * one;
    for (const Atom &one : atom.factors)
      all = one.inner ? std::max(all, one.inner->magnitude()) : all;
  }
  return all;
}

int64_t Size::evaluate(const std::vector<int64_t> &dims) const {
  int64_t value = constant_;
  for (const auto &[atom, factor] : terms_)
    value += factor * value_of(atom, dims);
  return value;
}

std::string Size::text(const std::vector<std::string> &dim_names) const {
  if (terms_.empty())
    return std::to_string(constant_);
  std::string out;
  auto sign = [&](bool negative) {
    if (out.empty())
      out += negative ? "-" : "";
    else
      out += negative ? " - " : " + ";
  };
  for (const auto &[atom, factor] : terms_) {
    sign(factor < 0);
    int64_t size = factor < 0 ? -factor : factor;
    if (size != 1)
      out += std::to_string(size) + " * ";
    std::string one = text_of(atom, dim_names);
    bool closed = atom.kind == Atom::dim || atom.kind == Atom::product || (size == 1 && out.size() <= 1);
    out += closed ? one : "(" + one + ")";
  }
  if (constant_ != 0) {
    sign(constant_ < 0);
    out += std::to_string(constant_ < 0 ? -constant_ : constant_);
  }
  return out;
}

bool operator==(const Size &a, const Size &b) { return (a <=> b) == 0; }

std::strong_ordering operator<=>(const Size &a, const Size &b) {
  if (auto c = a.constant_ <=> b.constant_; c != 0)
    return c;
  if (auto c = a.terms_.size() <=> b.terms_.size(); c != 0)
    return c;
  for (size_t i = 0; i < a.terms_.size(); ++i) {
    if (auto c = compare(a.terms_[i].atom, b.terms_[i].atom); c != 0)
      return c;
    if (auto c = a.terms_[i].factor <=> b.terms_[i].factor; c != 0)
      return c;
  }
  return std::strong_ordering::equal;
}

} // namespace heddle
