// Whole numbers of subscripts and conditions as polynomials, what is known of their signs, and expressions made simpler
// by both. An atom is an index, a dim, or anything that is no sum or product: floor(a / c), a remainder, a read.
#pragma once

#include "dsl/differentiate/terms.h"

#include <optional>

namespace heddle::differentiating {

/// Atoms by number, ascending, each as often as its power.
using Monomial = std::vector<int>;
using Polynomial = std::map<Monomial, int64_t>;

Polynomial plus(const Polynomial &a, const Polynomial &b, int64_t factor = 1);
Polynomial times(const Polynomial &a, int64_t factor);
Polynomial times(const Polynomial &a, const Polynomial &b);
std::optional<int64_t> constant_of(const Polynomial &p);
/// p == divisor * quotient + rest by monomials; `divisor` is a constant or has one monomial.
struct Division {
  Polynomial quotient, rest;
};
Division divide(const Polynomial &p, const Polynomial &divisor);

class Whole {
public:
  explicit Whole(Terms &terms) : terms_(terms) {}

  Polynomial of(Term e);
  Polynomial of(const Size &size);
  Term term(const Polynomial &p);
  /// Where dims alone decide it.
  std::optional<Size> size(const Polynomial &p);
  /// p == factor * atom + rest, as far as the atom stands for itself in products.
  struct Linear {
    Polynomial factor, rest;
  };
  Linear linear(const Polynomial &p, Term atom);
  /// Whether `variable` occurs in `p`, in atoms too.
  bool mentions(const Polynomial &p, int variable);
  Term atom(int number) const { return atoms_[number]; }

  /// Indices that have values wherever what follows is asked, so that their extents are 1 at least.
  void live(const std::vector<int> &variables);
  /// Iterations of the loops around, so that the extents are 1 at least.
  void in_loops(std::vector<Size> extents);
  /// Tensors whose elements are never negative.
  std::set<const Tensor *> nonnegative_tensors;
  /// Of some of them: what every element is less than.
  std::map<const Tensor *, Size> below;

  /// Whether that is sure; false says nothing.
  bool nonnegative(const Polynomial &p, int depth = 0);
  /// Equal wherever its indices are in their ranges.
  Term simplified(Term e);

private:
  int number(Term atom);
  Polynomial of_product(const Size::Atom &atom);
  Polynomial rejoined(Polynomial p);
  Term simple(Term e, std::unordered_map<Term, Term> &done);
  Term simple_quotient(Term e);
  Term simple_comparison(Term e);
  bool nonnegative_atom(Term e);
  std::optional<Size> extent_of(Term e) const;

  Terms &terms_;
  std::vector<Term> atoms_;
  std::unordered_map<Term, int> numbers_;
  std::set<int> at_least_one_; // dims
  std::vector<Size> loops_;
};

} // namespace heddle::differentiating
