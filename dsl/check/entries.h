// Entries: inputs, body, outputs, and what they need.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Params;
class Updates;
class Conversions;
class Expressions;
class Gradients;
class Requirements;
class Signatures;
class Statements;

class Entries : Services {
public:
  Entries(Context &context, Conversions &conversions, Expressions &expressions, Gradients &gradients,
          Requirements &requirements, Signatures &signatures, Statements &statements, Updates &updates, Params &params)
      : Services(context), conversions_(conversions), expressions_(expressions), gradients_(gradients),
        requirements_(requirements), signatures_(signatures), statements_(statements), updates_(updates),
        params_(params) {}

  void add(const syntax::Entry &entry, Instance &model);
  void check_states();

private:
  bool add_input(Entry &out, const syntax::Formal &formal, Frame &frame);
  /// Reports a dim that no call can tell.
  void check_callable(const syntax::Entry &entry, const Entry &out);
  void add_outputs(Entry &out, const syntax::Entry &entry, Frame &frame);

  Conversions &conversions_;
  Expressions &expressions_;
  Gradients &gradients_;
  Requirements &requirements_;
  Signatures &signatures_;
  Statements &statements_;
  Updates &updates_;
  Params &params_;
};

} // namespace heddle::checking
