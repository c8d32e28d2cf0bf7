#include "compiler/driver/cache_places.h"

#include <cstdlib>

namespace heddle {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string cache_place(const char *name, const std::string &place) {
  if (std::string named = variable(name); !named.empty())
    return named;
  if (std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/" + place;
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/" + place;
}

} // namespace heddle
