// Semantic tokens: what a name is, which its place alone does not tell.
#pragma once

#include "dsl/server/protocol.h"

namespace heddle::server {

/// The types and modifiers that the numbers of an answer mean.
json::Value semantic_legend();

} // namespace heddle::server
