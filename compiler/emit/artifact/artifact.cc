// Kernels are the long part; they compile on all threads, those with most operations first so that no thread ends
// alone with a long one. Small ones are compiled several at a time.
#include "compiler/emit/artifact/artifact.h"

#include "compiler/emit/artifact/header.h"
#include "compiler/emit/artifact/kernel_cache.h"
#include "compiler/emit/artifact/link.h"
#include "compiler/emit/artifact/pack_weights.h"
#include "compiler/emit/artifact/parallel.h"
#include "compiler/emit/artifact/python_module.h"
#include "compiler/emit/artifact/symbols.h"
#include "compiler/emit/device/device.h"
#include "compiler/emit/device/resources.h"
#include "compiler/emit/host/host.h"
#include "compiler/emit/kernels/emit.h"
#include "compiler/io/output.h"
#include "compiler/io/unfinished.h"
#include "compiler/ir/dialect.h"
#include "compiler/version.h"
#include "embedded/runtime_archive.h"
#include "embedded/runtime_header.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

namespace heddle {

using namespace mlir;

namespace {

/// Operations from which on a kernel is compiled alone. What every compilation has beside its kernels takes some 20 ms,
/// an element-wise kernel of 10 operations 25 ms, attention of 60 half a second.
constexpr size_t enough_operations = 48;

/// Code reaches what is beside it within 2 GB.
constexpr int64_t most_embedded = int64_t(1) << 30;

struct KernelJob {
  size_t module; // of the job's: its number
  std::vector<KernelRow> rows = {};
  size_t operations = 0;
};

} // namespace

/// What of a module is compiled together; the same on every machine. A kernel of several rows shares no job with
/// another one, so that it is found in the cache whatever the others are.
static void add_kernel_jobs(size_t number, ModuleOp module, std::vector<KernelJob> &jobs) {
  std::vector<std::pair<size_t, func::FuncOp>> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(ir::names::kernel)) {
      size_t operations = 0;
      function.walk([&](Operation *) { ++operations; });
      kernels.emplace_back(operations, function);
    }
  std::stable_sort(kernels.begin(), kernels.end(), [](auto &a, auto &b) { return a.first > b.first; });
  bool begins = true; // a job of its own
  for (auto &[operations, kernel] : kernels) {
    std::vector<int> rows = rows_with_code(kernel);
    begins |= rows.size() > 1;
    for (int row : rows) {
      if (begins || jobs.back().operations >= enough_operations)
        jobs.push_back({number});
      begins = false;
      jobs.back().rows.push_back({kernel, row});
      jobs.back().operations += operations;
    }
    begins = rows.size() > 1;
  }
}

/// A file of the scratch folder: unlike what the user keeps, it needs no sync and no rename.
static Status write_scratch(const std::string &path, std::string_view bytes) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out)
    return Done{};
  return Error{path + ": cannot write: " + std::strerror(errno) + " (temporary files go to $TMPDIR)"};
}

/// What the kernels of a module are compiled to: files with objects, or what a device runs.
struct KernelCode {
  std::vector<std::string> objects;
  DeviceCode device;
};

/// An object with the rows of a job, under their own names.
static Result<std::string> compile_rows(llvm::ArrayRef<KernelRow> rows, const Target &target,
                                        const KernelCache &cache) {
  std::string key = cache.key(rows, target);
  std::optional<std::string> object = cache.find(key);
  if (!object) {
    Result<KernelObject> made = emit_kernels(rows, target, {.nameless = true});
    if (!made)
      return made.error();
    object = std::move(made->bytes);
    cache.keep(key, *object);
  }
  std::vector<std::pair<std::string, std::string>> names;
  for (auto [place, row] : llvm::enumerate(rows))
    names.emplace_back(nameless_symbol(place), kernel_symbol(row.kernel, row.row));
  return rename_symbols(*object, names);
}

