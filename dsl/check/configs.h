// The values of settings: from the command line, a config.json, or their defaults.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;

class Configs : Services {
public:
  Configs(Context &context, Expressions &expressions) : Services(context), expressions_(expressions) {}

  Entity value(const syntax::Setting &setting, Frame &frame);
  void check_known();

private:
  /// `initial`: its default, whose kind it keeps; null: it has none, and is a whole number where `file` has it as a
  /// size.
  Entity setting_value(const syntax::Setting &setting, const Value &given, const Entity *initial,
                       const FileScope &file);
  Entity value_entity(const Value &value);

  Expressions &expressions_;
  std::vector<std::pair<std::string, std::vector<std::string>>> settings_; // name and keys of every config
};

} // namespace heddle::checking
