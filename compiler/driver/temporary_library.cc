#include "compiler/driver/temporary_library.h"

namespace heddle {

Result<TemporaryLibrary> TemporaryLibrary::make(Model &model, const CompileGoal &goal, int threads,
                                                Progress &progress) {
  auto folder = temporary_folder();
  if (!folder)
    return folder.error();
  std::string path = folder->path() + "/library";
  if (auto report = compile_model(model, {goal}, path, progress); !report)
    return report.error();
  auto library = Library::open(path, threads);
  if (!library)
    return library.error();
  return TemporaryLibrary{std::move(*folder), std::move(*library)};
}

} // namespace heddle
