// Runs blocks of statements: names are bound, an `if` that is decided at run time joins what its arms define.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Definitions;
class Expressions;
class Loops;
class Requirements;
class Updates;

class Statements : Services {
public:
  Statements(Context &context, Definitions &definitions, Expressions &expressions, Loops &loops,
             Requirements &requirements, Updates &updates)
      : Services(context), definitions_(definitions), expressions_(expressions), loops_(loops),
        requirements_(requirements), updates_(updates) {}

  void run(const syntax::Block &block, Frame &frame);

private:
  void run(const syntax::Stmt &s, Frame &frame);
  /// Both arms are computed, each under its condition; what both define is chosen by it.
  void run_when(const syntax::Stmt &s, const Expr *test, Frame &frame);
  void bind(const syntax::Stmt &s, const std::vector<syntax::Name> &names, Frame &frame);
  /// Why two values cannot be joined; empty where they can.
  std::string difference(const Entity &yes, const Entity &no) const;
  Entity join(const std::string &name, const Expr *test, const Entity &yes, const Entity &no, Span span, Frame &frame);

  Definitions &definitions_;
  Expressions &expressions_;
  Loops &loops_;
  Requirements &requirements_;
  Updates &updates_;
};

} // namespace heddle::checking