/// The rows of a job, as they go into the library.
static Status compile_job(const KernelJob &job, const Target &target, const KernelCache &cache, const std::string &path,
                          DeviceCode &device, std::mutex &mutex) {
  if (!target.gpu) {
    Result<std::string> object = compile_rows(job.rows, target, cache);
    return object ? write_scratch(path, *object) : Status(object.error());
  }
  for (const KernelRow &row : job.rows) {
    Result<DeviceRow> made = emit_device_row(row, target);
    if (!made)
      return made.error();
    std::lock_guard lock(mutex);
    device.rows.emplace(kernel_symbol(row.kernel, row.row), std::move(*made));
  }
  return Done{};
}

/// All rows of all kernels, objects as files in `scratch`, by module.
static Result<std::vector<KernelCode>> compile_kernels(const ArtifactJob &job, const std::string &scratch,
                                                       Progress &progress) {
  std::vector<KernelJob> jobs;
  for (auto [number, module] : llvm::enumerate(job.modules))
    add_kernel_jobs(number, module.module, jobs);
  if (job.modules.size() > 1)
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const KernelJob &a, const KernelJob &b) { return a.operations > b.operations; });
  std::vector<KernelCode> out(job.modules.size());
  std::vector<std::string> paths;
  for (const KernelJob &kernels : jobs) {
    paths.push_back(scratch + "/kernels" + std::to_string(paths.size()) + ".o");
    if (!job.modules[kernels.module].target.gpu)
      out[kernels.module].objects.push_back(paths.back());
  }
  std::mutex mutex;
  std::string first_error;
  KernelCache cache(job.cache);
  progress.stage("compiling kernels", jobs.size());
  for_each_parallel(jobs.size(), [&](int64_t i) {
    size_t module = jobs[i].module;
    Status written = compile_job(jobs[i], job.modules[module].target, cache, paths[i], out[module].device, mutex);
    progress.step();
    if (written)
      return true;
    std::lock_guard lock(mutex);
    if (first_error.empty())
      first_error = written.error().message;
    return false;
  });
  cache.prune();
  if (!first_error.empty())
    return Error{first_error};
  return out;
}

/// Machine code of every module for a GPU, where there is an assembler.
static Status assemble_kernels(const ArtifactJob &job, std::vector<KernelCode> &kernels, Progress &progress) {
  if (job.form.ptxas.empty())
    return Done{};
  for (auto [number, module] : llvm::enumerate(job.modules)) {
    const Gpu *gpu = module.target.gpu;
    if (!gpu)
      continue;
    progress.stage("assembling for the GPU");
    DeviceCode &device = kernels[number].device;
    auto assembled = assemble(job.form.ptxas, device.ptx(*gpu), *gpu);
    if (!assembled)
      return assembled.error();
    device.cubin = std::move(assembled->cubin);
  }
  return Done{};
}

static Result<std::string> compile_host_object(const ArtifactJob &job, const ModelInterface &interface,
                                               ArrayRef<WeightsLayout> layouts, size_t number,
                                               const DeviceCode &device) {
  auto [module, target] = job.modules[number];
  HostProgram program{module,           interface,
                      target.name,      cpu_features(module, target),
                      &layouts[number], job.form.embed_weights ? int64_t(packed_bytes(layouts[number])) : 0,
                      int(number),      number + 1 == job.modules.size(),
                      target.gpu,       target.gpu ? &device : nullptr};
  OwningOpRef<ModuleOp> host = build_host(program);
  if (!host)
    return Error{"the host program could not be built; this is a bug of Heddle"};
  llvm::LLVMContext context;
  auto ir = host_to_llvm(program, *host, context);
  if (!ir)
    return ir.error();
  return compile_host(**ir);
}

