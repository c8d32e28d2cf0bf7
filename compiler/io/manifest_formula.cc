// sum = product { ("+" | "-") product }, product = atom { ("*" | "//" | "%") atom },
// atom = number | name | "(" sum ")".
#include "compiler/io/manifest_formula.h"

#include <cctype>
#include <charconv>
#include <cmath>

namespace heddle {

namespace {

constexpr int deepest = 64; // of nested parentheses; the compiler writes a handful

class Formula {
public:
  Formula(std::string_view text, const std::map<std::string, double> *dims) : rest_(text), dims_(dims) {}

  /// Nothing where it is no formula; NaN where a dim is not known.
  std::optional<double> value() {
    double result = sum();
    skip_spaces();
    return good_ && rest_.empty() ? std::optional(result) : std::nullopt;
  }

private:
  void skip_spaces() {
    while (!rest_.empty() && rest_[0] == ' ')
      rest_.remove_prefix(1);
  }
  bool takes(std::string_view word) {
    skip_spaces();
    if (!good_ || !rest_.starts_with(word))
      return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  double sum() {
    double left = product();
    for (;;)
      if (takes("+"))
        left += product();
      else if (takes("-"))
        left -= product();
      else
        return left;
  }
  double product() {
    double left = atom();
    for (;;)
      if (takes("*"))
        left *= atom();
      else if (takes("//"))
        left = std::floor(left / atom());
      else if (takes("%")) {
        double right = atom();
        left -= std::floor(left / right) * right;
      } else
        return left;
  }
  double atom() {
    if (takes("(")) {
      good_ &= ++depth_ <= deepest;
      double inside = good_ ? sum() : NAN;
      --depth_;
      good_ &= takes(")");
      return inside;
    }
    size_t length = 0;
    while (length < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '_'))
      ++length;
    std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    double number = NAN;
    if (word.empty()) {
      good_ = false;
    } else if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      good_ &= error == std::errc() && end == word.data() + word.size();
    } else if (dims_) {
      auto found = dims_->find(std::string(word));
      number = found == dims_->end() ? NAN : found->second;
    }
    return number;
  }

  std::string_view rest_;
  const std::map<std::string, double> *dims_;
  int depth_ = 0;
  bool good_ = true;
};

} // namespace

bool is_formula(std::string_view text) { return Formula(text, nullptr).value().has_value(); }

std::optional<double> evaluate_formula(std::string_view text, const std::map<std::string, double> &dims) {
  std::optional<double> value = Formula(text, &dims).value();
  return value && std::isfinite(*value) ? value : std::nullopt;
}

} // namespace heddle
