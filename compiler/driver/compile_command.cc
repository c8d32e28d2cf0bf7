// `compile`: MODEL to a folder, with a line of progress and a line at the end.
#include "compiler/driver/commands.h"

#include "compiler/emit/artifact/check_weights.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace heddle {

static std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", bytes / 1e6);
  return text;
}

/// "a, b, c"; of many the first ones.
static std::string listed(const std::vector<std::string> &names, const char *where_all = "") {
  constexpr size_t most = 8;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    out += (i ? ", " : "") + names[i];
  if (names.size() > most)
    out += " and " + std::to_string(names.size() - most) + " more" + where_all;
  return out;
}

/// "5 from config.json, 1 from --set, 2 defaults (H, EPS)", or nothing where there are no settings.
static std::string where_settings_came_from(const Model &model) {
  std::map<Program::Setting::From, std::vector<std::string>> names;
  for (const Program::Setting &setting : model.program->settings) {
    std::vector<std::string> &list = names[setting.from];
    if (std::find(list.begin(), list.end(), setting.name) == list.end())
      list.push_back(setting.name);
  }
  std::vector<std::string> parts;
  auto count = [&](Program::Setting::From from) { return std::to_string(names[from].size()); };
  if (!names[Program::Setting::config].empty())
    parts.push_back(count(Program::Setting::config) + " from " + model.config_name);
  if (!names[Program::Setting::asked].empty())
    parts.push_back(count(Program::Setting::asked) + " from --set");
  if (auto &defaults = names[Program::Setting::initial]; !defaults.empty())
    parts.push_back(count(Program::Setting::initial) + (defaults.size() == 1 ? " default (" : " defaults (") +
                    listed(defaults) + ")");
  std::string out;
  for (const std::string &part : parts)
    out += (out.empty() ? "" : ", ") + part;
  return out;
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
              megabytes(report->artifact.library_bytes).c_str(), megabytes(report->artifact.weights_bytes).c_str(),
              report->artifact.kernels, target->name.c_str(), seconds);
  if (std::string from = where_settings_came_from(*model); !from.empty())
    std::printf("settings: %s\n", from.c_str());
  for (const std::string &line : report->general)
    std::printf("%s\n", line.c_str());
  if (!model->weights)
    return Done{};
  if (std::string converted = weight_conversions(*model->program, *model->weights); !converted.empty())
    std::printf("weights: %s\n", converted.c_str());
  if (std::vector<std::string> unread = unread_tensors(*model->program, *model->weights); !unread.empty())
    std::printf("weights: %s not read: %s\n",
                unread.size() == 1 ? "1 tensor of the file is"
                                   : (std::to_string(unread.size()) + " tensors of the file are").c_str(),
                listed(unread, " (`heddle check` lists them)").c_str());
  return Done{};
}

} // namespace heddle