/// Objects of all targets. Those of a target after the first become one, which shows its descriptor alone: kernels and
/// functions of entries have the same names for all of them. `texts`: files of PTX, where these are asked for.
static Result<std::vector<std::string>> compile_targets(const ArtifactJob &job, const ModelInterface &interface,
                                                        ArrayRef<WeightsLayout> layouts, const std::string &scratch,
                                                        Progress &progress, std::map<std::string, std::string> &texts) {
  auto kernels = compile_kernels(job, scratch, progress);
  if (!kernels)
    return kernels.error();
  if (Status assembled = assemble_kernels(job, *kernels, progress); !assembled)
    return assembled.error();
  for (size_t number = 0; job.form.ptx && number < job.modules.size(); ++number)
    if (const Gpu *gpu = job.modules[number].target.gpu)
      texts[job.name + ".sm_" + std::to_string(gpu->sm) + ".ptx"] = (*kernels)[number].device.ptx(*gpu);
  progress.stage("compiling the host program");
  std::vector<std::string> out;
  for (size_t number = 0; number < job.modules.size(); ++number) {
    auto host = compile_host_object(job, interface, layouts, number, (*kernels)[number].device);
    if (!host)
      return host.error();
    std::string path = scratch + "/host" + std::to_string(number) + ".o";
    if (Status written = write_scratch(path, *host); !written)
      return written.error();
    std::vector<std::string> &objects = (*kernels)[number].objects;
    objects.insert(objects.begin(), path);
    if (number > 0) {
      auto object = link_object(objects, {descriptor_symbol(int(number))});
      if (!object)
        return object.error();
      path = scratch + "/target" + std::to_string(number) + ".o";
      if (Status written = write_scratch(path, *object); !written)
        return written.error();
      objects = {path};
    }
    out.insert(out.end(), objects.begin(), objects.end());
  }
  return out;
}

/// The packed weights as an object.
static Result<std::string> embedded_weights(const ArtifactJob &job, ArrayRef<WeightsLayout> layouts,
                                            const std::string &scratch, Progress &progress) {
  std::vector<std::byte> bytes(packed_bytes(layouts.front()));
  if (Status packed = pack_weights(job.modules, layouts, job.weights, bytes, progress); !packed)
    return packed.error();
  std::string path = scratch + "/weights";
  if (Status written = write_scratch(path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()}); !written)
    return written.error();
  return embed_file(path);
}

static ArtifactReport::Part part_of(TargetModule target, const WeightsLayout &layout) {
  ArtifactReport::Part out{target.target.name};
  for (auto function : target.module.getOps<func::FuncOp>())
    out.kernels += function->hasAttr(ir::names::schedule);
  for (const WeightsLayout::Item &item : layout.items) {
    out.weights_bytes += item.bytes;
    out.shared_bytes += item.shared ? item.bytes : 0;
  }
  for (ir::WeightOp weight : ir::packed_weights(target.module))
    if (weight->hasAttr(ir::names::second_copy))
      out.copied_bytes += layout[weight.getSymName()].bytes;
  return out;
}

static std::vector<std::string> target_names(const ArtifactJob &job) {
  std::vector<std::string> out;
  for (const TargetModule &module : job.modules)
    out.push_back(module.target.name);
  return out;
}

/// For pkg-config, from wherever the folder lies.
static std::string package_text(const ArtifactJob &job) {
  const char *system = "-lm -lpthread -ldl";
  std::string out = "Name: " + job.name + "\nDescription: a model compiled by Heddle\nVersion: " + version +
                    "\nCflags: -I${pcfiledir}\nLibs: ";
  out += job.form.shared || job.form.archive ? "-L${pcfiledir} -l" + job.name : "${pcfiledir}/" + job.name + ".o";
  return out + (job.form.shared ? "\nLibs.private: " : " ") + system + "\n";
}

