// Modules with their sizes bound: their members, and the paths of their weights.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Conversions;
class Expressions;
class Params;
class Requirements;

class Modules : Services {
public:
  Modules(Context &context, Conversions &conversions, Expressions &expressions, Params &params,
          Requirements &requirements)
      : Services(context), conversions_(conversions), expressions_(expressions), params_(params),
        requirements_(requirements) {}

  Instance *instantiate(const syntax::Module &module, FileScope *home, std::vector<Entity> args, std::string path,
                        std::vector<std::string> prefixes, Span span);

private:
  /// False where a requirement of the module does not hold for its sizes.
  bool add_members(Instance &instance, const std::vector<syntax::Member> &members, Frame &frame);
  /// Members of which nobody knows whether they are there: what is made of them is no news.
  void add_unknown(Instance &instance, const std::vector<syntax::Member> &members);
  Entity param(Instance &instance, const syntax::Member &m, Frame &frame);
  /// The alternatives for a member's step in the paths of weights: `as "bias_l{LAYER}"` takes a number or string in
  /// scope.
  std::vector<std::string> path_steps(const syntax::Member &m, Frame &frame);
  /// All paths of a member: each of the prefixes with each of its steps. None after a report: there are too many.
  std::optional<std::vector<std::string>> paths(const std::vector<std::string> &prefixes, const syntax::Member &m,
                                                Frame &frame);
  Entity sub(Instance &instance, const syntax::Member &m, Frame &frame);
  Entity state(const syntax::Member &m, Frame &frame);

  Conversions &conversions_;
  Expressions &expressions_;
  Params &params_;
  Requirements &requirements_;
  std::deque<Instance> instances_;
};

} // namespace heddle::checking
