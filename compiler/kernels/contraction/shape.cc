#include "compiler/kernels/contraction/schedule.h"

namespace heddle::contraction {

Shape shape_of(const ScheduleRow &row) {
  auto parameter = [&](const char *name) {
    auto found = row.params.find(name);
    return found == row.params.end() ? 0 : int(found->second);
  };
  return {parameter("rows"),
          parameter("width"),
          parameter("depth"),
          parameter("panels"),
          parameter("block"),
          parameter("tasks"),
          std::max(parameter("abreast"), 1),
          Ahead(parameter("ahead")),
          parameter("widened") != 0,
          find_micro_kernel(row.micro_kernel)};
}

} // namespace heddle::contraction
