// The token ids that a Hugging Face folder or the command line tells: where generation begins and ends, and what it
// pads with.
#pragma once

#include "dsl/errors/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct TokenId {
  std::string name; // as in config.json: "eos_token_id"
  int64_t id;
};

/// `path`: a config.json, or a folder; then those of generation_config.json, else of config.json, as transformers reads
/// them. Several ids of one name stand one after another; a bad word of several tokens has a name of its own:
/// "bad_words_ids.0", ….
Result<std::vector<TokenId>> read_token_ids(const std::string &path);

/// `--token NAME=ID`.
Result<TokenId> parse_token_id(const std::string &text);
/// The ids with those of `asked` in the place of all that have the same name.
std::vector<TokenId> with_asked(std::vector<TokenId> ids, const std::vector<TokenId> &asked);

} // namespace heddle
