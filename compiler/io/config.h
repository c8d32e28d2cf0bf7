// Settings from a config.json and from the command line.
#pragma once

#include "dsl/check/check.h"
#include "dsl/errors/result.h"

#include <map>
#include <string>
#include <utility>

namespace heddle {

/// Every scalar and every list of a JSON object; those of nested objects under dotted keys ("backbone_config.depths").
/// `null` is left out. What no config can take is there, too, so that one that asks for it is refused: in a list an
/// empty list stands for each item that is no scalar; "key." for an object with nothing in it, or one that is nested
/// too deeply.
Result<std::map<std::string, Value>> read_config(const std::string &path);
Result<std::map<std::string, Value>> parse_config(const std::string &path, const std::string &text);

/// `--set K=V`: true and false, integers, reals, `[…]` of these, else (or in quotes) a string.
Result<std::pair<std::string, Value>> parse_setting(const std::string &text);

/// The value as `--set` takes it.
std::string to_text(const Value &value);

} // namespace heddle
