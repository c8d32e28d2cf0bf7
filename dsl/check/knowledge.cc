#include "dsl/check/knowledge.h"

#include "dsl/check/exact.h"

#include <algorithm>
#include <cctype>

namespace heddle::checking {

Knowledge::Knowledge(const Program &program, Builder &build, Indices &indices, const Messages &messages)
    : program_(program), build_(build), indices_(indices), messages_(messages),
      prover_(
          program, indices.all(), indices.loops(), [this](const Tensor *tensor) { return bound_of(tensor); },
          [this](const Expr *e) { return e->span.valid() ? messages_.text(e->span) : e->tensor->name; },
          [this](const Expr *read) { return conditions_on(read); }) {}

void Knowledge::begin_entry() {
  always_.clear();
  forget_conditions(0, {});
  facts_.clear();
  bounded_.clear(); // each entry asks for the indices that it computes
}

void Knowledge::forget_since(const Mark &mark) {
  always_.erase(always_.begin() + mark.required, always_.end());
  bounded_ = mark.bounded;
  forget_conditions(mark.learned, mark.every);
}

void Knowledge::forget_conditions(size_t learned, const std::map<const Tensor *, std::vector<ForAll>> &every) {
  if (learned == learned_)
    return;
  learned_ = learned;
  every_ = every;
  prover_.conditions_change();
}

// --- bounds

std::optional<Prover::Bound> Knowledge::bound_of(const Tensor *tensor) const {
  auto found = below_.find(tensor);
  return found == below_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Prover::Bound> Knowledge::bound_of(const Expr *value, bool single) {
  bool exact = single && is_whole(*value); // the entry computes it with 64 bits
  if (!is_integer(value->type) || (!exact && may_wrap(value)))
    return std::nullopt;
  if (auto number = whole_constant(value); number && *number >= 0)
    return Prover::Bound{Size(*number + 1)};
  std::vector<const Expr *> nodes =
      nodes_of(value, /*inside_reads=*/false); // what it is looked up by says nothing of it
  for (size_t i = nodes.size(); i-- > 0;) {
    const Expr *node = nodes[i];
    auto bounded = bounded_.find(node);
    auto below = node->op == Expr::read ? below_.find(node->tensor) : below_.end();
    if (bounded != bounded_.end() || below != below_.end()) {
      Prover::Bound bound = below != below_.end() ? below->second : Prover::Bound{bounded->second};
      if (node == value || stays_below(value, bound, exact, {}))
        return bound;
    }
  }
  return std::nullopt;
}

void Knowledge::bound_result(const Tensor *result, const Expr *value) {
  if (auto bounded = bounded_.find(value); bounded != bounded_.end())
    below_[result] = {bounded->second};
  if (!below_.count(result))
    if (auto bound = bound_of(value, result->shape.empty()))
      below_[result] = *bound;
}

bool Knowledge::proven_for(const Prover::Bound &bound, const Expr *e, std::vector<Fact> facts) {
  if (bound.if_any) {
    const Expr *some = build_.apply(Expr::less, Type::boolean, {build_.integer(0), build_.of_size(bound.below)}, {});
    facts.push_back({some, true});
  }
  return e && prover_.nonnegative(e, always_, facts).kind == Prover::Outcome::proven;
}

bool Knowledge::within(const Prover::Bound &inner, const Prover::Bound &outer) {
  return proven_for(outer, build_.of_size(outer.below - inner.below), {}) &&
         proven_for(outer, build_.of_size(inner.below - Size(inner.if_any)), {});
}

bool Knowledge::proven_below(const Expr *value, const Prover::Bound &bound, const std::vector<Fact> &facts) {
  int arms = 1024; // a choice whose arms share another one has twice as many with each more
  return proven_below(value, bound, facts, arms);
}

bool Knowledge::proven_below(const Expr *value, const Prover::Bound &bound, const std::vector<Fact> &facts, int &arms) {
  if (--arms < 0)
    return false;
  if (value->op == Expr::select) { // arm by arm: the cases of a chain of them, seen as one, are too many for a proof
    auto arm = [&](int number, bool holds) {
      std::vector<Fact> within = facts;
      within.push_back({value->args[0], holds});
      return proven_below(value->args[number], bound, within, arms);
    };
    return arm(1, true) && arm(2, false);
  }
  const Expr *last = build_.of_size(bound.below - Size(1));
  return proven_for(bound, value, facts) &&
         proven_for(bound, build_.apply(Expr::sub, Type::i32, {last, build_.convert(value, Type::i32)}, {}), facts);
}

bool Knowledge::stays_below(const Expr *value, const Prover::Bound &bound, bool exact, std::vector<Fact> facts) {
  if (exact)
    return proven_below(value, bound, facts);
  std::erase_if(facts, [&](const Fact &fact) { return may_wrap(fact.condition); });
  if (may_wrap(value) || !proven_below(value, bound, facts))
    return false;
  rely_on(value);
  for (const Fact &fact : facts)
    rely_on(fact.condition);
  return true;
}

// --- conditions on all elements

namespace {

/// The reads in `e` of whole tensors: at indices alone, each of `over` once.
std::set<const Expr *> elements_in(const Expr *e, const std::set<int> &over) {
  std::set<const Expr *> found;
  for (const Expr *node : nodes_of(e)) {
    std::set<int> own;
    for (const Expr *arg : node->args)
      if (node->op == Expr::read && arg->op == Expr::index && over.count(arg->position))
        own.insert(arg->position);
    if (!own.empty() && own.size() == node->args.size() && own.size() == over.size())
      found.insert(node);
  }
  return found;
}

} // namespace

const ForAll *Knowledge::all_of(const Tensor *tensor) const {
  auto all = alls_.find(tensor);
  return all == alls_.end() || !all->second.space.empty() ? nullptr : &all->second;
}

void Knowledge::learn(const ForAll &all) {
  for (const Expr *read : elements_in(all.condition, {all.over.begin(), all.over.end()})) {
    // States and weights outlive this entry, in which alone the requirement is tested.
    if (read->tensor->kind == Tensor::state || read->tensor->kind == Tensor::weight)
      continue;
    ForAll every{{}, {}, all.condition};
    bool whole = true; // every element is tested
    for (const Expr *arg : read->args) {
      whole &= indices_[arg->position].extent == read->tensor->shape[every.space.size()];
      every.space.push_back(arg->position);
    }
    if (!whole)
      continue;
    every_[read->tensor].push_back(every);
    ++learned_;
    prover_.conditions_change();
  }
}

const Expr *Knowledge::perhaps_outside(const Expr *condition) {
  return build_.rewritten(condition, [&](const Expr *, const Expr *now) -> const Expr * {
    bool has_place = now->op == Expr::read && !now->args.empty();
    return has_place ? build_.read(now->tensor, now->args, /*always_inside=*/false, now->span) : nullptr;
  });
}

std::vector<const Expr *> Knowledge::conditions_on(const Expr *read) {
  std::vector<const Expr *> known;
  auto found = every_.find(read->tensor);
  if (found == every_.end())
    return known;
  for (const ForAll &every : found->second) {
    std::map<int, const Expr *> at;
    std::set<int> unknown; // pieces of merged indices
    for (size_t i = 0; i < every.space.size(); ++i) {
      at[every.space[i]] = read->args[i];
      const std::vector<int> &pieces = indices_[every.space[i]].pieces;
      std::optional<int64_t> stride = 1; // between two values of a piece
      for (size_t k = pieces.size(); k-- > 0;) {
        const Size &extent = indices_[pieces[k]].extent;
        bool fixed = extent.is_constant() && extent.constant() > 0;
        if (stride && (k == 0 || fixed)) {
          const Expr *piece = build_.apply(Expr::floor_div, Type::i32, {read->args[i], build_.integer(*stride)}, {});
          at[pieces[k]] = k == 0 ? piece : build_.apply(Expr::mod, Type::i32, {piece, build_.of_size(extent)}, {});
        } else {
          unknown.insert(pieces[k]);
        }
        stride = stride && fixed && *stride * extent.constant() <= INT32_MAX
                     ? std::optional(*stride * extent.constant())
                     : std::nullopt;
      }
    }
    if (std::none_of(unknown.begin(), unknown.end(),
                     [&](int piece) { return variables_of(every.condition).count(piece) > 0; }))
      known.push_back(read->always_inside ? indices_.rewrite(every.condition, at)
                                          : perhaps_outside(indices_.rewrite(every.condition, at)));
  }
  return known;
}

// --- counterexamples

std::string Knowledge::when(const Prover::Outcome &outcome) {
  std::string out;
  for (const auto &[who, value] : outcome.example)
    out += (out.empty() ? " (when " : ", ") + who + " = " + std::to_string(value);
  return out + (out.empty() ? "" : ")");
}

Miss Knowledge::miss(const Extent &extent, const Prover::Outcome &outcome, bool below) const {
  Miss out;
  bool simple =
      std::all_of(extent.name.begin(), extent.name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  std::string own = messages_.text(extent.size);
  out.end = extent.name.empty() || !simple ? own : extent.name;
  out.when = when(outcome);
  int64_t row = outcome.value;
  if (!below) { // the goal was last - row; the sizes of the example give last
    std::vector<int64_t> dims(program_.dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      for (const auto &[who, value] : outcome.example)
        if (who == program_.dims[d].name)
          dims[d] = value;
    row = extent.size.evaluate(dims) - 1 - outcome.value;
  }
  out.row = std::to_string(row);
  std::string last =
      extent.size.is_constant() && out.end == own ? messages_.text(extent.size - Size(1)) : out.end + " - 1";
  out.rows = extent.size.is_constant() && extent.size.constant() == 0 ? "it has no rows" : "its rows are 0 to " + last;
  if (out.end != own)
    out.rows += " (" + out.end + " = " + own + ")";
  return out;
}

void Knowledge::label_range(Diagnostic &d, const Expr *at, const std::vector<Fact> &facts) {
  auto range = prover_.range(at, facts);
  if (!range)
    return;
  bool one = range->first == range->second;
  std::string where = d.label.empty() ? "" : "; " + d.label;
  d.label = (one ? "is " + range->first : "goes from " + range->first + " to " + range->second) + where;
}

} // namespace heddle::checking
