// `require`: tested when compiling if the settings decide it, else by every call.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;

class Requirements : Services {
public:
  Requirements(Context &context, Expressions &expressions) : Services(context), expressions_(expressions) {}

  void run(const syntax::Stmt &s, Frame &frame);
  /// A requirement outside of entries: false where it is known not to hold.
  bool declare(const Tree &e, const std::string &message, Span span, Frame &frame);
  /// An entry tests those declared requirements all of whose dims its inputs or states give; it knows nothing of
  /// others.
  void add_declared(const syntax::Entry &entry, const Entry &out, Frame &frame);

private:
  Expressions &expressions_;
};

} // namespace heddle::checking
