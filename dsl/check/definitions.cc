// What an index ranges over (rule 3), and the stages that definitions and reductions become.
#include "dsl/check/elaborate.h"
#include "dsl/check/exact.h"
#include "dsl/check/mentions.h"

#include <algorithm>
#include <utility>

namespace heddle::checking {

using syntax::Place;

// --- ranges

namespace {

bool uses_name(const syntax::Expr &e, const std::string &name) {
  if (e.kind == syntax::Expr::name && e.text == name)
    return true;
  for (const auto &arg : e.args)
    if (uses_name(*arg, name))
      return true;
  for (const auto &place : e.places)
    if ((place.kind == Place::pack && place.name.text == name) || (place.expr && uses_name(*place.expr, name)) ||
        (place.upper && uses_name(*place.upper, name)))
      return true;
    else
      for (const auto &piece : place.pieces)
        if (uses_name(*piece.expr, name))
          return true;
  return (e.callee && uses_name(*e.callee, name)) || (e.outside && uses_name(*e.outside, name));
}

} // namespace

namespace {

bool is_bare(const Place &place, const std::string &name, bool pack) {
  return pack ? place.kind == Place::pack && place.name.text == name
              : place.kind == Place::value && place.expr->kind == syntax::Expr::name && place.expr->text == name;
}

/// The first access in `e` of which one subscript is just `name`.
const syntax::Expr *bare_access(const syntax::Expr &e, const std::string &name) {
  for (const Place &place : e.places)
    if (e.kind == syntax::Expr::access && is_bare(place, name, false))
      return &e;
  const syntax::Expr *found = nullptr;
  auto look = [&](const syntax::ExprPtr &part) { found = found || !part ? found : bare_access(*part, name); };
  look(e.callee);
  for (const auto &arg : e.args)
    look(arg);
  for (const Place &place : e.places)
    look(place.expr);
  look(e.outside);
  return found;
}

} // namespace

std::optional<std::vector<Extent>> Elaborator::shape_of(const Tree &e, Frame &frame) {
  if (auto known = frame.evaluated.find(&e); known != frame.evaluated.end())
    return known->second.tensor_like() ? std::optional(known->second.extents()) : std::nullopt;
  switch (e.kind) {
  case Tree::name: {
    auto found = find(e.text, frame);
    return found && found->tensor_like() ? std::optional(found->extents()) : std::nullopt;
  }
  case Tree::call:
  case Tree::field:
  case Tree::access: {
    if (e.kind == Tree::access) {
      auto base = shape_of(*e.callee, frame);
      if (base) { // a slice: what its constants leave
        std::vector<Extent> left;
        for (size_t i = 0; i < base->size(); ++i)
          if (i >= e.places.size() || e.places[i].kind == Place::all)
            left.push_back((*base)[i]);
        return left;
      }
    }
    for (const auto &[index, variable] : frame.indices)
      if (uses_name(e, index))
        return std::nullopt;
    bool outer = frame.per_element;
    frame.per_element = false;
    Entity value = eval(e, frame);
    frame.per_element = outer;
    if (value.kind == Entity::lazy) {
      std::vector<Extent> shape = value.extents();
      value = entity(materialise(value, frame.path + "value", e.span), shape);
    }
    if (e.kind == Tree::call || value.kind == Entity::error)
      frame.evaluated[&e] = value;
    return value.tensor_like() ? std::optional(value.extents()) : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

void Elaborator::bare_uses(const Tree &e, const std::string &name, bool pack, Frame &frame, std::vector<Use> &out) {
  if (e.kind == Tree::condition && uses_name(*e.args[0], name)) { // a guarded use says nothing about the range
    for (size_t arm : {1, 2})
      if (!guarded_ && !pack)
        guarded_ = bare_access(*e.args[arm], name);
    return bare_uses(*e.args[0], name, pack, frame, out);
  }
  if (e.kind == Tree::condition) { // the arm that a config excludes may name what isn't there
    bool constant = true;
    mentions(*e.args[0], [&](const std::string &mentioned, Span) {
      auto found = find(mentioned, frame);
      constant &=
          found && (found->kind == Entity::scalar || found->kind == Entity::text || found->kind == Entity::list);
    });
    if (const Expr *test = constant ? condition(*e.args[0], frame) : nullptr)
      if (auto known = truth(test))
        return bare_uses(*e.args[*known ? 1 : 2], name, pack, frame, out);
  }
  if (e.kind == Tree::reduce)
    for (const Place &place : e.places) { // another index of that name
      bool same = place.name.text == name;
      for (const Place &piece : place.pieces)
        same |= piece.name.text == name;
      if (same) {
        reused_ = place.span;
        return;
      }
    }
  if (e.kind == Tree::access) {
    bool bare = false;
    for (const Place &place : e.places)
      bare |= is_bare(place, name, pack);
    if (bare) {
      auto shape = shape_of(*e.callee, frame);
      if (!shape) {
        bool outer = std::exchange(frame.per_element, false);
        Entity base = eval(*e.callee, frame); // says what is wrong with it
        frame.per_element = outer;
        if (base.kind != Entity::list && base.kind != Entity::array) {
          if (base.kind != Entity::error && !base.tensor_like())
            refuse_subscripts(base, *e.callee, frame);
          out.push_back({{}, {}});
        }
      } else {
        size_t axis = 0, packed = shape->size() + 1 - std::min(e.places.size(), shape->size() + 1);
        for (const Place &place : e.places) {
          size_t width = place.kind == Place::pack ? packed : 1;
          if (is_bare(place, name, pack) && axis + width <= shape->size())
            out.push_back({{shape->begin() + axis, shape->begin() + axis + width}, place.span});
          axis += width;
        }
      }
    }
  }
  for (const auto &arg : e.args)
    bare_uses(*arg, name, pack, frame, out);
  for (const Place &place : e.places)
    if (place.expr)
      bare_uses(*place.expr, name, pack, frame, out);
  if (e.callee)
    bare_uses(*e.callee, name, pack, frame, out);
  if (e.outside)
    bare_uses(*e.outside, name, pack, frame, out);
}

/// E023; where an `if` tests the index beside a bare use of it: that this is no range, and which it might be.
void Elaborator::report_no_range(const syntax::Name &name, Frame &frame) {
  if (!guarded_) {
    report(Code::E023, name.span,
           {name.text, "",
            "no subscript is just `" + name.text + "`: write `" + name.text + " in N` where it is introduced"});
    return;
  }
  const Tree &tensor = *guarded_->callee;
  std::string help = "such a use does not say how far `" + name.text + "` runs: write `" + name.text + " in …`";
  auto known = tensor.kind == Tree::name ? find(tensor.text, frame) : std::nullopt;
  size_t axis = 0;
  while (!is_bare(guarded_->places[axis], name.text, false))
    ++axis;
  bool packs = std::any_of(guarded_->places.begin(), guarded_->places.end(),
                           [](const Place &place) { return place.kind == Place::pack; });
  if (known && known->tensor_like() && !packs && axis < known->extents().size()) {
    const Extent &extent = known->extents()[axis];
    help = "write `" + name.text + " in " + (extent.name.empty() ? text(extent.size) : extent.name) +
           "` if it runs over all of `" + tensor.text + "`, else what it runs over";
  }
  report(Code::E023, name.span,
         {name.text, ": `" + text(guarded_->span) + "` stands in an `if` that tests `" + name.text + "`", help});
}

std::optional<std::vector<Extent>> Elaborator::inferred(const syntax::Name &name, bool pack,
                                                        const std::vector<const Tree *> &uses, Frame &frame) {
  std::vector<Use> found;
  reused_ = {};
  guarded_ = nullptr;
  for (const Tree *use : uses)
    bare_uses(*use, name.text, pack, frame, found);
  const Use *first = nullptr;
  for (const Use &use : found) {
    if (!use.span.valid())
      return std::nullopt;
    if (!first) {
      first = &use;
      continue;
    }
    bool equal = use.extents.size() == first->extents.size();
    for (size_t i = 0; equal && i < use.extents.size(); ++i)
      equal = use.extents[i].size == first->extents[i].size;
    if (!equal) {
      auto words = [&](const Use &u) { return pack ? text(u.extents) : text(u.extents[0]); };
      auto at = sources_.position(first->span.file, first->span.begin);
      auto range = [&](const Use &u) {
        const Extent &extent = u.extents[0];
        return "`" + name.text + " in " + (extent.name.empty() ? text(extent.size) : extent.name) + "`";
      };
      std::string help = pack ? "read both with one shape" : "say which, " + range(*first) + " or " + range(use);
      Diagnostic &d = report(Code::E024, use.span, {name.text, words(*first), words(use), help});
      d.label = words(use) + " here, " + words(*first) + " in line " + std::to_string(at.line) + ", column " +
                std::to_string(at.column);
      return std::nullopt;
    }
  }
  if (!first) {
    if (reused_.valid())
      report(Code::E054, reused_, {name.text});
    else
      report_no_range(name, frame);
    return std::nullopt;
  }
  return first->extents;
}

// --- indices

int Elaborator::new_variable(const std::string &name, const Extent &extent) {
  variables_.push_back({name, extent.size, extent.name, 0, {}, -1});
  return variables_.size() - 1;
}

std::optional<Elaborator::Binder> Elaborator::bind_index(const syntax::Name &name, bool pack,
                                                         const std::vector<Extent> &extents, Frame &frame) {
  if (frame.indices.count(name.text) || frame.index_packs.count(name.text)) {
    report(Code::E054, name.span, {name.text});
    return std::nullopt;
  }
  Binder binder{name.text, pack, {}};
  for (size_t i = 0; i < extents.size(); ++i)
    binder.variables.push_back(new_variable(pack ? name.text + std::to_string(i) : name.text, extents[i]));
  if (pack)
    frame.index_packs[name.text] = binder.variables;
  else
    note(name.span, entity(build_.index(frame.indices[name.text] = binder.variables[0])));
  return binder;
}

std::optional<Extent> Elaborator::range_of(const syntax::Place &place, Frame &frame) {
  if (place.pieces.empty())
    return extent(*place.expr, frame);
  Extent all{Size(1), ""};
  for (const Place &piece : place.pieces) {
    auto own = extent(*piece.expr, frame);
    if (!own)
      return std::nullopt;
    const Expr *product = build_.apply(Expr::mul, Type::i32, {build_.of_size(all.size), build_.of_size(own->size)}, {});
    auto size = product ? as_size(product) : std::nullopt;
    if (!size) {
      report(Code::E048, piece.span, {"this whole number does not fit 32 bits", "merge fewer or smaller ranges"});
      return std::nullopt;
    }
    all.size = *size;
  }
  return all;
}

bool Elaborator::bind_pieces(const Place &place, Binder &binder, Frame &frame) {
  for (const Place &piece : place.pieces) {
    auto own = extent(*piece.expr, frame);
    auto bound = own ? bind_index(piece.name, false, {*own}, frame) : std::nullopt;
    if (!bound)
      return false;
    variables_[bound->variables[0]].merged = binder.variables[0];
    variables_[binder.variables[0]].pieces.push_back(bound->variables[0]);
    binder.pieces.push_back(piece.name.text);
  }
  return true;
}

void Elaborator::release(const Binder &binder, Frame &frame) {
  for (const std::string &piece : binder.pieces)
    frame.indices.erase(piece);
  frame.indices.erase(binder.name);
  frame.firsts.erase(binder.name);
  frame.index_packs.erase(binder.name);
}

// --- stages

std::string Elaborator::unique_name(const std::string &name) {
  std::string unique = name;
  for (int i = 2; !tensor_names_.insert(unique).second; ++i)
    unique = name + "#" + std::to_string(i);
  return unique;
}

const Tensor *Elaborator::new_tensor(Tensor::Kind kind, const std::string &name, Type type, std::vector<Size> shape,
                                     Span span) {
  program_->tensors.push_back({kind, unique_name(name), type, std::move(shape), span});
  return &program_->tensors.back();
}

std::set<int> Elaborator::variables_of(const Expr *e) {
  std::set<int> found;
  std::set<const Expr *> seen;
  std::vector<const Expr *> todo{e};
  while (!todo.empty()) {
    const Expr *next = todo.back();
    todo.pop_back();
    if (!seen.insert(next).second)
      continue;
    if (next->op == Expr::index)
      found.insert(next->position);
    todo.insert(todo.end(), next->args.begin(), next->args.end());
  }
  return found;
}

std::set<int> Elaborator::indices_of(const Expr *e) {
  std::set<int> found = variables_of(e);
  for (int v : std::set<int>(found))
    if (int whole = variables_[v].merged; whole >= 0 && found.count(whole))
      found.erase(v);
  return found;
}

const Expr *Elaborator::without_pieces(const Expr *e, const std::vector<int> &indices) {
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

const Expr *Elaborator::rewrite(const Expr *e, const std::map<int, const Expr *> &variables) {
  std::map<const Expr *, const Expr *> done;
  std::function<const Expr *(const Expr *)> go = [&](const Expr *node) -> const Expr * {
    if (auto known = done.find(node); known != done.end())
      return known->second;
    const Expr *result = node;
    if (node->op == Expr::index) {
      if (auto to = variables.find(node->position); to != variables.end())
        result = to->second;
    } else {
      std::vector<const Expr *> args;
      for (const Expr *arg : node->args)
        args.push_back(go(arg));
      if (args != node->args)
        result = build_.with_args(node, std::move(args));
    }
    return done[node] = result;
  };
  return go(e);
}

const Expr *Elaborator::finished(const Expr *e, const std::map<int, int> &positions,
                                 std::map<const Expr *, const Expr *> &done) {
  if (auto known = done.find(e); known != done.end())
    return known->second;
  Expr copy = *e;
  if (e->op == Expr::index)
    copy.position = positions.at(e->position);
  for (const Expr *&arg : copy.args)
    arg = finished(arg, positions, done);
  program_->exprs.push_back(std::move(copy));
  return done[e] = &program_->exprs.back();
}

const Tensor *Elaborator::reduction(const std::string &name, const std::vector<int> &variables, Reducer reducer,
                                    const std::vector<int> &over, const Expr *value, Span span) {
  if (!steps_) { // among the declarations, where nothing is computed
    report(Code::E041, span, {text(span)});
    return nullptr;
  }
  Stage stage{};
  if (variables.empty() && over.empty() && is_whole(*value)) {
    stage.exact = true;
    keep_exact(value, name.substr(0, name.rfind('.') + 1), span);
  }
  stage.exact |= reducer == Reducer::all && variables.empty(); // what `learn` learns from
  std::vector<Size> shape;
  std::map<int, int> positions;
  for (int v : variables) {
    positions[v] = stage.space.size();
    stage.space.push_back({variables_[v].name, variables_[v].extent});
    shape.push_back(variables_[v].extent);
  }
  for (int v : over) {
    positions[v] = stage.space.size() + stage.over.size();
    stage.over.push_back({variables_[v].name, variables_[v].extent});
  }
  std::map<const Expr *, const Expr *> done;
  std::vector<int> indices = variables;
  indices.insert(indices.end(), over.begin(), over.end());
  stage.value = finished(without_pieces(value, indices), positions, done);
  stage.reducer = reducer;
  stage.span = span;
  stage.calls = calls_;
  bool position = reducer == Reducer::argmax || reducer == Reducer::argmin;
  const Tensor *result = new_tensor(Tensor::stage, name, position ? Type::i32 : value->type, std::move(shape), span);
  stage.result = result;
  for (int v : variables)
    extent_names_[result].push_back(variables_[v].extent_name);
  steps_->push_back({stage});
  last_reduction_ = reducer == Reducer::none ? nullptr : result;
  return result;
}

const Tensor *Elaborator::stage(const std::string &name, const std::vector<int> &variables, const Expr *value,
                                Span span) {
  for (int v : variables_of(without_pieces(value, variables)))
    if (std::find(variables.begin(), variables.end(), v) == variables.end()) {
      report(Code::E063, span, {variables_[v].name});
      return nullptr;
    }
  // `y[b, o] = sum[i](…)` needs no second stage: the reduction takes the name and the order of the indices.
  if (value->op == Expr::read && value->tensor == last_reduction_ && value->args.size() == variables.size() && steps_ &&
      !steps_->empty() && std::holds_alternative<Stage>(steps_->back().what)) {
    Stage &last = std::get<Stage>(steps_->back().what);
    std::vector<int> axis_of; // of the reduction, per variable
    for (int v : variables)
      for (size_t i = 0; i < value->args.size(); ++i)
        if (value->args[i]->op == Expr::index && value->args[i]->position == v)
          axis_of.push_back(i);
    bool in_order = axis_of.size() == variables.size();
    for (size_t i = 0; i < axis_of.size(); ++i)
      in_order &= axis_of[i] == static_cast<int>(i);
    if (last.result == last_reduction_ && in_order) {
      Tensor &tensor = const_cast<Tensor &>(*last_reduction_); // the program's own, and not yet seen by anyone
      tensor_names_.erase(tensor.name);
      tensor.name = unique_name(name);
      tensor.span = span;
      last.span = span;
      last_reduction_ = nullptr;
      return &tensor;
    }
  }
  const Tensor *result = reduction(name, variables, Reducer::none, {}, value, span);
  if (auto bounded = bounded_.find(value); result && bounded != bounded_.end())
    below_[result] = {bounded->second};
  if (result && !below_.count(result))
    if (auto bound = bound_of(value))
      below_[result] = *bound;
  return result;
}

std::optional<Prover::Bound> Elaborator::bound_of(const Expr *value) {
  if (!is_integer(value->type) || (may_wrap(value) && !(variables_of(value).empty() && is_whole(*value))))
    return std::nullopt;
  if (auto number = whole_constant(value); number && *number >= 0)
    return Prover::Bound{Size(*number + 1)};
  std::set<const Expr *> seen;
  std::vector<const Expr *> todo{value};
  while (!todo.empty()) {
    const Expr *next = todo.back();
    todo.pop_back();
    if (!seen.insert(next).second)
      continue;
    auto bounded = bounded_.find(next);
    auto below = next->op == Expr::read ? below_.find(next->tensor) : below_.end();
    if (bounded != bounded_.end() || below != below_.end()) {
      Prover::Bound bound = below != below_.end() ? below->second : Prover::Bound{bounded->second};
      if (next == value || stays_below(value, bound))
        return bound;
    }
    if (next->op != Expr::read) // what it is looked up by says nothing of it
      todo.insert(todo.end(), next->args.begin(), next->args.end());
  }
  return std::nullopt;
}

bool Elaborator::proven_for(const Prover::Bound &bound, const Expr *e) {
  std::vector<Fact> facts = facts_;
  if (bound.if_any) {
    const Expr *some = build_.apply(Expr::less, Type::boolean, {build_.integer(0), build_.of_size(bound.below)}, {});
    facts.push_back({some, true});
  }
  return e && prover_.nonnegative(e, always_, facts).kind == Prover::Outcome::proven;
}

bool Elaborator::within(const Prover::Bound &inner, const Prover::Bound &outer) {
  return proven_for(outer, build_.of_size(outer.below - inner.below)) &&
         proven_for(outer, build_.of_size(inner.below - Size(inner.if_any)));
}

bool Elaborator::stays_below(const Expr *value, const Prover::Bound &bound) {
  const Expr *last = build_.of_size(bound.below - Size(1));
  return proven_for(bound, value) &&
         proven_for(bound, build_.apply(Expr::sub, Type::i32, {last, build_.convert(value, Type::i32)}, {}));
}

std::vector<Extent> Elaborator::shape_of(const Tensor *tensor) const {
  std::vector<Extent> shape;
  auto names = extent_names_.find(tensor);
  for (size_t i = 0; i < tensor->shape.size(); ++i)
    shape.push_back(
        {tensor->shape[i], names != extent_names_.end() && i < names->second.size() ? names->second[i] : ""});
  return shape;
}

const Tensor *Elaborator::materialise(const Entity &e, const std::string &name, Span span) {
  if (e.kind == Entity::tensor)
    return e.read;
  if (e.kind == Entity::lazy)
    return stage(name, e.formula->variables, e.formula->value, span);
  return e.kind == Entity::scalar ? stage(name, {}, e.value, span) : nullptr;
}

} // namespace heddle::checking
