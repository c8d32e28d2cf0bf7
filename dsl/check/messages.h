// Messages about the program at hand: a place inside of a call is reported with the call, what the unreadable parts of
// a file may put right is not reported, and sizes have the author's names.
#pragma once

#include "dsl/check/entity.h"

namespace heddle::checking {

class Messages {
public:
  Messages(Sources &sources, Diagnostics &diagnostics, const Program &program)
      : sources_(sources), diagnostics_(diagnostics), program_(program) {}

  /// Where the place is in another file than the call that led there, the label says which call.
  Diagnostic &report(Code code, Span span, std::vector<std::string> args = {});
  bool has_errors() const { return diagnostics_.has_errors(); }
  Diagnostics &diagnostics() { return diagnostics_; }

  std::string text(Span span) const { return std::string(sources_.slice(span)); }
  std::string text(const Size &size) const { return size.text(program_.dim_names()); }
  std::string text(const Extent &extent) const; // "D = 768"
  std::string text(const std::vector<Extent> &shape) const;

  /// The calls that are being inlined, outermost first.
  const std::vector<Span> &calls() const { return calls_; }
  void enter_call(Span call) { calls_.push_back(call); }
  void leave_call() { calls_.pop_back(); }

  /// What could not be read, of all files.
  const syntax::LeftOut &left_out() const { return left_out_; }
  void leave_out(const syntax::LeftOut &of_file);

private:
  Sources &sources_;
  Diagnostics &diagnostics_;
  const Program &program_;
  std::vector<Span> calls_;
  syntax::LeftOut left_out_;
  Diagnostic unsaid_{}; // where `report` says nothing
};

/// "1 argument", "2 arguments".
std::string count_of(size_t n, const char *what);
/// "members 0 to 3", "no members".
std::string members_of(int64_t first, int64_t count);

} // namespace heddle::checking
