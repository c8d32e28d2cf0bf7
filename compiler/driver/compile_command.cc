// `compile`: MODEL to a folder, with a line of progress and a line at the end.
#include "compiler/driver/commands.h"

#include "compiler/emit/artifact/check_weights.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace heddle {

static std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", bytes / 1e6);
  return text;
}

Status compile_command(const CompileCommand &options) {
  auto begun = std::chrono::steady_clock::now();
  auto target = find_compile_target(options.compile);
  if (!target)
    return target.error();
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  progress.stage("reading the model");
  auto model = load_model(options.model);
  if (!model)
    return model.error();
  if (Status fits = require_weights(*model); !fits)
    return fits;
  std::string output = options.output.empty() ? model->library_name : options.output;
  auto report = compile_model(*model, *target, output, progress);
  if (!report)
    return report.error();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (options.timings)
    for (const auto &[stage, time] : progress.timings())
      std::printf("%8.3f s  %s\n", time, stage.c_str());
  std::printf("%s: lib%s.so %s, weights %s, %d kernels, for %s, %.1f s\n", output.c_str(), model->library_name.c_str(),
              megabytes(report->library_bytes).c_str(), megabytes(report->weights_bytes).c_str(), report->kernels,
              target->name.c_str(), seconds);
  if (std::string converted = model->weights ? weight_conversions(*model->program, *model->weights) : "";
      !converted.empty())
    std::printf("weights: %s\n", converted.c_str());
  return Done{};
}

} // namespace heddle
