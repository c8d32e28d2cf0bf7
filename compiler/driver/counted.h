// A number and what there are so many of, for messages: "1 call", "2 calls".
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

inline std::string counted(int64_t number, const std::string &one, const std::string &many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

inline std::string counted(int64_t number, const std::string &one) {
  return counted(number, one, one + (one.ends_with('s') ? "es" : "s"));
}

} // namespace heddle
