// What `--why` prints of a kernel: the candidates that come closest at a few sizes, and the variants that compute none
// of it.
#include "compiler/choose/choice.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace heddle {

static constexpr size_t classes_shown = 3, candidates_shown = 4;

static std::string text_of(const ScheduleRow &row) {
  bool plain = row.micro_kernel.empty() || row.micro_kernel == "fma";
  return plain ? to_text(row) : to_text(row) + " " + row.micro_kernel;
}

static std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%10.1f us", seconds * 1e6);
  return text;
}

/// The first, the middle and the last of the classes.
static std::vector<size_t> shown(size_t classes) {
  std::vector<size_t> out;
  for (size_t i = 0; i < classes_shown; ++i)
    if (size_t c = classes == 1 ? 0 : i * (classes - 1) / (classes_shown - 1); out.empty() || out.back() != c)
      out.push_back(c);
  return out;
}

std::string why(const Choice &choice) {
  std::string out;
  for (size_t c : shown(choice.classes.size())) {
    std::vector<size_t> order(choice.candidates.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](size_t candidate) { return choice.seconds[c][candidate]; });
    size_t selected = choice.selected(c);
    size_t rank = size_t(std::ranges::find(order, selected) - order.begin());
    if (!choice.classes[c].empty()) {
      out += "  at sizes";
      for (int64_t size : choice.classes[c])
        out += " " + std::to_string(size);
      out += "\n";
    }
    for (size_t i = 0; i < order.size(); ++i)
      if (i < candidates_shown || i == rank)
        out += (i == rank ? "  * " : "    ") + microseconds(choice.seconds[c][order[i]]) + "  " +
               text_of(choice.candidates[order[i]].row) +
               (choice.measured[c][order[i]]  ? ", measured\n"
                : !choice.counts(c, order[i]) ? ", where `heddle tune` has measured it\n"
                                              : "\n");
    if (order.size() > std::max(candidates_shown, rank + 1))
      out += "      and " + std::to_string(order.size() - std::max(candidates_shown, rank + 1)) + " that take longer\n";
  }
  for (const Choice::Refused &refused : choice.refused)
    out += "    not " + std::string(refused.variant) + ": " + refused.why + "\n";
  return out;
}

} // namespace heddle
