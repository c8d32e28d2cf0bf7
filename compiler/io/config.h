// Settings from a config.json and from the command line.
#pragma once

#include "dsl/check/check.h"
#include "dsl/errors/result.h"

#include <map>
#include <string>
#include <utility>

namespace heddle {

/// Every scalar and every list of scalars of a JSON object; those of nested objects under dotted keys
/// ("backbone_config.depths"). `null`, and lists of anything else, are left out: no config can take them.
Result<std::map<std::string, Value>> read_config(const std::string &path);
Result<std::map<std::string, Value>> parse_config(const std::string &path, const std::string &text);

/// `--set K=V`: true and false, integers, reals, `[…]` of these, else (or in quotes) a string.
Result<std::pair<std::string, Value>> parse_setting(const std::string &text);

/// The value as `--set` takes it.
std::string to_text(const Value &value);

} // namespace heddle
