// `compile`: MODEL to a folder, with a line of progress and a line at the end.
#include "compiler/driver/commands.h"
#include "compiler/driver/ptxas.h"

#include "compiler/emit/artifact/check_weights.h"
#include "compiler/emit/host/c_names.h"
#include "compiler/io/output.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>
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

static Result<ArtifactForm> find_form(const CompileCommand &options) {
  ArtifactForm out{.shared = false, .embed_weights = options.embed_weights};
  std::istringstream words(options.emit);
  for (std::string word; std::getline(words, word, ',');)
    if (word == "so")
      out.shared = true;
    else if (word == "a")
      out.archive = true;
    else if (word == "o")
      out.object = true;
    else if (word == "ptx")
      out.ptx = true;
    else
      return Error{usage_mark + ("--emit " + options.emit + ": there is no form `" + word +
                                 "`; there are so, a, o and ptx, with commas between")};
  if (out.ptx && !out.shared && !out.archive && !out.object)
    return Error{usage_mark +
                 ("--emit " + options.emit + ": the text of kernels is written beside a library; add so, " +
                  "a or o, or print it with `heddle show --stage ptx`")};
  return out;
}

/// Whether files and functions may have that name.
static Status check_name(const std::string &name) {
  std::string good = library_name(name);
  if (name.empty() || good == name)
    return Done{};
  return Error{usage_mark +
               ("--name " + name + ": a library's name is made of lower-case letters, digits and " +
                "underscores, begins with no digit, and hides no file of the system, such as <string.h>; `" + good +
                "` would do")};
}

/// For make and ninja: `made` from the files.
static Status write_depfile(const std::string &path, const std::string &made, const std::vector<std::string> &files) {
  auto spelled = [](const std::string &file) {
    std::string out;
    for (char c : std::filesystem::absolute(file).lexically_normal().string()) {
      if (c == ' ' || c == '#' || c == '\\')
        out += '\\';
      out += c == '$' ? "$$" : std::string(1, c);
    }
    return out;
  };
  std::string text = spelled(made) + ":";
  for (const std::string &file : files)
    text += " \\\n  " + spelled(file);
  return write_file(path, text + "\n");
}

Status compile_command(const CompileCommand &options) {
  auto begun = std::chrono::steady_clock::now();
  auto form = find_form(options);
  if (!form)
    return form.error();
  if (Status good = check_name(options.name); !good)
    return good;
  if (options.print_name) {
    Result<std::string> name = options.name;
    if (options.name.empty())
      name = find_library_name(options.model);
    if (!name)
      return name.error();
    std::printf("%s\n", name->c_str());
    return Done{};
  }
  auto goals = find_compile_goals(options.compile);
  if (!goals)
    return goals.error();
  bool for_gpu = std::any_of(goals->begin(), goals->end(), [](const CompileGoal &goal) { return goal.target.gpu; });
  if (form->ptx && !for_gpu)
    return Error{usage_mark +
                 ("--emit " + options.emit + ": ptx is for GPUs; name one by --target, such as cuda:sm_80")};
  if (for_gpu) {
    auto ptxas = find_ptxas();
    if (!ptxas)
      return ptxas.error();
    form->ptxas = *ptxas;
  }
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  progress.stage("reading the model");
  auto model = load_model(options.model);
  if (!model)
    return model.error();
  if (Status fits = require_weights(*model); !fits)
    return fits;
  if (!options.name.empty())
    model->library_name = options.name;
  std::string output = options.output.empty() ? model->library_name : options.output;
  if (Status place = try_to_write(options.depfile); !place)
    return place;
  auto report = compile_model(*model, *goals, output, progress, *form);
  if (!report)
    return report.error();
  const auto &libraries = report->artifact.libraries;
  if (!options.depfile.empty()) {
    std::vector<std::string> files = model->files;
    for (const std::string &file : {options.compile.scales, options.compile.db})
      if (!file.empty() && file != "none")
        files.push_back(file);
    if (Status written = write_depfile(options.depfile, output + "/" + libraries[0].first, files); !written)
      return written;
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (options.timings)
    for (const auto &[stage, time] : progress.timings())
      std::printf("%8.3f s  %s\n", time, stage.c_str());
  std::fputs(report->why.c_str(), stdout);
  std::string files;
  for (const auto &[name, bytes] : libraries)
    files += name + " " + megabytes(bytes) + ", ";
  int kernels = 0;
  std::vector<std::string> targets;
  for (const ArtifactReport::Part &part : report->artifact.parts) {
    kernels += part.kernels;
    targets.push_back(part.target);
  }
  std::printf("%s: %sweights %s%s, %d kernel%s, for %s, %.1f s\n", output.c_str(), files.c_str(),
              megabytes(report->artifact.weights_bytes).c_str(), form->embed_weights ? " in it" : "", kernels,
              kernels == 1 ? "" : "s", listed(targets).c_str(), seconds);
  if (targets.size() > 1)
    for (const ArtifactReport::Part &part : report->artifact.parts)
      std::printf("%s: %d kernel%s, weights %s%s\n", part.target.c_str(), part.kernels, part.kernels == 1 ? "" : "s",
                  megabytes(part.weights_bytes).c_str(),
                  part.shared_bytes ? (" (" + megabytes(part.shared_bytes) + " shared with the above)").c_str() : "");
  for (const ArtifactReport::Part &part : report->artifact.parts)
    if (part.copied_bytes)
      std::printf("weights: %s are second copies in another layout%s; --single-copy stores none\n",
                  megabytes(part.copied_bytes).c_str(), targets.size() > 1 ? (" for " + part.target).c_str() : "");
  if (std::string from = where_settings_came_from(*model); !from.empty())
    std::printf("settings: %s\n", from.c_str());
  for (const std::string &line : report->records)
    std::printf("%s\n", line.c_str());
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
