// Edit distance, with a limit that grows with the length of the name: a guess too far off confuses.
#include "dsl/check/nearest.h"

#include <algorithm>

namespace heddle::checking {
namespace {

size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

} // namespace

std::string nearest_of(const std::string &name, const std::vector<std::string> &candidates) {
  std::string best;
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string &candidate : candidates)
    if (size_t d = distance(name, candidate); d < least && d < std::max(name.size(), candidate.size())) {
      least = d;
      best = candidate;
    }
  return best;
}

} // namespace heddle::checking
