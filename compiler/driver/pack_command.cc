// `tune --pack`: a folder with the candidates of a GPU's kernels, timed where there is such a GPU. Nothing is measured
// here, and no weights are read: kernels are timed on numbers that the folder's program makes up.
#include "compiler/driver/commands.h"
#include "compiler/driver/counted.h"
#include "compiler/io/output.h"
#include "compiler/tune/pack.h"

#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace heddle {

Status pack_candidates(const TuneCommand &options) {
  std::error_code failed;
  if (std::filesystem::exists(options.pack, failed))
    return Error{options.pack + ": is there already, perhaps with timings; remove it, or name another folder"};
  CompileOptions without = options.compile;
  without.db = "none"; // records choose the schedules that are compiled, and all are candidates here
  auto goal = find_compile_goal(without);
  if (!goal)
    return goal.error();
  if (!goal->target.gpu)
    return Error{"--target " + goal->target.name +
                 ": --pack is for GPUs, such as cuda:sm_80; without it, tune measures on this CPU"};
  Progress progress(isatty(STDERR_FILENO) ? Progress::Show::line : Progress::Show::nothing);
  progress.stage("reading the model");
  auto model = load_model(options.model);
  if (!model)
    return model.error();
  auto dims = all_sizes(options.compile.dims, *model->program);
  if (!dims)
    return dims.error();
  std::string name = model->library_name;
  for (const auto &[dim, size] : *dims)
    name += " " + dim + "=" + std::to_string(size);
  auto module = compile_module(*model, *goal, passes::PipelineStage::schedule, progress);
  if (!module)
    return module.error();
  tune::Tasks tasks = tune::tasks_of(*module->module, goal->target);
  auto folder = OutputFolder::create(options.pack);
  if (!folder)
    return folder.error();
  auto packed = tune::pack(tasks.all, goal->target, name, progress, *folder);
  if (!packed)
    return packed.error();
  if (packed->candidates == 0)
    return Error{name + ": no kernel has more than one schedule for " + goal->target.name +
                 ", so nothing is to be timed"};
  if (Status written = folder->commit(); !written)
    return written;
  std::printf("%s: %s of %s for %s, %.1f MB; where the GPU is: %s/run; then here: heddle tune --import %s/timings\n",
              folder->path().c_str(), counted(packed->candidates, "candidate").c_str(),
              counted(packed->tasks, "kernel").c_str(), goal->target.name.c_str(), double(packed->bytes) / 1e6,
              std::filesystem::path(folder->path()).filename().c_str(), folder->path().c_str());
  for (const std::string &kernel : tasks.left_out)
    std::printf("  %s: not timed: its sizes change from call to call\n", kernel.c_str());
  for (const std::string &line : packed->left_out)
    std::printf("  not timed: %s\n", line.c_str());
  return Done{};
}

} // namespace heddle
