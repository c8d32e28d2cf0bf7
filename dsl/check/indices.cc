#include "dsl/check/indices.h"

#include <algorithm>

namespace heddle::checking {

int Indices::new_variable(const std::string &name, const Extent &extent) {
  variables_.push_back({name, extent.size, extent.name, 0, {}, -1});
  return variables_.size() - 1;
}

int Indices::enter_loop(const std::string &name, const Size &extent) {
  loops_.push_back({loop_count_++, name, extent});
  return loops_.size() - 1;
}

std::set<int> variables_of(const Expr *e) {
  std::set<int> found;
  for (const Expr *node : nodes_of(e))
    if (node->op == Expr::index)
      found.insert(node->position);
  return found;
}

std::set<int> Indices::indices_of(const Expr *e) const {
  std::set<int> found = variables_of(e);
  for (int v : std::set<int>(found))
    if (int whole = variables_[v].merged; whole >= 0 && found.count(whole))
      found.erase(v);
  return found;
}

const Expr *Indices::without_pieces(const Expr *e, const std::vector<int> &indices) {
  std::map<int, const Expr *> as;
  for (int v : indices) {
    Size inner(1); // the product of the extents of the pieces that are counted faster
    const std::vector<int> &pieces = variables_[v].pieces;
    for (size_t i = pieces.size(); i-- > 0;) {
      const Expr *piece = build_.apply(Expr::floor_div, Type::i32, {build_.index(v), build_.of_size(inner)}, {});
      if (i > 0)
        piece = build_.apply(Expr::mod, Type::i32, {piece, build_.of_size(variables_[pieces[i]].extent)}, {});
      if (std::find(indices.begin(), indices.end(), pieces[i]) == indices.end())
        as[pieces[i]] = piece ? piece : build_.integer(0); // of a constant extent 0 nothing is computed
      inner = inner * variables_[pieces[i]].extent;
    }
  }
  return as.empty() ? e : rewrite(e, as);
}

const Expr *Indices::rewrite(const Expr *e, const std::map<int, const Expr *> &variables) {
  return build_.rewritten(e, [&](const Expr *node, const Expr *) -> const Expr * {
    auto to = node->op == Expr::index ? variables.find(node->position) : variables.end();
    return to == variables.end() ? nullptr : to->second;
  });
}

} // namespace heddle::checking
