// Run-time sizes. After configs are folded, an extent is a quasi-affine integer expression over the
// model's `dim`s: a constant plus integer multiples of dims, of floor divisions by constants, and of products of
// those. A Size is kept canonical, so two extents agree exactly when they compare equal.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle {

class Size {
public:
  /// `dim`: value of the dim with that number. `product`: of two factors or more, sorted, none of them a product.
  /// Otherwise `floor(*inner / divisor)` or `*inner mod divisor`.
  struct Atom {
    enum Kind { dim, floor_div, mod, product } kind = dim;
    int dim_index = -1;
    std::shared_ptr<const Size> inner;
    int64_t divisor = 0;
    std::vector<Atom> factors = {};
  };
  struct Term {
    Atom atom;
    int64_t factor;
  };

  Size() = default;
  Size(int64_t constant) : constant_(constant) {}
  static Size of_dim(int dim_index);
  static Size of_atom(const Atom &atom);

  bool is_constant() const { return terms_.empty(); }
  int64_t constant() const { return constant_; }
  /// The dim's number where this is just a dim, else -1.
  int as_dim() const;
  const std::vector<Term> &terms() const { return terms_; }

  Size operator+(const Size &other) const;
  Size operator-(const Size &other) const;
  Size operator*(int64_t factor) const;
  /// A polynomial, multiplied out.
  Size operator*(const Size &other) const;
  /// Rounds towards minus infinity. `divisor` > 0.
  Size floor_div(int64_t divisor) const;
  Size mod(int64_t divisor) const;

  /// Products of factors stop there on their way: a tensor of such a size is refused whatever it is.
  static constexpr int64_t most_product = int64_t(1) << 31;
  /// More than the distance of its value from 0 for any dims of 32 bits.
  double magnitude() const;
  /// Its value for given values of all dims.
  int64_t evaluate(const std::vector<int64_t> &dims) const;
  /// "M + T", with the author's names of the dims.
  std::string text(const std::vector<std::string> &dim_names) const;

  friend bool operator==(const Size &a, const Size &b);
  friend std::strong_ordering operator<=>(const Size &a, const Size &b); // any total order

  /// Calls `f(number)` for every dim that this depends on.
  template <class F> void for_each_dim(const F &f) const {
    for (const Term &term : terms_)
      for_each_dim(term.atom, f);
  }

private:
  template <class F> static void for_each_dim(const Atom &atom, const F &f) {
    if (atom.kind == Atom::dim)
      f(atom.dim_index);
    if (atom.inner)
      atom.inner->for_each_dim(f);
    for (const Atom &factor : atom.factors)
      for_each_dim(factor, f);
  }
  void add_term(const Atom &atom, int64_t factor); // keeps terms_ sorted, without zeros

  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

} // namespace heddle
