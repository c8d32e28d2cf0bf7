// Params as a set, `params(encoder)`: loops over them, states for each of them, updates of them.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Conversions;
class Expressions;

class Params : Services {
public:
  Params(Context &context, Conversions &conversions, Expressions &expressions)
      : Services(context), conversions_(conversions), expressions_(expressions) {}

  /// Whether `e` is a call of the language's own `params`.
  bool is_params(const Tree &e, Frame &frame);
  /// The params of the modules that `params(…)` names, of the module around without any; in the order of their
  /// declaration.
  std::optional<std::vector<Entity>> params_of(const Tree &e, Frame &frame);
  Entity state_of_params(const syntax::Member &m, Frame &frame);
  /// `m[p]` of a state that there is for each param.
  std::optional<Entity> of_param(const Entity &family, const syntax::Name &name,
                                 const std::vector<syntax::Place> &places, Span span, Frame &frame);
  /// From here on it is the session's, for all entries; what it begins as is the file's.
  bool become_state(const syntax::Target &target, const Tensor *param);
  bool is_updated(const Tensor *param) const { return updated_params_.count(param) > 0; }
  /// Reports params that are updated where another one has the same path: they would be two tensors, and a file of
  /// weights has one.
  void check_paths();
  /// Makes the params that are updated begin as weights.
  void begin_as_weights();

private:
  Conversions &conversions_;
  Expressions &expressions_;
  /// What a session's params begin as.
  std::map<const Tensor *, Weight> updated_params_;
};

} // namespace heddle::checking
