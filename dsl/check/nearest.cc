// Edit distance, with a limit that grows with the length of the name: a guess too far off confuses.
#include "dsl/check/nearest.h"

#include "llvm/ADT/StringRef.h"

namespace heddle::checking {

constexpr size_t longest = 200; // the time that a comparison takes grows with the product of both lengths

std::string nearest_of(const std::string &name, const std::vector<std::string> &candidates) {
  std::string best;
  if (name.size() > longest)
    return best;
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string &candidate : candidates)
    if (candidate.size() <= longest)
      if (size_t d = llvm::StringRef(name).edit_distance(candidate, /*AllowReplacements=*/true, unsigned(least));
          d < least && d < std::max(name.size(), candidate.size())) {
        least = d;
        best = candidate;
      }
  return best;
}

} // namespace heddle::checking
