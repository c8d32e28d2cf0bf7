#include "dsl/forms/taps.h"

#include <algorithm>

namespace heddle::forms {

using namespace heddle::differentiating;

namespace {

constexpr int64_t most_taps = 4; // 9 of them took a quarter longer than as a row reduction

/// The positions of the indices that an expression depends on.
std::set<int> positions_of(const Expr *e) {
  std::set<int> out;
  for (const Expr *node : nodes_of(e))
    if (node->op == Expr::index)
      out.insert(node->position);
  return out;
}

/// The indices of the result among them.
std::set<int> of_result(const Expr *e, const Stage &stage) {
  std::set<int> out = positions_of(e);
  out.erase(out.lower_bound(int(stage.space.size())), out.end());
  return out;
}

/// Whether a subscript is that index and something more.
bool goes_along(const Expr *at, int position) {
  if (at->op == Expr::add || at->op == Expr::sub)
    return std::any_of(at->args.begin(), at->args.end(), [&](const Expr *arg) { return goes_along(arg, position); });
  return at->op == Expr::index && at->position == position;
}

/// x[b, t + u, c]: the result's last index stands last, another one moves with the sum's. Of the sum of nothing but
/// that read it may be the last one, x[b, t + u].
bool is_window(const Expr *read, const Stage &stage) {
  int last = int(stage.space.size()) - 1;
  const Expr *term = stage.value;
  while (term->op == Expr::select)
    term = term->args[1];
  if (read->op != Expr::read || read->args.empty() || !goes_along(read->args.back(), last) ||
      (read != term && read->args.back()->op != Expr::index))
    return false;
  return std::any_of(read->args.begin(), read->args.end(), [&](const Expr *at) {
    std::set<int> all = positions_of(at), own = of_result(at, stage);
    return !own.empty() && own.size() < all.size();
  });
}

} // namespace

std::optional<Stage> with_taps_written_out(Terms &terms, const Stage &stage) {
  if (stage.reducer != Reducer::sum || !is_floating(stage.value->type) || stage.exact || stage.space.empty())
    return std::nullopt;
  int64_t taps = 1;
  for (const Index &index : stage.over) {
    if (!index.extent.is_constant() || index.extent.constant() < 1 || index.extent.constant() > most_taps)
      return std::nullopt;
    taps *= index.extent.constant();
  }
  bool has_window = false;
  std::vector<std::set<int>> used;
  for (const Expr *node : nodes_of(stage.value)) {
    has_window |= is_window(node, stage);
    if (node->op == Expr::read)
      used.push_back(of_result(node, stage));
  }
  auto includes = [](const std::set<int> &a, const std::set<int> &b) {
    return std::includes(a.begin(), a.end(), b.begin(), b.end());
  };
  for (const std::set<int> &a : used)
    for (const std::set<int> &b : used)
      if (!includes(a, b) && !includes(b, a)) // a product of matrices
        return std::nullopt;
  if (!has_window || taps > most_taps)
    return std::nullopt;
  std::vector<Term> indices;
  for (size_t i = 0; i < stage.space.size(); ++i)
    indices.push_back(terms.index(int(i)));
  Term sum = nullptr;
  for (int64_t tap = 0; tap < taps; ++tap) {
    std::vector<Term> at = indices;
    int64_t within = taps, rest = tap;
    for (const Index &index : stage.over) {
      within /= index.extent.constant();
      at.push_back(terms.integer(rest / within));
      rest %= within;
    }
    Term term = terms.import(stage.value, at);
    sum = sum ? terms.make(Expr::add, term->type, {sum, term}) : term;
  }
  Stage made = stage;
  made.reducer = Reducer::none;
  made.over.clear();
  made.value = sum;
  return made;
}

} // namespace heddle::forms
