// Every name that a piece of a tree mentions: finds settings, weights and sizes that nobody uses.
#pragma once

#include "dsl/syntax/tree.h"

#include <functional>
#include <set>

namespace heddle::checking {

/// Called with each name that is read (also of packs and of called functions) and its place.
using Mention = std::function<void(const std::string &, Span)>;

void mentions(const syntax::Expr &e, const Mention &found);
void mentions(const syntax::Type &type, const Mention &found);
void mentions(const syntax::Block &block, const Mention &found);
void mentions(const syntax::Function &function, const Mention &found);
void mentions(const syntax::Member &member, const Mention &found);
void mentions(const syntax::Declaration &declaration, const Mention &found);
/// Adds the names that a place of a target or of a reduction introduces.
void bind_names(const syntax::Place &place, std::set<std::string> &bound);

} // namespace heddle::checking
