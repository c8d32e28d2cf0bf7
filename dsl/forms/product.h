// One sum of products on its way to a form: its indices are variables, its conditions stand apart.
#pragma once

#include "dsl/check/program.h"
#include "dsl/differentiate/whole.h"
#include "dsl/forms/stages.h"

namespace heddle::forms {

using differentiating::Term;
using differentiating::Terms;
using differentiating::Whole;

class Product {
public:
  Product(Terms &terms, Whole &whole, const Stage &stage);

  /// Conditions that give summed indices their values; indices that are divided.
  void solve();
  bool changed() const { return changed_; }
  /// Whether what is left to sum over are numbers of indices that are known.
  bool has_few_terms() const;
  /// The stages that compute it, the last of which has the stage's own result; none where a condition remains that
  /// belongs to one factor only.
  std::vector<Stage> stages(const MakeTensor &make);

private:
  /// An index of the result, and the pieces that it is made of, outermost first.
  struct Axis {
    int index;
    std::vector<int> pieces;
    bool exact; // the pieces count as many places as the index
  };

  void live();
  /// Values in place of variables, wherever these stand.
  void put(const std::map<int, Term> &values);
  /// With whole numbers and conditions simplified, and decided selects taken; formulas of reals stay as they are.
  Term tidied(Term e, const std::map<int, Term> &values, std::map<Term, Term> &done);
  bool fix_one();
  bool split_one();
  bool only_chooses(int variable);
  bool split(int variable, const differentiating::Polynomial &by);
  bool is_place(const Tensor *tensor, const std::vector<Term> &at);
  Term proven(Term e);
  Term factor_of_its_own(Term factor, const MakeTensor &make, std::vector<Stage> &made);
  std::vector<int> order_of_result();
  bool depends(Term e, int variable) { return terms_.variables(e).count(variable) > 0; }

  Terms &terms_;
  Whole &whole_;
  const Stage &stage_;
  std::vector<Axis> axes_;
  std::vector<int> over_;
  std::map<int, Term> inside_; // of each piece: its value in terms of the result's indices
  std::vector<Term> guards_;   // under which a term counts
  Term value_;
  bool changed_ = false;
  bool visits_more_ = false; // there are places that the stage itself does not visit
};

} // namespace heddle::forms
