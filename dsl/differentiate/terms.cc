#include "dsl/differentiate/terms.h"

#include "dsl/check/builder.h"

#include <algorithm>
#include <bit>

namespace heddle::differentiating {

size_t Terms::Hash::operator()(Term e) const {
  size_t hash = size_t(e->op) * 31 + size_t(e->type);
  auto mix = [&](size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ull; };
  for (Term arg : e->args)
    mix(reinterpret_cast<uintptr_t>(arg) >> 4);
  mix(std::bit_cast<uint64_t>(e->number));
  mix(size_t(e->whole));
  mix(size_t(e->position));
  mix(reinterpret_cast<uintptr_t>(e->tensor) >> 4);
  mix(size_t(e->extent.constant()));
  return hash;
}

bool Terms::Same::operator()(Term a, Term b) const {
  return a->op == b->op && a->type == b->type && a->args == b->args &&
         std::bit_cast<uint64_t>(a->number) == std::bit_cast<uint64_t>(b->number) && a->whole == b->whole &&
         a->position == b->position && a->tensor == b->tensor && a->extent == b->extent &&
         a->always_inside == b->always_inside && a->rounds == b->rounds && a->stopped == b->stopped;
}

Term Terms::node(Expr e) {
  e.span = {};
  if (auto known = interned_.find(&e); known != interned_.end())
    return *known;
  nodes_.push_back(std::move(e));
  interned_.insert(&nodes_.back());
  return &nodes_.back();
}

int Terms::new_variable(const std::string &name, const Size &extent) {
  variables_.push_back({name, extent});
  return int(variables_.size()) - 1;
}

Term Terms::integer(int64_t value) {
  Expr e{};
  e.op = Expr::integer;
  e.type = Type::i32;
  e.whole = value;
  return node(std::move(e));
}

Term Terms::real(double value, Type type) {
  Expr e{};
  e.op = Expr::real;
  e.type = type;
  e.number = value;
  return node(std::move(e));
}

Term Terms::boolean(bool value) {
  Expr e{};
  e.op = Expr::boolean;
  e.type = Type::boolean;
  e.whole = value;
  return node(std::move(e));
}

Term Terms::index(int variable) {
  Expr e{};
  e.op = Expr::index;
  e.type = Type::i32;
  e.position = variable;
  return node(std::move(e));
}

Term Terms::iteration(int depth) {
  Expr e{};
  e.op = Expr::loop_index;
  e.type = Type::i32;
  e.position = depth;
  return node(std::move(e));
}

Term Terms::size(const Size &size) {
  if (size.is_constant())
    return integer(size.constant());
  Expr e{};
  e.op = Expr::size;
  e.type = Type::i32;
  e.extent = size;
  return node(std::move(e));
}

Term Terms::read(const Tensor *tensor, std::vector<Term> at, bool always_inside) {
  Expr e{};
  e.op = Expr::read;
  e.type = tensor->type;
  e.args = std::move(at);
  e.tensor = tensor;
  e.always_inside = always_inside;
  return node(std::move(e));
}

Term Terms::make(Expr::Op op, Type type, std::vector<Term> args) {
  Expr e{};
  e.op = op;
  e.type = type;
  e.args = std::move(args);
  return node(std::move(e));
}

bool is_number(Term e, double value) {
  return (e->op == Expr::real && e->number == value) || (e->op == Expr::integer && double(e->whole) == value);
}
bool is_true(Term e) { return e->op == Expr::boolean && e->whole != 0; }
bool is_false(Term e) { return e->op == Expr::boolean && e->whole == 0; }

namespace {

Expr::Op opposite(Expr::Op op) {
  switch (op) {
  case Expr::less:
    return Expr::greater_equal;
  case Expr::less_equal:
    return Expr::greater;
  case Expr::greater:
    return Expr::less_equal;
  case Expr::greater_equal:
    return Expr::less;
  case Expr::equal:
    return Expr::not_equal;
  default:
    return Expr::equal;
  }
}

/// Whether it may be taken apart: what is stopped stays one node.
bool is_open(Term e, Expr::Op op) { return e->op == op && !e->stopped; }

/// `if c then x else 0`, or with the arms the other way round.
bool is_guarded(Term e) {
  return is_open(e, Expr::select) && is_floating(e->type) && (is_zero(e->args[1]) || is_zero(e->args[2]));
}

} // namespace

Term Terms::negation(Term a) {
  if (a->op == Expr::boolean)
    return boolean(!a->whole);
  if (a->op == Expr::logical_not)
    return a->args[0];
  // Of numbers that are no numbers neither `<` nor `>=` holds.
  if (is_comparison(a->op) && a->args[0]->type == Type::i32)
    return make(opposite(a->op), Type::boolean, a->args);
  return make(Expr::logical_not, Type::boolean, {a});
}

Term Terms::both(Term a, Term b) {
  if (is_false(a) || is_true(b) || a == b)
    return a;
  if (is_false(b) || is_true(a))
    return b;
  return make(Expr::logical_and, Type::boolean, {a, b});
}

Term Terms::either(Term a, Term b) {
  if (is_true(a) || is_false(b) || a == b)
    return a;
  if (is_true(b) || is_false(a))
    return b;
  return negation(a) == b ? boolean(true) : make(Expr::logical_or, Type::boolean, {a, b});
}

std::vector<Term> Terms::conjuncts(Term e) {
  if (is_true(e))
    return {};
  if (e->op != Expr::logical_and)
    return {e};
  std::vector<Term> list = conjuncts(e->args[0]);
  for (Term one : conjuncts(e->args[1]))
    if (std::find(list.begin(), list.end(), one) == list.end())
      list.push_back(one);
  return list;
}

Term Terms::all(const std::vector<Term> &conditions) {
  Term result = boolean(true);
  std::set<Term> seen;
  for (Term one : conditions)
    if (seen.insert(one).second)
      result = both(result, one);
  return result;
}

Term Terms::select(Term condition, Term yes, Term no) {
  if (is_true(condition) || yes == no)
    return yes;
  if (is_false(condition))
    return no;
  if (is_open(no, Expr::select) && no->args[0] == condition)
    no = no->args[2];
  if (is_open(yes, Expr::select) && yes->args[0] == condition)
    yes = yes->args[1];
  if (is_zero(no) && is_open(yes, Expr::select) && is_zero(yes->args[2]))
    return select(both(condition, yes->args[0]), yes->args[1], no);
  if (condition->op == Expr::logical_not)
    return select(condition->args[0], no, yes);
  // A guard is a condition under which something is not 0.
  if (is_zero(yes) && !is_zero(no) && is_comparison(condition->op) && condition->args[0]->type == Type::i32)
    return select(negation(condition), no, yes);
  return make(Expr::select, yes->type, {condition, yes, no});
}

Term Terms::convert(Term a, Type type) {
  if (a->type == type)
    return a;
  if (a->op == Expr::real && is_floating(type))
    return real(a->number, type);
  if (is_guarded(a))
    return select(a->args[0], convert(a->args[1], type), convert(a->args[2], type));
  return make(Expr::cast, type, {a});
}

Term Terms::negate(Term a) {
  if (a->op == Expr::real)
    return real(-a->number, a->type);
  if (a->op == Expr::integer)
    return integer(-a->whole);
  if (is_open(a, Expr::negate))
    return a->args[0];
  if (is_guarded(a))
    return select(a->args[0], negate(a->args[1]), negate(a->args[2]));
  return make(Expr::negate, a->type, {a});
}

Term Terms::add(Term a, Term b) {
  if (is_zero(a))
    return b;
  if (is_zero(b))
    return a;
  if (a->op == Expr::real && b->op == Expr::real)
    return real(a->number + b->number, a->type);
  if (is_open(b, Expr::negate))
    return sub(a, b->args[0]);
  return make(Expr::add, a->type, {a, b});
}

Term Terms::sub(Term a, Term b) {
  if (is_zero(b))
    return a;
  return is_zero(a) ? negate(b) : make(Expr::sub, a->type, {a, b});
}

Term Terms::mul(Term a, Term b) {
  if (is_zero(a) || is_number(b, 1))
    return a;
  if (is_zero(b) || is_number(a, 1))
    return b;
  if (a->op == Expr::real && b->op == Expr::real)
    return real(a->number * b->number, a->type);
  if (is_floating(a->type)) {
    if (is_guarded(a))
      return select(a->args[0], mul(a->args[1], b), mul(a->args[2], b));
    if (is_guarded(b))
      return select(b->args[0], mul(a, b->args[1]), mul(a, b->args[2]));
    if (is_open(a, Expr::negate))
      return negate(mul(a->args[0], b));
    if (is_open(b, Expr::negate))
      return negate(mul(a, b->args[0]));
  }
  return make(Expr::mul, a->type, {a, b});
}

Term Terms::div(Term a, Term b) {
  if (is_zero(a) || is_number(b, 1))
    return a;
  if (is_guarded(a))
    return select(a->args[0], div(a->args[1], b), div(a->args[2], b));
  if (is_open(a, Expr::negate))
    return negate(div(a->args[0], b));
  return make(Expr::div, a->type, {a, b});
}

Term Terms::with_args(Term like, std::vector<Term> args) {
  if (args == like->args)
    return like;
  if (!like->stopped)
    switch (like->op) {
    case Expr::select:
      return select(args[0], args[1], args[2]);
    case Expr::logical_and:
      return both(args[0], args[1]);
    case Expr::logical_not:
      return negation(args[0]);
    case Expr::add:
      return is_floating(like->type) ? add(args[0], args[1]) : make(like->op, like->type, args);
    case Expr::mul:
      return is_floating(like->type) ? mul(args[0], args[1]) : make(like->op, like->type, args);
    case Expr::div:
      return div(args[0], args[1]);
    case Expr::negate:
      return is_floating(like->type) ? negate(args[0]) : make(like->op, like->type, args);
    default:
      break;
    }
  Expr e = *like;
  e.args = std::move(args);
  return node(std::move(e));
}

Term Terms::import(Term e, const std::vector<Term> &indices) {
  std::unordered_map<Term, Term> done;
  std::function<Term(Term)> go = [&](Term old) -> Term {
    if (auto known = done.find(old); known != done.end())
      return known->second;
    Term result = nullptr;
    if (old->op == Expr::index) {
      result = indices[old->position];
    } else {
      Expr copy = *old;
      for (Term &arg : copy.args)
        arg = go(arg);
      result = node(std::move(copy));
    }
    return done[old] = result;
  };
  return go(e);
}

Term Terms::rewrite(Term e, const std::function<Term(Term)> &f) {
  std::unordered_map<Term, Term> done;
  std::function<Term(Term)> go = [&](Term node) -> Term {
    if (auto known = done.find(node); known != done.end())
      return known->second;
    Term result = f(node);
    if (!result) {
      std::vector<Term> args;
      for (Term arg : node->args)
        args.push_back(go(arg));
      result = with_args(node, std::move(args));
    }
    return done[node] = result;
  };
  return go(e);
}

Term Terms::substitute(Term e, const std::map<int, Term> &to) {
  if (to.empty())
    return e;
  return rewrite(e, [&](Term node) -> Term {
    if (node->op == Expr::index) {
      auto found = to.find(node->position);
      return found == to.end() ? node : found->second;
    }
    const std::set<int> &own = variables(node);
    bool any = std::any_of(to.begin(), to.end(), [&](const auto &one) { return own.count(one.first) > 0; });
    return any ? nullptr : node;
  });
}

const std::set<int> &Terms::variables(Term e) {
  if (auto known = variables_of_.find(e); known != variables_of_.end())
    return known->second;
  std::set<int> own;
  if (e->op == Expr::index)
    own.insert(e->position);
  for (Term arg : e->args) {
    const std::set<int> &inner = variables(arg);
    own.insert(inner.begin(), inner.end());
  }
  return variables_of_[e] = std::move(own);
}

bool Terms::reads(Term e) {
  std::vector<Term> all = nodes_of(e);
  return std::any_of(all.begin(), all.end(), [](Term node) { return node->op == Expr::read; });
}

Factors factors(Term e) {
  auto append = [](std::vector<Term> &to, const std::vector<Term> &from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  if (is_open(e, Expr::negate)) {
    Factors inner = factors(e->args[0]);
    inner.negative = !inner.negative;
    return inner;
  }
  if (is_open(e, Expr::mul) || is_open(e, Expr::div)) {
    Factors a = factors(e->args[0]), b = factors(e->args[1]);
    a.negative = a.negative != b.negative;
    append(a.above, e->op == Expr::mul ? b.above : b.below);
    append(a.below, e->op == Expr::mul ? b.below : b.above);
    return a;
  }
  return {false, {e}, {}};
}

Term product(Terms &terms, const Factors &factors, Type type) {
  auto product_of = [&](const std::vector<Term> &list) {
    Term result = terms.real(1, type);
    for (Term one : list)
      result = terms.mul(result, one);
    return result;
  };
  Term result = product_of(factors.above);
  if (!factors.below.empty())
    result = terms.div(result, product_of(factors.below));
  return factors.negative ? terms.negate(result) : result;
}

} // namespace heddle::differentiating
