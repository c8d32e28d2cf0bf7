// Kernels are the long part; they compile on all threads, those with most operations first so that no thread ends
// alone with a long one. Small ones are compiled several at a time.
#include "compiler/emit/artifact/artifact.h"

#include "compiler/emit/artifact/header.h"
#include "compiler/emit/artifact/link.h"
#include "compiler/emit/artifact/pack_weights.h"
#include "compiler/emit/artifact/parallel.h"
#include "compiler/emit/artifact/python_module.h"
#include "compiler/emit/halide/emit.h"
#include "compiler/emit/host/host.h"
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
  std::vector<KernelRow> rows;
  size_t operations = 0;
};

} // namespace

/// What is compiled together; the same on every machine.
static std::vector<KernelJob> kernel_jobs(ModuleOp module) {
  std::vector<std::pair<size_t, func::FuncOp>> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(ir::names::kernel)) {
      size_t operations = 0;
      function.walk([&](Operation *) { ++operations; });
      kernels.emplace_back(operations, function);
    }
  std::stable_sort(kernels.begin(), kernels.end(), [](auto &a, auto &b) { return a.first > b.first; });
  std::vector<KernelJob> out;
  for (auto &[operations, kernel] : kernels) {
    int rows = kernel->getAttrOfType<ArrayAttr>(ir::names::schedule).size();
    for (int row = 0; row < rows; ++row) {
      if (out.empty() || out.back().operations >= enough_operations)
        out.emplace_back();
      out.back().rows.push_back({kernel, row});
      out.back().operations += operations;
    }
  }
  return out;
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

/// Objects of all rows of all kernels, as files in `scratch`.
static Result<std::vector<std::string>> compile_kernels(const ArtifactJob &job, const std::string &scratch,
                                                        Progress &progress) {
  std::vector<KernelJob> jobs = kernel_jobs(job.module);
  std::vector<std::string> objects(jobs.size());
  std::mutex mutex;
  std::string first_error;
  progress.stage("compiling kernels", jobs.size());
  for_each_parallel(jobs.size(), [&](int64_t i) {
    Result<KernelObject> object = emit_kernels(jobs[i].rows, job.target);
    Status written = object ? Status(Done{}) : Status(object.error());
    if (object) {
      objects[i] = scratch + "/" + object->symbol + ".o";
      written = write_scratch(objects[i], object->bytes);
    }
    progress.step();
    if (written)
      return true;
    std::lock_guard lock(mutex);
    if (first_error.empty())
      first_error = written.error().message;
    return false;
  });
  if (!first_error.empty())
    return Error{first_error};
  return objects;
}

static Result<std::string> compile_host_object(const ArtifactJob &job, const WeightsLayout &layout) {
  HostProgram program{job.module,      job.name,
                      job.target.name, cpu_features(job.module, job.target),
                      &layout,         job.form.embed_weights ? int64_t(packed_bytes(layout)) : 0};
  OwningOpRef<ModuleOp> host = build_host(program);
  if (!host)
    return Error{"the host program could not be built; this is a bug of Heddle"};
  llvm::LLVMContext context;
  auto module = host_to_llvm(program, *host, context);
  if (!module)
    return module.error();
  return compile_host(**module);
}

/// The packed weights as an object.
static Result<std::string> embedded_weights(const ArtifactJob &job, const WeightsLayout &layout,
                                            const std::string &scratch, Progress &progress) {
  std::vector<std::byte> bytes(packed_bytes(layout));
  pack_weights(job.module, layout, job.weights, bytes, progress);
  std::string path = scratch + "/weights";
  if (Status written = write_scratch(path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()}); !written)
    return written.error();
  return embed_file(path);
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
  WeightsLayout layout = lay_out_weights(job.module, job.name, job.target.name);
  if (job.form.embed_weights && int64_t(packed_bytes(layout)) > most_embedded)
    return Error{"--embed-weights: the model has " + std::to_string(layout.payload_bytes >> 20) +
                 " MB of weights, and a library carries at most " + std::to_string(most_embedded >> 20) +
                 " MB; leave it out, and ship " + job.name + ".weights beside the library"};

  auto objects = compile_kernels(job, scratch->path(), progress);
  if (!objects)
    return objects.error();

  progress.stage("compiling the host program");
  auto host = compile_host_object(job, layout);
  if (!host)
    return host.error();
  std::string carried;
  if (job.form.embed_weights) {
    auto object = embedded_weights(job, layout, scratch->path(), progress);
    if (!object)
      return object.error();
    carried = std::move(*object);
  }
  ModelInterface model = model_interface(job.module, job.name);
  LinkJob link;
  link.soname = "lib" + job.name + ".so";
  link.build = layout.build;
  link.version_script = scratch->path() + "/exports";
  std::string host_path = scratch->path() + "/host.o", weights_path = scratch->path() + "/weights.o",
              runtime_path = scratch->path() + "/runtime.a";
  std::string exports = "{ global: heddle_api_1;";
  for (const std::string &symbol : exported_symbols(model))
    exports += " " + symbol + ";";
  exports += " local: *; };\n";
  for (const auto &[path, bytes] :
       {std::pair(host_path, std::string_view(*host)), std::pair(weights_path, std::string_view(carried)),
        std::pair(runtime_path, std::string_view(embedded::runtime_archive()[0].bytes)),
        std::pair(link.version_script, std::string_view(exports))})
    if (Status written = write_scratch(path, bytes); !written)
      return written.error();
  link.objects = {host_path};
  link.objects.insert(link.objects.end(), objects->begin(), objects->end());
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
    std::vector<std::string> shown = exported_symbols(model);
    shown.emplace_back(HEDDLE_POOL_OF_PROGRAM);
    auto object = link_object(link.objects, shown);
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
    pack_weights(job.module, layout, job.weights, weights->bytes(), progress);
  }

  progress.stage("writing");
  for (const auto &[name, text] :
       {std::pair(job.name + ".h", c_header(model)),
        std::pair(std::string("heddle.h"), std::string(embedded::runtime_header()[0].bytes)),
        std::pair(job.name + ".pc", package_text(job)), std::pair(job.name + ".json", manifest(model, job, layout))})
    if (Status written = folder->write(name, text); !written)
      return written.error();
  if (job.form.shared)
    if (Status written = folder->write(job.name + "_model.py", python_module(model)); !written)
      return written.error();
  report.weights_bytes = layout.payload_bytes;
  for (auto function : ModuleOp(job.module).getOps<func::FuncOp>())
    if (auto rows = function->getAttrOfType<ArrayAttr>(ir::names::schedule))
      report.kernels += int(rows.size());
  if (Status committed = folder->commit(); !committed)
    return committed.error();
  progress.clear();
  return report;
}

} // namespace heddle
