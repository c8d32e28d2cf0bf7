// sum = product { ("+" | "-") product }, product = atom { ("*" | "//" | "%") atom }, atom = number | name | "(" sum
// ")".
#include "compiler/driver/manifest_formula.h"

#include <cctype>
#include <cmath>

namespace heddle {

namespace {

class Formula {
public:
  Formula(const std::string &text, const std::map<std::string, double> &dims) : at_(text.c_str()), dims_(dims) {}

  std::optional<double> value() {
    double result = sum();
    return good_ && *at_ == 0 ? std::optional(result) : std::nullopt;
  }

private:
  bool takes(const std::string &word) {
    while (*at_ == ' ')
      ++at_;
    if (std::string(at_).compare(0, word.size(), word) != 0)
      return false;
    at_ += word.size();
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
      double inside = sum();
      good_ &= takes(")");
      return inside;
    }
    std::string word;
    while (std::isalnum(static_cast<unsigned char>(*at_)) || *at_ == '_')
      word += *at_++;
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])))
      return std::stod(word);
    auto found = dims_.find(word);
    good_ &= found != dims_.end();
    return found == dims_.end() ? 0 : found->second;
  }

  const char *at_;
  const std::map<std::string, double> &dims_;
  bool good_ = true;
};

} // namespace

std::optional<double> evaluate_formula(const std::string &text, const std::map<std::string, double> &dims) {
  return Formula(text, dims).value();
}

} // namespace heddle
