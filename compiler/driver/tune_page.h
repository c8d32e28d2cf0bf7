// The report of `heddle tune --report`: one file that needs nothing else.
#pragma once

#include "compiler/driver/tuned_model.h"
#include "compiler/tune/search.h"

namespace heddle {

struct TuneFacts {
  std::string model, sizes, machine, target;
  int threads = 1;
  Comparison compared; // rounds = 0: the library is what it was, or has no entry that can be called
  bool kept = false;
  std::vector<std::string> left_out; // kernels that were not measured
};

std::string tune_page(const tune::Searcher &search, const TuneFacts &facts);

} // namespace heddle
