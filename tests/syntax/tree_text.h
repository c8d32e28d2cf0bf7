// A tree as text: nested lists, one word per node, without places and parentheses. Two programs mean the same to the
// checker exactly when these texts are equal.
#pragma once

#include "dsl/syntax/parser.h"

#include <string>

namespace heddle::syntax {

std::string tree_text(const Expr &expr);
std::string tree_text(const Stmt &stmt);
std::string tree_text(const Member &member);
std::string tree_text(const Declaration &declaration);
std::string tree_text(const File &file);

} // namespace heddle::syntax