Result<ArtifactReport> write_artifact(const ArtifactJob &job, Progress &progress) {
  auto folder = OutputFolder::create(job.output);
  if (!folder)
    return folder.error();
  auto scratch = temporary_folder();
  if (!scratch)
    return scratch.error();
  std::vector<WeightsLayout> layouts = lay_out_weights(job.modules, job.name);
  const WeightsLayout &layout = layouts.front(); // what all of them agree on
  if (job.form.embed_weights && int64_t(packed_bytes(layout)) > most_embedded)
    return Error{"--embed-weights: the model has " + std::to_string(layout.payload_bytes >> 20) +
                 " MB of weights, and a library carries at most " + std::to_string(most_embedded >> 20) +
                 " MB; leave it out, and ship " + job.name + ".weights beside the library"};

  ModelInterface model = model_interface(job.modules.front().module, job.name);
  std::map<std::string, std::string> texts;
  auto objects = compile_targets(job, model, layouts, scratch->path(), progress, texts);
  if (!objects)
    return objects.error();
  std::string carried;
  if (job.form.embed_weights) {
    auto object = embedded_weights(job, layouts, scratch->path(), progress);
    if (!object)
      return object.error();
    carried = std::move(*object);
  }
  LinkJob link;
  link.soname = "lib" + job.name + ".so";
  link.build = layout.build;
  link.version_script = scratch->path() + "/exports";
  std::string weights_path = scratch->path() + "/weights.o", runtime_path = scratch->path() + "/runtime.a";
  std::string exports = "{ global: heddle_api_1;";
  for (const std::string &symbol : exported_symbols(model))
    exports += " " + symbol + ";";
  exports += " local: *; };\n";
  for (const auto &[path, bytes] : {std::pair(weights_path, std::string_view(carried)),
                                    std::pair(runtime_path, std::string_view(embedded::runtime_archive()[0].bytes)),
                                    std::pair(link.version_script, std::string_view(exports))})
    if (Status written = write_scratch(path, bytes); !written)
      return written.error();
  link.objects = std::move(*objects);
  if (!carried.empty())
    link.objects.push_back(weights_path);
  link.objects.push_back(runtime_path);

  progress.stage("linking");
  ArtifactReport report;
  auto keep = [&](const std::string &name, const std::string &bytes) {
    report.libraries.emplace_back(name, bytes.size());
    return folder->write(name, bytes);
  };
  if (job.form.shared) {
    auto library = link_library(link);
    if (!library)
      return library.error();
    if (Status written = keep(link.soname, *library); !written)
      return written.error();
  }
  if (job.form.archive || job.form.object) {
    auto note = pool_note();
    if (!note)
      return note.error();
    std::string path = scratch->path() + "/note.o";
    if (Status written = write_scratch(path, *note); !written)
      return written.error();
    link.objects.insert(link.objects.begin(), path);
    auto object = link_object(link.objects, exported_symbols(model));
    auto archive = object ? archive_of(job.name + ".o", *object) : object;
    if (!archive)
      return archive.error();
    Status written = job.form.archive ? keep("lib" + job.name + ".a", *archive) : Status(Done{});
    if (written && job.form.object)
      written = keep(job.name + ".o", *object);
    if (!written)
      return written.error();
  }

  if (!job.form.embed_weights) {
    auto weights = folder->map(job.name + ".weights", packed_bytes(layout));
    if (!weights)
      return weights.error();
    if (Status packed = pack_weights(job.modules, layouts, job.weights, weights->bytes(), progress); !packed)
      return packed.error();
  }

  progress.stage("writing");
  for (const auto &[name, text] : texts)
    if (Status written = folder->write(name, text); !written)
      return written.error();
  for (const auto &[name, text] :
       {std::pair(job.name + ".h", c_header(model, target_names(job), job.modules.front().module)),
        std::pair(std::string("heddle.h"), std::string(embedded::runtime_header()[0].bytes)),
        std::pair(job.name + ".pc", package_text(job)), std::pair(job.name + ".json", manifest(model, job, layouts))})
    if (Status written = folder->write(name, text); !written)
      return written.error();
  if (job.form.shared)
    if (Status written = folder->write(job.name + "_model.py", python_module(model)); !written)
      return written.error();
  report.weights_bytes = layout.payload_bytes;
  for (size_t number = 0; number < job.modules.size(); ++number)
    report.parts.push_back(part_of(job.modules[number], layouts[number]));
  if (Status committed = folder->commit(); !committed)
    return committed.error();
  progress.clear();
  return report;
}

} // namespace heddle
