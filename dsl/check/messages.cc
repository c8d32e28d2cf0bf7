#include "dsl/check/messages.h"

namespace heddle::checking {

namespace {

/// Messages that something is missing: where part of the text could not be read, it may be there.
bool of_absence(Code code) {
  switch (code) {
  case Code::E036:
  case Code::E040:
  case Code::E045:
  case Code::E046:
  case Code::E047:
  case Code::E055:
  case Code::E057:
  case Code::E059:
  case Code::E065:
  case Code::E077:
    return true;
  default:
    return false;
  }
}

} // namespace

Diagnostic &Messages::report(Code code, Span span, std::vector<std::string> args) {
  if (left_out_.any) {
    bool of_name = code == Code::E020 || code == Code::E052 || code == Code::E064;
    std::string name = of_name ? args[0] : "";
    name.erase(0, name.find_first_not_of(".{"));
    name.erase(name.find_last_not_of('}') + 1);
    if (of_absence(code) || (of_name && (left_out_.nameless || left_out_.names.count(name))))
      return unsaid_ = {};
  }
  Diagnostic &d = diagnostics_.report(code, span, std::move(args));
  if (!calls_.empty() && span.valid() && span.file != calls_[0].file && d.label.empty()) {
    auto at = sources_.position(calls_[0].file, calls_[0].begin);
    d.label = "called in line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + " of " +
              sources_.path(calls_[0].file);
  }
  return d;
}

void Messages::leave_out(const syntax::LeftOut &of_file) {
  left_out_.any |= of_file.any;
  left_out_.checkable &= of_file.checkable;
  left_out_.nameless |= of_file.nameless;
  left_out_.names.insert(of_file.names.begin(), of_file.names.end());
  left_out_.defined.insert(of_file.defined.begin(), of_file.defined.end());
}

std::string Messages::text(const Extent &extent) const {
  std::string value = text(extent.size);
  return extent.name.empty() || extent.name == value ? value : extent.name + " = " + value;
}

std::string Messages::text(const std::vector<Extent> &shape) const {
  std::string out = "[";
  for (const Extent &extent : shape)
    out += (out.size() > 1 ? ", " : "") + text(extent.size);
  return out + "]";
}

std::string count_of(size_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string members_of(int64_t first, int64_t count) {
  if (count == 0)
    return "no members";
  return "members " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

} // namespace heddle::checking
