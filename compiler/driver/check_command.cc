// `check`, `fmt` and `explain`: what makes no code.
#include "compiler/driver/commands.h"
#include "compiler/driver/counted.h"

#include "compiler/driver/library.h"
#include "compiler/driver/page_facts.h"
#include "compiler/driver/watch.h"
#include "compiler/emit/artifact/check_weights.h"
#include "compiler/io/input.h"
#include "compiler/io/output.h"
#include "dsl/syntax/parser.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <numeric>
#include <unistd.h>

namespace heddle {

/// What would be slow in a library for this machine. What keeps a library from being made is for `compile` to say.
static void warn_of_general_kernels(Model &model) {
  auto goal = find_compile_goal({});
  if (!goal)
    return;
  Progress progress(Progress::Show::nothing);
  auto compiled = compile_module(model, *goal, passes::PipelineStage::schedule, progress);
  if (!compiled)
    return;
  for (const std::string &line : general_lines(page_facts(model, *compiled->module, goal->target, {})))
    std::printf("%s\n", line.c_str());
}

static Status check_model(const ModelOptions &options) {
  if (is_artifact(options.path)) {
    auto library = Library::open(options.path, 1);
    if (!library)
      return library.error();
    auto manifest = library->manifest();
    if (!manifest)
      return manifest.error();
    if (Status intact = library->verify(); !intact)
      return intact;
    std::printf("%s: the library loads and its weights are intact\n", options.path.c_str());
    std::string others;
    for (const Manifest::Target &target : *manifest ? (*manifest)->targets : std::vector<Manifest::Target>())
      if (target.name != library->target())
        others += (others.empty() ? "" : ", ") + target.name;
    if (!others.empty())
      std::printf("this machine runs its code for %s; the others are for %s\n", library->target().c_str(),
                  others.c_str());
    return Done{};
  }
  auto model = load_model(options);
  if (!model)
    return model.error();
  if (model->weights)
    if (Status fits = check_weights(*model->program, *model->sources, *model->weights); !fits)
      return fits;
  size_t steps = 0;
  int64_t numbers = 0; // in all weights
  for (const Weight &weight : model->program->weights)
    numbers += std::accumulate(weight.stored.begin(), weight.stored.end(), int64_t(1), std::multiplies<>());
  for (const Entry &entry : model->program->entries)
    steps += entry.steps.size();
  const Program &program = *model->program;
  std::printf("%s: no errors; %s, %s, %s of %s\n", options.path.c_str(),
              counted(int64_t(program.entries.size()), "entry", "entries").c_str(),
              counted(int64_t(steps), "step", "steps").c_str(),
              counted(int64_t(program.weights.size()), "weight", "weights").c_str(),
              counted(numbers, "number", "numbers").c_str());
  if (model->weights)
    for (const std::string &name : unread_tensors(program, *model->weights))
      std::printf("tensor `%s` of the file is not read\n", name.c_str());
  warn_of_general_kernels(*model);
  return Done{};
}

Status check_command(const ModelOptions &options, bool watch) {
  if (!watch)
    return check_model(options);
  return watch_folder(options.own.empty() ? options.path : options.own, [&] {
    if (isatty(STDOUT_FILENO))
      std::fputs("\033[H\033[2J", stdout); // what was said before is over
    if (Status checked = check_model(options); !checked)
      print_error(checked.error());
    std::fflush(stdout);
  });
}

static Result<std::string> formatted(const std::string &path, const std::string &text) {
  Sources sources;
  Diagnostics diagnostics(sources);
  int source = sources.add(path, text);
  syntax::File file = syntax::parse(sources, source, diagnostics);
  if (diagnostics.has_errors())
    return Error{diagnostics.render(10, stderr_paint())};
  auto printed = syntax::print_in_place(sources, file);
  if (!printed)
    return Error{path + ": its comments would not stay at their words; this is a bug of Heddle, please report it with "
                        "the file"};
  return *printed;
}

Status format_command(const FormatOptions &options) {
  std::vector<std::pair<std::string, std::string>> changed; // all or none is written
  for (const std::string &path : options.files) {
    auto before = read_file(path);
    if (!before)
      return before.error();
    if (!path.ends_with(".heddle"))
      return Error{path + ": is no model file; their names end in .heddle"};
    auto after = formatted(path, *before);
    if (!after)
      return after.error();
    if (*after != *before)
      changed.emplace_back(path, *after);
  }
  std::string names;
  for (const auto &[path, text] : changed) {
    names += (names.empty() ? "" : ", ") + path;
    if (!options.check)
      if (Status written = rewrite_file(path, text); !written)
        return written;
  }
  if (options.check && !names.empty())
    return Error{"not in the canonical form: " + names + "; `heddle fmt` puts it right"};
  return Done{};
}

Status explain_command(const std::string &name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  auto code = find_code(upper);
  if (!code)
    return Error{"there is no message with the code " + name + "; codes look like E021"};
  std::string_view text = explanation(*code);
  std::printf("%.*s", int(text.size()), text.data());
  return Done{};
}

} // namespace heddle
