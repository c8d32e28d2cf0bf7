// Names the formats that are given as safetensors by mistake, by their first bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace heddle {

/// "is a NumPy archive; …" with how to make safetensors of `path`; nothing where the bytes are of no known format.
std::optional<std::string> other_format(const std::string &path, std::span<const std::byte> bytes);

} // namespace heddle
