// Sums of products with two factors, each of which is used again: what kernels of products are made of. Factors may
// come in any number and order, and the weights of a sum may be divided before or after it:
//
//   y[b, o] = sum[d](x[b, d] * w[o, d] * c[d])               becomes   sum[d]((x[b, d] * c[d]) * w[o, d])
//
//   n[i]    = sum[k](exp(s[i, k] - top[i]))                            p[i, k] = exp(s[i, k] - top[i]) / n[i]
//   t[i, e] = sum[k](exp(s[i, k] - top[i]) * v[k, e]) / n[i]  becomes  t[i, e] = sum[k](p[i, k] * v[k, e])
//
// What a softmax leaves out by a condition has scores of -inf, and values that are 0 for the rows they don't count for:
//
//   top[i]  = max[k where k <= i](s[i, k])
//   n[i]    = sum[k where k <= i](exp(s[i, k] - top[i]))
//   t[i, e] = sum[k where k <= i](exp(s[i, k] - top[i]) * v[k, e])
//                                                             becomes   c[i, k] = if k <= i then s[i, k] else -inf
//                                                                       p[i, k] = if k <= i then exp(c[i, k] - top[i])
//                                                                                 else 0
//                                                      t[i, e] = sum[k](p[i, k] * (if k <= i then v[k, e] else 0))
//
// A factor that is read in steps is copied once, not for each of the other one's indices:
//
//   y[i, o] = sum[c](x[2 * i, c] * w[o, c])                  becomes   s[i, c] = x[2 * i, c]
//                                                                      y[i, o] = sum[c](s[i, c] * w[o, c])
//
// Functions of places alone become tables, which a session computes once:
//
//   y[b, s, e] = x[b, s, e] * cos(s * f[e])                  becomes   t[s, e] = cos(s * f[e])
//                                                                      y[b, s, e] = x[b, s, e] * t[s, e]
#pragma once

#include "dsl/differentiate/whole.h"
#include "dsl/forms/stages.h"

#include <map>
#include <set>

namespace heddle::forms {

class FactorForms {
public:
  FactorForms(differentiating::Terms &terms, MakeTensor make) : terms_(terms), make_(std::move(make)) {}

  /// The stages that `stage` becomes, the last of which has its result. Stages are to be given in their order.
  std::vector<Stage> of(const Stage &stage);

private:
  using Term = differentiating::Term;

  /// The factors of a sum in two groups, such that each has an index of the result that the other lacks.
  Term grouped(const Stage &stage, Term value, const std::vector<Term> &indices);
  bool has_functions(Term e);
  /// Weights, exp(s[i, k] - top[i]) / n[i], as stages of their own: they are used again, or summed beside.
  Term weights_of_their_own(const Stage &stage, Term e, std::vector<Stage> &made);
  /// Whether it is read in steps of more than one element along some axis, and nowhere along several indices at once.
  bool is_read_in_steps(Term e);
  /// The term of a sum, a product of two groups of factors, with weights as stages of their own. Where terms count
  /// under conditions only, weights and what they multiply both are 0 elsewhere.
  Term with_weights(const Stage &stage, Term e, const std::vector<Term> &indices, std::vector<Stage> &made);
  /// What a maximum is taken of under conditions, as a stage of its own: scores that are -inf elsewhere.
  Term scores_of_their_own(const Stage &stage, Term e, std::vector<Stage> &made);
  /// A weight that counts under conditions, made of scores that are -inf elsewhere, where there are such.
  Term with_scores(const Stage &stage, Term e);
  /// Whether a value follows from indices and sizes alone.
  bool is_of_places(Term e) const;
  /// The same of a node whose operands do.
  bool keeps_to_places(Term node) const;
  /// Functions of places of fewer indices than the stage has, as stages of their own.
  Term tables_of_their_own(const Stage &stage, Term e, std::vector<Stage> &made);
  /// The element of the stage that computes `e` of variables, one that is there already or a new one, of that name.
  Term element(const Stage &stage, Term e, std::vector<Stage> *made, const std::string &name = "weights");
  /// `e` with what stages compute already read from them.
  Term with_known(const Stage &stage, Term e, std::map<Term, Term> &done);
  /// A sum divided by the sum of its weights, as the sum of weights that are divided.
  std::vector<Stage> divided_before(const Stage &stage);

  differentiating::Terms &terms_;
  differentiating::Whole whole_{terms_};
  MakeTensor make_;
  std::map<const Tensor *, Stage> sums_;                                 // and maxima, of one index, by result
  std::set<const Tensor *> functions_;                                   // results of formulas that have some
  std::set<const Tensor *> places_;                                      // results that are of places alone
  std::map<std::pair<Term, std::vector<Size>>, const Tensor *> weights_; // by formula of positions, and their extents
};

} // namespace heddle::forms
