// A compilation never fails for want of records: without them schedules are chosen by expected cost.
#include "compiler/driver/records.h"

#include "compiler/driver/cache_places.h"
#include "compiler/driver/commands.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/kernel_sizes.h"
#include "compiler/tune/known_records.h"
#include "compiler/tune/machine.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace heddle {

static std::string default_database() { return cache_place("HEDDLE_DB", "heddle/tuning.db"); }

Result<std::string> database_to_use(const std::string &db) {
  std::string path = db.empty() ? default_database() : db;
  if (path.empty() || path == "none")
    return Error{"no tuning database: $HEDDLE_DB says none, or there is no home; name a file with --db"};
  if (db.empty() && variable("HEDDLE_DB").empty()) {
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
    if (failed)
      return Error{path + ": its folder cannot be made: " + failed.message()};
  }
  return path;
}

static Result<std::optional<tune::Database>> find_database(const std::string &db) {
  std::string path = db.empty() ? default_database() : db;
  std::error_code failed;
  if (path.empty() || (db.empty() && !std::filesystem::exists(path, failed)))
    return std::optional<tune::Database>();
  auto file = tune::Database::read(path);
  if (file)
    return std::optional(std::move(*file));
  if (!db.empty())
    return file.error();
  std::fprintf(stderr, "note: %s; compiling without it\n", file.error().message.c_str());
  return std::optional<tune::Database>();
}

/// As --machine takes them.
static std::string quoted(const std::vector<std::string> &machines) {
  std::string out;
  for (const std::string &machine : machines)
    out += (out.empty() ? "\"" : ", \"") + machine + "\"";
  return out;
}

Status add_records(std::vector<CompileGoal> &goals, const std::string &db, const std::string &machine) {
  const bool names = !machine.empty();
  std::string option = "--machine " + quoted({machine}) + ": ";
  if (db == "none" || (db.empty() && default_database() == "none")) {
    if (names)
      return Error{usage_mark + option + "its records are left out by " +
                   (db.empty() ? "HEDDLE_DB=none" : "--db none")};
    return Done{};
  }
  bool known = false; // the named one, for some target
  std::string others;
  for (CompileGoal &goal : goals) {
    auto file = find_database(db);
    if (!file)
      return file.error();
    auto machines = tune::machines_with_records(*file, goal.target.name);
    if (!machines)
      return machines.error();
    std::string whose = goal.target.gpu ? "" : tune::this_machine();
    if (std::ranges::count(*machines, machine)) {
      known = true;
      whose = machine;
    }
    others += (others.empty() ? "for " : "; for ") + goal.target.name + " there are records of " +
              (machines->empty() ? "no machine" : quoted(*machines));
    goal.machines = *machines;
    goal.records = std::make_shared<tune::KnownRecords>(std::move(*file), goal.target.name, whose);
    goal.target.records = goal.records;
  }
  if (names && !known)
    return Error{option + others};
  return Done{};
}

std::string records_line(mlir::ModuleOp module, const CompileGoal &goal) {
  if (!goal.records)
    return "";
  size_t kernels = 0, measured = 0;
  auto expected = passes::kernel_sizes(module, true);
  for (mlir::func::FuncOp kernel : passes::kernels_of(module)) {
    ++kernels;
    measured += measured_classes(kernel, goal.target, passes::size_classes(kernel, expected)) > 0;
  }
  if (auto failed = goal.records->error())
    return "schedules: " + failed->message;
  if (goal.target.gpu && goal.records->machine().empty() && !goal.machines.empty())
    return "schedules: by expected cost; --machine goes by what was measured on " + quoted(goal.machines);
  if (measured == 0)
    return "";
  return "schedules: " + std::to_string(measured) + " of " + std::to_string(kernels) +
         (kernels == 1 ? " kernel" : " kernels") + " as measured on " + goal.records->machine();
}

} // namespace heddle
