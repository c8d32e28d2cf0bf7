// One walk over the tree, rule by rule.
#include "dsl/check/mentioned_names.h"

namespace heddle::checking {

using namespace syntax;

namespace {

void mentions(const ExprPtr &e, const Mention &found) {
  if (e)
    checking::mentions(*e, found);
}

void mentions(const std::vector<Place> &places, const Mention &found) {
  for (const Place &place : places) {
    if (place.kind == Place::pack)
      found(place.name.text, place.span);
    mentions(place.expr, found);
    mentions(place.upper, found);
    mentions(place.pieces, found);
  }
}

} // namespace

void mentions(const Expr &e, const Mention &found) {
  if (e.kind == Expr::name)
    found(e.text, e.span);
  mentions(e.callee, found);
  for (const ExprPtr &arg : e.args)
    mentions(arg, found);
  mentions(e.places, found);
  mentions(e.outside, found);
}

void mentions(const Type &type, const Mention &found) {
  mentions(type.range, found);
  mentions(type.shape, found);
}

void mentions(const Block &block, const Mention &found) {
  for (const Stmt &s : block) {
    for (const Target &target : s.targets) {
      if (s.kind == Stmt::update)
        found(target.name.text, target.name.span);
      mentions(target.places, found);
    }
    for (const ExprPtr &e : s.exprs)
      mentions(e, found);
    mentions(s.body, found);
    mentions(s.otherwise, found);
  }
}

void mentions(const Function &function, const Mention &found) {
  for (const Formal &formal : function.formals)
    mentions(formal.type, found);
  for (const Type &type : function.results)
    mentions(type, found);
  mentions(function.expr, found);
  mentions(function.body, found);
}

void mentions(const Member &m, const Mention &found) {
  if (m.alias) // as "weight_l{LAYER}"
    for (size_t open = m.alias->find('{'); open != std::string::npos; open = m.alias->find('{', open + 1))
      found(m.alias->substr(open + 1, m.alias->find('}', open) - open - 1), m.span);
  mentions(m.type, found);
  mentions(m.stored, found);
  mentions(m.count.expr, found);
  mentions(m.count.upper, found);
  for (const ExprPtr &arg : m.args)
    mentions(arg, found);
  mentions(m.expr, found);
  if (m.kind == Member::sub)
    found(m.module.text, m.module.span);
  if (m.fn)
    mentions(*m.fn, found);
  if (m.entry_point) {
    for (const auto *list : {&m.entry_point->formals, &m.entry_point->results})
      for (const Formal &formal : *list) {
        mentions(formal.type, found);
        mentions(formal.initial, found);
      }
    mentions(m.entry_point->body, found);
  }
  for (const auto *list : {&m.members, &m.otherwise})
    for (const Member &inner : *list)
      mentions(inner, found);
}

void mentions(const Declaration &d, const Mention &found) {
  for (const Setting &setting : d.settings)
    mentions(setting.initial, found);
  for (const Bound &bound : d.bounds)
    mentions(bound.most, found);
  mentions(d.expr, found);
  if (d.fn)
    mentions(*d.fn, found);
  if (d.module_body)
    for (const Member &m : d.module_body->members)
      mentions(m, found);
}

void bind_names(const Place &place, std::set<std::string> &bound) {
  bound.insert(place.name.text);
  for (const Place &piece : place.pieces)
    bound.insert(piece.name.text);
}

} // namespace heddle::checking
