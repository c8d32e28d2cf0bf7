// A use of an index is bare where a subscript is just its name, and not in an arm of an `if` that tests it: then the
// index ranges over that dimension (rule 3 of docs/language.md).
#include "dsl/check/ranges.h"
#include "dsl/check/expressions.h"
#include "dsl/check/mentioned_names.h"
#include "dsl/check/subscripts.h"

#include <algorithm>
#include <utility>

namespace heddle::checking {

using syntax::Place;

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

std::optional<std::vector<Extent>> Ranges::shape_of(const Tree &e, Frame &frame) {
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
    Entity value = expressions_.eval(e, frame);
    frame.per_element = outer;
    if (value.kind == Entity::lazy) {
      std::vector<Extent> shape = value.extents();
      value = entity(steps_.materialise(value, frame.path + "value", e.span), shape);
    }
    if (e.kind == Tree::call || value.kind == Entity::error)
      frame.evaluated[&e] = value;
    return value.tensor_like() ? std::optional(value.extents()) : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

void Ranges::bare_uses(const Tree &e, const std::string &name, bool pack, Frame &frame, std::vector<Use> &out) {
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
    if (const Expr *test = constant ? expressions_.condition(*e.args[0], frame) : nullptr)
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
        Entity base = expressions_.eval(*e.callee, frame); // says what is wrong with it
        frame.per_element = outer;
        if (base.kind != Entity::list && base.kind != Entity::array) {
          if (base.kind == Entity::family)
            report(Code::E085, e.span, {text(e.callee->span), "`" + name + "` is none of them"});
          else if (base.kind != Entity::error && !base.tensor_like())
            subscripts_.refuse_subscripts(base, *e.callee, frame);
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
void Ranges::report_no_range(const syntax::Name &name, Frame &frame) {
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

std::optional<std::vector<Extent>> Ranges::inferred(const syntax::Name &name, bool pack,
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

std::optional<Binder> Ranges::bind_index(const syntax::Name &name, bool pack, const std::vector<Extent> &extents,
                                         Frame &frame) {
  if (frame.indices.count(name.text) || frame.index_packs.count(name.text)) {
    report(Code::E054, name.span, {name.text});
    return std::nullopt;
  }
  Binder binder{name.text, pack, {}};
  for (size_t i = 0; i < extents.size(); ++i)
    binder.variables.push_back(indices_.new_variable(pack ? name.text + std::to_string(i) : name.text, extents[i]));
  if (pack)
    frame.index_packs[name.text] = binder.variables;
  else
    note(name.span, entity(build_.index(frame.indices[name.text] = binder.variables[0])));
  return binder;
}

std::optional<Extent> Ranges::range_of(const syntax::Place &place, Frame &frame) {
  if (place.pieces.empty())
    return expressions_.extent(*place.expr, frame);
  Extent all{Size(1), ""};
  for (const Place &piece : place.pieces) {
    auto own = expressions_.extent(*piece.expr, frame);
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

bool Ranges::bind_pieces(const Place &place, Binder &binder, Frame &frame) {
  for (const Place &piece : place.pieces) {
    auto own = expressions_.extent(*piece.expr, frame);
    auto bound = own ? bind_index(piece.name, false, {*own}, frame) : std::nullopt;
    if (!bound)
      return false;
    indices_[bound->variables[0]].merged = binder.variables[0];
    indices_[binder.variables[0]].pieces.push_back(bound->variables[0]);
    binder.pieces.push_back(piece.name.text);
  }
  return true;
}

void Ranges::release(const Binder &binder, Frame &frame) {
  for (const std::string &piece : binder.pieces)
    frame.indices.erase(piece);
  frame.indices.erase(binder.name);
  frame.firsts.erase(binder.name);
  frame.index_packs.erase(binder.name);
}

// --- stages

std::optional<std::pair<Size, Size>> Ranges::range(const Tree &first, const Tree &end, Frame &frame) {
  auto from = expressions_.size(first, frame, "the first value of a range"),
       to = expressions_.size(end, frame, "the end of a range");
  if (!from || !to)
    return std::nullopt;
  Size count = *to - *from;
  auto refuse = [&](int64_t value, const std::string &when) {
    report(Code::E056, end.span, {"the length of this range", std::to_string(value), when});
    return std::nullopt;
  };
  if (count.is_constant() && count.constant() < 0)
    return refuse(count.constant(), " for these settings");
  Prover::Outcome outcome = knowledge_.prove_always(build_.of_size(count));
  if (outcome.kind == Prover::Outcome::refuted)
    return refuse(outcome.value, Knowledge::when(outcome));
  return std::pair(*from, count);
}

} // namespace heddle::checking
