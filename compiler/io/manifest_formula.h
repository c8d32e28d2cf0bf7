// Formulas as a manifest has them: numbers and dims with + - * // % and parentheses.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

/// Whether the text is a formula, whatever its dims are.
bool is_formula(std::string_view text);

/// Nothing where the text is no formula, has a dim that is not among these, or no finite value.
std::optional<double> evaluate_formula(std::string_view text, const std::map<std::string, double> &dims);

} // namespace heddle
