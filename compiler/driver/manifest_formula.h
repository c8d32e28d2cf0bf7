// Formulas over dims, as the manifest has them: numbers, names, + - * // % and parentheses.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace heddle {

/// The value for these dims, or nothing where the text is empty, is no formula or names another dim.
std::optional<double> evaluate_formula(const std::string &text, const std::map<std::string, double> &dims);

} // namespace heddle
