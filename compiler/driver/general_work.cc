// Kernels that no schedule is made for, and row reductions that would be products, where it matters. The numbers are
// those of the page: for the dims' bounds or 64.
#include "compiler/driver/page_facts.h"

#include <algorithm>
#include <cstdio>

namespace heddle {

static constexpr double operations_per_byte = 4;
static constexpr double worth_a_word = 0.01;

static double work_of(const PageStep &step) {
  if (step.kernel < 0 || step.flops < 0 || step.moved < 0 || step.iterations < 0)
    return 0;
  return std::max(step.flops, operations_per_byte * step.moved) * double(step.iterations);
}

std::vector<GeneralWork> general_work(const PageFacts &facts) {
  std::vector<GeneralWork> out;
  for (size_t i = 0; i < facts.entries.size(); ++i) {
    double all = 0;
    std::vector<GeneralWork> found;
    for (const PageStep &step : facts.entries[i].steps) {
      double work = work_of(step);
      all += work;
      if (step.kernel < 0 || facts.kernels[step.kernel].why.empty())
        continue;
      auto same = std::find_if(found.begin(), found.end(), [&](auto &other) { return other.kernel == step.kernel; });
      if (same == found.end())
        same = found.insert(found.end(), {int(i), step.kernel, 0});
      same->share += work;
    }
    for (GeneralWork &general : found) {
      general.share = all > 0 ? general.share / all : 0;
      if (general.share > worth_a_word)
        out.push_back(general);
    }
  }
  return out;
}

std::string general_text(const PageFacts &facts, const GeneralWork &work) {
  char share[16];
  std::snprintf(share, sizeof share, work.share < 0.1 ? "%.1f" : "%.0f", 100 * work.share);
  std::string sizes;
  for (const auto &[name, value] : facts.dims)
    sizes += (sizes.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  return "`" + facts.kernels[work.kernel].reduced + "` takes " + share + " % of the work of `" +
         facts.entries[work.entry].name + "`" + (sizes.empty() ? "" : " (" + sizes + ")") +
         (facts.kernels[work.kernel].kind == "general"
              ? " in a general kernel, the slowest kind: "
              : " in a row reduction, which fetches a matrix for every row: ") +
         facts.kernels[work.kernel].why;
}

std::vector<std::string> general_lines(const PageFacts &facts) {
  std::vector<std::string> out;
  for (const GeneralWork &work : general_work(facts)) {
    const PageSource &at = facts.kernels[work.kernel].reduced_at;
    out.push_back(at.path + ":" + std::to_string(at.line) + ": " + general_text(facts, work));
  }
  return out;
}

} // namespace heddle
