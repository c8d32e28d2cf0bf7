// Scales of activations, as `heddle calibrate` writes them and `compile --scales` reads them.
#pragma once

#include "dsl/errors/result.h"

#include <map>
#include <string>
#include <vector>

namespace heddle {

struct Scales {
  struct Activation {
    std::vector<std::string> shape; // extents as the model has them: "B", "S", "768"
    double largest;                 // the magnitude that becomes 127; larger ones do, too
  };
  std::string model;                             // its name
  std::map<std::string, Activation> activations; // by the path of the definition or the input's name
};

/// A file that is no such file, or damaged, gets one message.
Result<Scales> read_scales(const std::string &path);
Status write_scales(const std::string &path, const Scales &scales);

} // namespace heddle
