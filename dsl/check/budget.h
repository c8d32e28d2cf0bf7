// How much work a check may be: a program that unrolls or inlines too much is stopped with a message.
#pragma once

#include "dsl/check/messages.h"

namespace heddle::checking {

class Budget {
public:
  explicit Budget(Messages &messages) : messages_(messages) {}

  /// Counts an expression evaluated, an iteration unrolled or a module made; false once there has been too much, which
  /// is reported.
  bool spend(Span span) {
    constexpr int64_t most_work = 300'000; // BERT-base takes 5,278
    if (stopped_ || ++work_ <= most_work)
      return !stopped_;
    stopped_ = true;
    messages_.report(Code::E071, messages_.calls().empty() ? span : messages_.calls()[0]);
    return false;
  }
  /// Nothing more is evaluated: a recursion has been reported.
  void stop() { stopped_ = true; }
  void resume() { stopped_ = false; }
  bool stopped() const { return stopped_; }

private:
  Messages &messages_;
  int64_t work_ = 0;
  bool stopped_ = false;
};

} // namespace heddle::checking
