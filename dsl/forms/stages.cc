#include "dsl/forms/stages.h"

namespace heddle::forms {

using namespace heddle::differentiating;

Stage stage_of(Terms &terms, const Stage &like, const Tensor *result, const std::vector<int> &space, Term value,
               const std::vector<int> &over) {
  Stage made{};
  made.result = result;
  std::map<int, int> positions;
  for (const auto *list : {&space, &over})
    for (int v : *list) {
      positions.emplace(v, int(positions.size()));
      (list == &space ? made.space : made.over).push_back({terms.variable(v).name, terms.variable(v).extent});
    }
  std::vector<Term> indices;
  for (int v : terms.variables(value)) {
    indices.resize(size_t(v) + 1);
    indices[v] = terms.index(positions.at(v));
  }
  made.value = terms.import(value, indices);
  made.reducer = over.empty() ? Reducer::none : Reducer::sum;
  made.span = like.span;
  made.calls = like.calls;
  return made;
}

std::vector<Term> variables_of(Terms &terms, const Stage &stage) {
  std::vector<Term> indices;
  for (const auto *list : {&stage.space, &stage.over})
    for (const Index &index : *list)
      indices.push_back(terms.index(terms.new_variable(index.name, index.extent)));
  return indices;
}

bool is_product(const Stage &stage) {
  return stage.reducer == Reducer::sum && stage.value->op == Expr::mul && is_floating(stage.value->type) &&
         !stage.exact;
}

std::vector<Size> extents(const Terms &terms, const std::vector<int> &variables) {
  std::vector<Size> list;
  for (int v : variables)
    list.push_back(terms.variable(v).extent);
  return list;
}

} // namespace heddle::forms
